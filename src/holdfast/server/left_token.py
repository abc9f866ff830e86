"""
The file by which the node's own user is known to the admin port, kept true of that port.

It has the digest of the certificate that is shown there. So it is written anew before the port
shows another one: a certificate that he could not be told of is not taken, as it would shut him
out of his own machine.

`leave` is called on the loop, at the start; `prepare` on the thread that reads files again, and
`take_away` on the one that closes the node's files. What a node that was killed has left stands
until it is started anew; it is of no use to who cannot read it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

import structlog

from holdfast.admin.token_file import FILE_NAME, write_token
from holdfast.errors import ConfigError
from holdfast.mirrors.disk import MirroredDisk
from holdfast.mirrors.lanes import Outcome, attempt
from holdfast.transport.tls import Contexts, ServerTls

log = structlog.get_logger("holdfast.server")


class LeftToken:
    """One node's, in each of its directories."""

    __slots__ = ("_bound", "_directories", "_mirrors", "_tls", "_token")

    def __init__(
        self,
        directories: Sequence[Path],
        token: str,
        tls: ServerTls | None,
        mirrors: MirroredDisk | None = None,
    ) -> None:
        """
        Leave nothing yet.

        Args:
            directories: The node's own; it is to be in one of them at least.
            token: What proves that its own user asks.
            tls: What the admin port goes by; None: it speaks in clear.
            mirrors: Of several directories; only those that are active are written to, and one
                that hangs is not waited for.
        """
        self._mirrors = mirrors
        self._directories = directories
        self._token = token
        self._tls = tls
        self._bound = ("", 0)

    def leave(self, bound: tuple[str, int]) -> None:
        """Tell of the port that is open at this address."""
        self._bound = bound
        self._write("" if self._tls is None else self._tls.fingerprint)

    def prepare(self, made: Iterable[tuple[ServerTls, Contexts]]) -> None:
        """
        Tell of the certificate that the port is about to show, if it is another one.

        Raises:
            ConfigError: It could be written nowhere; the file is as it was.
        """
        for tls, contexts in made:
            if tls is not self._tls or contexts.fingerprint == tls.fingerprint:
                continue
            why = self._write(contexts.fingerprint)
            if why is not None:
                path = self._directories[0] / FILE_NAME
                problem = (
                    f"tls.{tls.options.name}.certificate: commands on this machine could not be"
                    f" told of it, as {path} cannot be written: {why.strerror}; mend that, then"
                    f" read it again"
                )
                raise ConfigError([problem])

    def take_away(self) -> None:
        """Leave no file of a node that has stopped; one of another process stays."""
        self._in_each(self._take_from)

    def _write(self, fingerprint: str) -> OSError | None:
        """Write it; gives why it stands nowhere, None: it does."""
        outcomes = self._in_each(lambda it: self._write_in(it, fingerprint))
        failures: list[OSError] = []
        for _, error in outcomes:
            if isinstance(error, OSError):
                failures.append(error)
                log.warning("commands on this machine need --secret-file", reason=str(error))
            elif error is not None:
                raise error
        return failures[-1] if failures and len(failures) == len(outcomes) else None

    def _write_in(self, directory: Path, fingerprint: str) -> None:
        write_token(directory, *self._bound, self._token, fingerprint)

    def _take_from(self, directory: Path) -> None:
        path = directory / FILE_NAME
        with suppress(FileNotFoundError):  # As in a mirror that was added since; it has not failed.
            if self._token in path.read_text("ascii", "replace").split("\n"):
                path.unlink()

    def _in_each(self, act: Callable[[Path], None]) -> Sequence[Outcome]:
        if self._mirrors is not None:
            return self._mirrors.on_each(act)
        return [attempt(partial(act, it)) for it in self._directories]

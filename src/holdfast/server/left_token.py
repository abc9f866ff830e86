"""
The file by which the node's own user is known to the admin port, kept true of that port.

It has the digest of the certificate that is shown there. So it is written anew before the port
shows another one: a certificate that he could not be told of is not taken, as it would shut him
out of his own machine.

`leave` is called on the loop, at the start; `prepare` on the thread that reads files again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import structlog

from holdfast.admin.token_file import FILE_NAME, write_token
from holdfast.errors import ConfigError
from holdfast.transport.tls import Contexts, ServerTls

log = structlog.get_logger("holdfast.server")


class LeftToken:
    """One node's, in each of its directories."""

    __slots__ = ("_bound", "_directories", "_tls", "_token")

    def __init__(self, directories: Sequence[Path], token: str, tls: ServerTls | None) -> None:
        """
        Leave nothing yet.

        Args:
            directories: The node's own; it is to be in one of them at least.
            token: What proves that its own user asks.
            tls: What the admin port goes by; None: it speaks in clear.
        """
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

    def _write(self, fingerprint: str) -> OSError | None:
        """Write it; gives why it stands nowhere, None: it does."""
        why: OSError | None = None
        count = 0
        for directory in self._directories:
            try:
                write_token(directory, *self._bound, self._token, fingerprint)
                count += 1
            except OSError as error:
                why = error
                log.warning("commands on this machine need --secret-file", reason=str(error))
        return None if count else why

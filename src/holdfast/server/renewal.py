"""
Certificates that are read again while the node runs: at a SIGHUP, and when an operator asks.

All files are read and checked before any of them counts. Whoever is connected stays; whoever comes
from then on is shown the new certificate and judged by the new authorities and revocations.

Invariants:
    Files are read on a thread of their own: a disk that hangs stops nobody.
    There is one reading at a time; what is asked for meanwhile is one more, at its end.
    What this node could be linked with no member by takes the place of nothing that it could.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Sequence
from datetime import UTC, datetime
from typing import Protocol, TypeAlias

import structlog

from holdfast.environment.clock import SystemClock
from holdfast.errors import ConfigError
from holdfast.replication.link_certificates import refusal_of_own
from holdfast.transport.tls import Contexts, ServerTls, TlsOptions, read_again

log = structlog.get_logger("holdfast.server")

Made: TypeAlias = Sequence[tuple[ServerTls, Contexts]]
"""What was read, and who is to go by it."""


class HangUps(Protocol):
    """Who hears a SIGHUP that does not end the process."""

    reload: Callable[[], None] | None
    """What to call on its own thread; None: nothing is read anew."""


class Renewal:
    """What a node shows by TLS, and who asks to have it read again."""

    def __init__(self, hang_ups: HangUps | None = None) -> None:
        self._hang_ups = hang_ups
        self._shown: Collection[ServerTls] = ()
        self._reading: asyncio.Task[None] | None = None
        self._is_asked = False
        self._turn = asyncio.Lock()
        self._member = ""
        self.prepare: Callable[[Made], None] = lambda _made: None
        """Called on the reading thread before the new files count; its ConfigError refuses them."""

    def begin(self, shown: Collection[ServerTls], *, member: str = "") -> None:
        """
        Obey signals from now on, if there is anything to be read again.

        Args:
            shown: What may be read again.
            member: The name by which links by TLS know this node; empty: there are none.
        """
        self._shown = shown
        self._member = member
        if shown and self._hang_ups is not None:
            loop = asyncio.get_running_loop()
            self._hang_ups.reload = lambda: _in_loop(loop, self.ask)

    def ask(self) -> None:
        """Have the files read again; the log tells what became of it."""
        if self._reading is not None:
            self._is_asked = True
            return
        self._reading = asyncio.get_running_loop().create_task(self._read())

    async def _read(self) -> None:
        problems: list[str] = []
        try:
            await self.renew()
        except ConfigError as error:
            problems = error.problems
        finally:
            for problem in problems:
                log.error("not read anew: what was shown before is shown on", reason=problem)
            self._reading = None
            if self._is_asked:
                self._is_asked = False
                self.ask()

    async def renew(self) -> list[str]:
        """
        Read all files again; gives the names of the tables.

        Raises:
            ConfigError: Some cannot be used, and nothing has changed.
        """
        async with self._turn:
            made, warnings = await asyncio.to_thread(self._made)
            for each, contexts in made:
                each.use(contexts)
        names = [each.options.name for each, _ in made]
        if names:
            log.info("certificates were read anew", tls=", ".join(names))
        for sentence in warnings:
            log.warning("certificates", notice=sentence)
        return names

    def _made(self) -> tuple[Made, list[str]]:
        made = read_again(self._shown)
        warnings = warnings_of(each.options for each in self._shown)
        if self._member:
            warnings += _unlinked(made, self._member)
        self.prepare(made)
        return made, warnings


def _unlinked(made: Made, member: str) -> list[str]:
    """
    Say what links this node with no member, where what it goes by now does so neither.

    Raises:
        ConfigError: What it goes by now is better.
    """
    told: list[str] = []
    worse: list[str] = []
    for each, contexts in made:
        if contexts.dialing is None:
            continue
        options = each.options
        why = refusal_of_own(contexts, options, member)
        if why:
            found = worse if not refusal_of_own(each.used, options, member) else told
            found.append(
                f"tls.{options.name}.certificate: {options.certificate} links this node with no"
                f" member: {why}"
            )
    if worse:
        raise ConfigError(worse)
    return told


def warnings_of(options: Iterable[TlsOptions]) -> list[str]:
    """Say what others will refuse now or soon, though it can be used; reads the files."""
    now = datetime.fromtimestamp(SystemClock().wall_microseconds() // 1_000_000, UTC)
    found: list[str] = []
    for each in options:
        try:
            found += each.warnings(now)
        except OSError as error:
            found.append(f"tls.{each.name}: {error.strerror}")
    return found


def _in_loop(loop: asyncio.AbstractEventLoop, ask: Callable[[], None]) -> None:
    """Ask on the loop, if that is still there."""
    try:
        loop.call_soon_threadsafe(ask)
    except RuntimeError:
        log.warning("not read anew: the node is at its end")

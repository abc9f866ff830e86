"""
Certificates that are read again while the node runs: at a SIGHUP, and when an operator asks.

All files are read and checked before any of them counts. Whoever is connected stays; whoever comes
from then on is shown the new certificate and judged by the new authorities and revocations.

Invariants:
    Files are read on a thread of their own: a disk that hangs stops nobody.
    There is one reading at a time; what is asked for meanwhile is one more, at its end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable
from datetime import UTC, datetime
from typing import Protocol

import structlog

from holdfast.environment.clock import SystemClock
from holdfast.errors import ConfigError
from holdfast.transport.tls import Contexts, ServerTls, TlsOptions, read_again

log = structlog.get_logger("holdfast.server")


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
        self.on_renewed: Callable[[], None] = lambda: None
        """Called on the loop once the new files count."""

    def begin(self, shown: Collection[ServerTls]) -> None:
        """Obey signals from now on, if there is anything to be read again."""
        self._shown = shown
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
            made, warnings = await asyncio.to_thread(_read, self._shown)
            for each, contexts in made:
                each.use(contexts)
        names = [each.options.name for each, _ in made]
        if names:
            log.info("certificates were read anew", tls=", ".join(names))
        for sentence in warnings:
            log.warning("certificates", notice=sentence)
        self.on_renewed()
        return names


def _read(shown: Collection[ServerTls]) -> tuple[list[tuple[ServerTls, Contexts]], list[str]]:
    return read_again(shown), warnings_of(each.options for each in shown)


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

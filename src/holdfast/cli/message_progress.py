"""
What `send` and `receive` tell a person while they work, on standard error.

A bar appears when it takes longer than a second and somebody watches; interruptions are told as
they happen. Counting is done by the work itself, the bar looks at the count now and then.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any

from holdfast.cli.message_patience import Patience
from holdfast.cli.output import watched_console, write_error
from holdfast.client import Connection, Interrupted, Resumed, connect
from holdfast.environment.clock import SystemClock

if TYPE_CHECKING:
    from rich.progress import Progress

PATIENCE_SECONDS = 1.0
"""Work that is done by then needs no bar."""

CONNECT_PATIENCE_SECONDS = 2.0
"""A person who waits longer for a broker wants to know what for."""

LOOK_SECONDS = 0.1


class Tally:
    """How many, since when."""

    def __init__(self) -> None:
        self.count = 0
        self.seconds = 0.0
        # The loop's own time has steps of a millisecond on uvloop.
        self._clock = SystemClock()
        self._started_at: float | None = None

    def start(self) -> None:
        """The work begins."""
        self._started_at = self._clock.monotonic()

    def stop(self) -> None:
        """The work has ended."""
        if self._started_at is not None:
            self.seconds = self._clock.monotonic() - self._started_at

    @property
    def has_started(self) -> bool:
        """Whether there is anything to tell of."""
        return self._started_at is not None

    @property
    def rate(self) -> float:
        """How many per second."""
        return self.count / self.seconds if self.seconds > 0 else 0.0

    def line(self, what: str) -> str:
        """The summary, as a person reads it."""
        noun = "message" if self.count == 1 else "messages"
        return f"{what} {self.count:,} {noun} in {self.seconds:.2f} s ({self.rate:,.0f} per second)"


@contextlib.asynccontextmanager
async def connected(
    uri: str,
    login: str | None,
    passcode: str | None,
    patience: Patience,
    *,
    is_quiet: bool,
    **options: Any,
) -> AsyncIterator[Connection]:
    """
    A connection that tells its interruptions, for as long as there is patience.

    Args:
        options: Of `connect`, beside who one is.
    """
    waiting = asyncio.get_running_loop().call_later(
        CONNECT_PATIENCE_SECONDS, _tell, is_quiet, f"waiting for a broker at {uri}"
    )
    try:
        async with (
            patience.held(),
            connect(uri, login=login, passcode=passcode, **options) as connection,
        ):
            waiting.cancel()
            patience.connected(connection)
            connection.on_interrupted(lambda event: _tell(is_quiet, _interruption(event)))
            connection.on_resumed(lambda event: _tell(is_quiet, _resumption(event)))
            yield connection
    finally:
        waiting.cancel()


def _tell(is_quiet: bool, text: str) -> None:
    if not is_quiet:
        write_error(f"holdfast: {text}")


def _interruption(event: Interrupted) -> str:
    return f"interrupted: {event.reason}; {event.unconfirmed_count:,} unconfirmed"


def _resumption(event: Resumed) -> str:
    node = f" ({event.node})" if event.node else ""
    return f"resumed at {event.address}{node} after {event.outage_seconds:.2f} s"


@contextlib.asynccontextmanager
async def progress_shown(
    what: str, total: int | None, count: Callable[[], int], *, is_quiet: bool
) -> AsyncIterator[None]:
    """Show a bar while the block takes long."""
    console = watched_console(is_quiet=is_quiet)
    if console is None:
        yield
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn(what),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[rate]:>8,.0f}/s"),
        TimeElapsedColumn(),
    )
    progress = Progress(*columns, console=console, transient=True)
    watching = asyncio.create_task(_watch(progress, what, total, count))
    try:
        yield
    finally:
        watching.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await watching
        progress.stop()


async def _watch(
    progress: Progress, what: str, total: int | None, count: Callable[[], int]
) -> None:
    before = count()
    await asyncio.sleep(PATIENCE_SECONDS)
    rate = (count() - before) / PATIENCE_SECONDS
    task = progress.add_task(what, total=total, completed=count(), rate=rate)
    progress.start()
    while True:
        before = count()
        await asyncio.sleep(LOOK_SECONDS)
        # Smoothed, or nobody could read it.
        rate += ((count() - before) / LOOK_SECONDS - rate) * 0.2
        progress.update(task, completed=count(), rate=rate)

"""
The pause of the loop between two looks at the clock; whatever happens meanwhile cuts it short.

What comes from a socket, a member or the disk has its turn at once. But it may leave something for
a look a little later: acknowledgements that wait for company, a client that is to be closed. So
the next look is as soon after it as if nobody had rested for long.

Owned by the loop.
"""

from __future__ import annotations

import asyncio


class Rest:
    """One pause after the other."""

    __slots__ = ("_ends_at", "_short_seconds", "_timer", "_waiter", "is_long")

    def __init__(self) -> None:
        self._waiter: asyncio.Future[None] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._ends_at = 0.0
        self._short_seconds = 0.0
        self.is_long = False
        """It is under way, and `cut_short` may end it earlier."""

    async def take(self, seconds: float, short_seconds: float) -> None:
        """Rest for so long; once something happened, no longer than `short_seconds` after it."""
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        self._short_seconds = short_seconds
        self._begin(loop, seconds)
        self.is_long = seconds > short_seconds
        try:
            await self._waiter
        finally:
            self.is_long = False
            if self._timer is not None:
                self._timer.cancel()

    def cut_short(self) -> None:
        """Something has happened; asked while `is_long` says so."""
        self.is_long = False
        loop = asyncio.get_running_loop()
        if self._timer is not None and self._ends_at - loop.time() > self._short_seconds:
            self._timer.cancel()
            self._begin(loop, self._short_seconds)

    def _begin(self, loop: asyncio.AbstractEventLoop, seconds: float) -> None:
        self._ends_at = loop.time() + seconds
        self._timer = loop.call_later(seconds, self._end)

    def _end(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

"""
Answers that grow with queues and connections, put together in slices.

The admin port lives on the node's loop: while an answer is put together nobody else is served. So
whatever goes through all queues or connections looks at the clock after each and lets the loop turn
when its slice is over. What is told of each is of the moment it was looked at.
"""

from __future__ import annotations

import asyncio
import heapq
import time
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, Final, TypeVar

_T = TypeVar("_T")

SLICE_SECONDS: Final = 0.002
_SORTED_AT_ONCE: Final = 1_000


class Slices:
    """The time that one answer takes, in slices."""

    __slots__ = ("_clock", "_ends_at", "_seconds")

    def __init__(
        self, clock: Callable[[], float] = time.monotonic, seconds: float = SLICE_SECONDS
    ) -> None:
        self._clock = clock
        self._seconds = seconds
        self._ends_at = clock() + seconds

    async def rest(self) -> None:
        """Let the loop turn, if the slice is over."""
        if self._clock() >= self._ends_at:
            await asyncio.sleep(0)
            self._ends_at = self._clock() + self._seconds

    async def each(self, items: Iterable[_T]) -> AsyncIterator[_T]:
        """Give what is made lazily, and rest between."""
        for item in items:
            yield item
            await self.rest()

    async def ordered(self, items: Iterable[_T], key: Callable[[_T], Any]) -> AsyncIterator[_T]:
        """Give all in order: sorted piece by piece, and merged as it is asked for."""
        pieces: list[list[_T]] = [[]]
        async for item in self.each(items):
            if len(pieces[-1]) >= _SORTED_AT_ONCE:
                pieces[-1].sort(key=key)
                pieces.append([])
            pieces[-1].append(item)
        pieces[-1].sort(key=key)
        async for item in self.each(heapq.merge(*pieces, key=key)):
            yield item

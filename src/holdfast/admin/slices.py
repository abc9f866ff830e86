"""
Answers that grow with queues and connections, put together in slices.

The admin port lives on the node's loop: while an answer is put together nobody else is served. So
whatever goes through all queues or connections looks at the clock now and then, and leaves the loop
to the clients when its slice is over, for four times as long: a fifth of the time is all that such
answers get. One at a time is put together, so that many who ask make it later, not the clients'
turns longer; who asks for the same while it is put together gets the same.

What is told of each queue is of the moment it was looked at.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterable
from itertools import islice
from typing import Any, Final, Generic, TypeVar

from holdfast.admin.status import plain

_T = TypeVar("_T")

SLICE_SECONDS: Final = 0.001
PAUSE_SECONDS: Final = 0.004
_PAUSES_PER_WORK: Final = PAUSE_SECONDS / SLICE_SECONDS
_PAUSE_SECONDS_MAX: Final = 0.05
"""A machine that is busy with other things makes any work long."""
_AT_ONCE: Final = 32
"""So many values are taken between two looks at the clock: 0.1 ms at 3 µs each."""


SHARE_MAX: Final = 0.05
"""The part of the time that looking for the same again and again may take."""

_REMEMBERED_MAX: Final = 8


class Slices:
    """The time that one answer takes, in slices."""

    __slots__ = ("_begun_at", "_clock", "_pause_seconds", "_slice_seconds", "_worked_seconds")

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        *,
        slice_seconds: float = SLICE_SECONDS,
        pause_seconds: float = PAUSE_SECONDS,
    ) -> None:
        self._clock = clock
        self._slice_seconds = slice_seconds
        self._pause_seconds = pause_seconds
        self._begun_at = clock()
        self._worked_seconds = 0.0

    @property
    def worked_seconds(self) -> float:
        """How long was worked so far, without the pauses."""
        return self._worked_seconds + self._clock() - self._begun_at

    async def rest(self) -> None:
        """Leave the loop to others for a while, if the slice is over."""
        worked = self._clock() - self._begun_at
        if worked >= self._slice_seconds:
            self._worked_seconds += worked
            await asyncio.sleep(self._pause_seconds)
            self._begun_at = self._clock()

    async def some(self, items: Iterable[_T], count: int = _AT_ONCE) -> AsyncIterator[list[_T]]:
        """Give what is made lazily, some at a time, and rest between."""
        left = iter(items)
        while taken := list(islice(left, count)):
            yield taken
            await self.rest()


async def listed(
    head: dict[str, Any],
    name: str,
    values: Iterable[Any],
    slices: Slices,
    count: int = _AT_ONCE,
    *,
    as_row: Callable[[Any], Any] = plain,
) -> list[bytes]:
    """Write a JSON object whose last field is a list, some values at a time; None is none."""
    begin = json.dumps(head)[:-1] + (", " if head else "") + f'"{name}": ['
    found = [begin.encode()]
    separator = ""
    async for some in slices.some(values, count):
        rows = [as_row(value) for value in some if value is not None]
        if rows:
            found.append((separator + json.dumps(rows)[1:-1]).encode())
            separator = ", "
    return [*found, b"]}"]


class Desk:
    """Where answers are put together, piece by piece, one after the other."""

    __slots__ = ("_clock", "_one_at_a_time", "_under_way")

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._one_at_a_time = asyncio.Lock()
        self._under_way: dict[Hashable, asyncio.Task[list[bytes]]] = {}

    async def answer(
        self, question: Hashable, make: Callable[[Slices], Awaitable[list[bytes]]]
    ) -> list[bytes]:
        """Give the answer to a question; to the same one, asked meanwhile, the same."""
        task = self._under_way.get(question)
        if task is None:
            task = asyncio.create_task(self._make(make))
            self._under_way[question] = task

            def forget(_: asyncio.Task[list[bytes]]) -> None:
                del self._under_way[question]

            task.add_done_callback(forget)
        return await asyncio.shield(task)  # Whoever leaves does not take it from the others.

    async def _make(self, make: Callable[[Slices], Awaitable[list[bytes]]]) -> list[bytes]:
        async with self._one_at_a_time:
            return await make(Slices(self._clock))


class Pace:
    """
    One slice for many who have work ready, one piece after the other.

    Whoever waited for the same event would go on in the same turn of the loop, together as long as
    they are many. Here all of them together have a slice of that turn, and a fifth of the time.
    """

    __slots__ = ("_one_at_a_time", "_slices")

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._one_at_a_time = asyncio.Lock()
        self._slices = Slices(clock)

    async def turn(self) -> None:
        """Wait for the time for one short piece of work, which is done before the next wait."""
        async with self._one_at_a_time:
            await self._slices.rest()


class Turnstile:
    """
    One after the other, whoever comes; how long each worked decides when the next may.

    All together have a fifth of the time. Who comes when nobody was let in just now waits for
    nothing. Where several lines wait, those who stand first in them take turns.
    """

    __slots__ = ("_clock", "_free_at", "_let_in_at", "_lines", "_one_at_a_time")

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lines: dict[Hashable, asyncio.Lock] = {}
        self._one_at_a_time = asyncio.Lock()
        self._let_in_at = 0.0
        self._free_at = 0.0

    async def enter(self, line: Hashable) -> None:
        """Wait for the time for some work, which is done before the next wait."""
        async with self._lines.setdefault(line, asyncio.Lock()):
            await self._one_at_a_time.acquire()
            try:
                pause = self._free_at - self._clock()
                if pause > 0.0:
                    await asyncio.sleep(pause)
            except BaseException:
                self._one_at_a_time.release()
                raise
            self._let_in_at = self._clock()
            asyncio.get_running_loop().call_soon(self._leave)  # Once the work is done.

    def _leave(self) -> None:
        now = self._clock()
        pause = _PAUSES_PER_WORK * (now - self._let_in_at)
        self._free_at = now + min(pause, _PAUSE_SECONDS_MAX)
        self._one_at_a_time.release()


class Remembered(Generic[_T]):
    """
    What takes long to find, and is given again for a while: the longer it took, the longer.

    So however often it is asked for, it is worked on for a small share of the time. What was found
    quickly is found anew each time.
    """

    __slots__ = ("_clock", "_found", "_share")

    def __init__(
        self, share: float = SHARE_MAX, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._share = share
        self._clock = clock
        self._found: dict[Hashable, tuple[float, float, _T]] = {}
        """When it was found, how long it is given again, and what it is."""

    async def find(
        self, question: Hashable, slices: Slices, find: Callable[[], Awaitable[_T]]
    ) -> tuple[_T, float]:
        """Give what was found, and how many seconds ago."""
        known = self._found.get(question)
        now = self._clock()
        if known is not None and now - known[0] < known[1]:
            return known[2], now - known[0]
        before = slices.worked_seconds
        found = await find()
        worked = slices.worked_seconds - before
        self._found.pop(question, None)
        while len(self._found) >= _REMEMBERED_MAX:
            del self._found[next(iter(self._found))]
        self._found[question] = self._clock(), worked / self._share, found
        return found, 0.0

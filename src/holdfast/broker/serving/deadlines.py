"""
What is to be done when: a heap from which what does not count any more goes as other things come.

From the middle of a heap nothing can be taken. What is due in a week and done with in a second
would stand there all week, as often as a client likes. So as each comes, two others are looked at
in turns, and those that do not count are let go of.

Invariants:
    There are never more than about twice as many as have counted at once, whatever comes and goes.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Collection
from typing import Any, Final, Generic, TypeVar

Entry = TypeVar("Entry", bound=tuple[Any, ...])
_LOOKED_AT: Final = 2


class Deadlines(Generic[Entry]):
    """Tuples that begin with when they are due, the first of them at hand."""

    __slots__ = ("_seen", "_unseen")

    def __init__(self) -> None:
        # Two heaps; of one the last is moved to the other, what is left is a heap still.
        self._seen: list[Entry] = []
        self._unseen: list[Entry] = []

    def __len__(self) -> int:
        return len(self._seen) + len(self._unseen)

    def add(self, entry: Entry, counts: Callable[[Entry], bool]) -> None:
        """Put one there; `counts` tells of any other whether it is to stay."""
        for _ in range(_LOOKED_AT):
            if not self._unseen:
                self._seen, self._unseen = self._unseen, self._seen
            if self._unseen and counts(other := self._unseen.pop()):
                heapq.heappush(self._seen, other)
        heapq.heappush(self._seen, entry)

    @property
    def soonest(self) -> int:
        """When the first is due, whether it counts or not; 0: there is none."""
        first = self._heap()
        due: int = first[0][0] if first else 0
        return due

    def pop(self) -> Entry:
        """Take the first."""
        return heapq.heappop(self._heap())

    def _heap(self) -> list[Entry]:
        """Give the one that has the first."""
        if not self._unseen:
            return self._seen
        if not self._seen:
            return self._unseen
        return min(self._seen, self._unseen, key=lambda heap: heap[0])

    def empty(self) -> tuple[Collection[object], ...]:
        """Forget all; gives it, to be let go of."""
        known = self._seen, self._unseen
        self._seen, self._unseen = [], []
        return known

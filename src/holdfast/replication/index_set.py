"""
Indexes of entries, in order: the first, the last and the next are found without a look at the rest.

A log may have very many damaged entries, a lost file's for instance, and every turn asks for the
first few.

Invariants:
    From `_start` on, `_ordered` ascends and holds all members; what was discarded may still be
    there.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, MutableSet
from itertools import islice
from typing import Final

_STALE_MAX: Final = 1024


class IndexSet(MutableSet[int]):
    """A set of indexes."""

    __slots__ = ("_ordered", "_start", "members", "passed_count")

    def __init__(self, indexes: Iterable[int] = ()) -> None:
        self.members = set(indexes)
        """The same without an order: who asks in every turn whether there are any saves a call."""
        self._ordered = sorted(self.members)
        self._start = 0
        self.passed_count = 0
        """Discarded indexes that were passed by on the way to the first ones."""

    @property
    def first(self) -> int:
        """The lowest index; 0 if there is none."""
        return next(iter(self), 0)

    @property
    def last(self) -> int:
        """The highest index; 0 if there is none."""
        ordered = self._ordered
        while len(ordered) > self._start and ordered[-1] not in self.members:
            ordered.pop()
        return ordered[-1] if len(ordered) > self._start else 0

    def smallest(self, count: int) -> list[int]:
        """Give so many of the lowest indexes, in order."""
        return list(islice(self, count))

    def first_after(self, index: int) -> int:
        """The lowest index above this one; 0 if there is none."""
        ordered = self._ordered
        place = bisect_left(ordered, index + 1, self._start)
        return next((it for it in islice(ordered, place, None) if it in self.members), 0)

    def add(self, value: int) -> None:
        """Put an index in its place."""
        if value in self.members:
            return
        self.members.add(value)
        ordered = self._ordered
        if len(ordered) == self._start or value > ordered[-1]:
            ordered.append(value)
            return
        place = bisect_left(ordered, value, self._start)
        if ordered[place] != value:
            ordered.insert(place, value)

    def update(self, values: Iterable[int]) -> None:
        """Put in several."""
        for value in values:
            self.add(value)

    def discard(self, value: int) -> None:
        """Take an index out, if it is there."""
        self.members.discard(value)

    def keep(self, first: int, last: int) -> None:
        """Take out what is not from `first` to `last`."""
        self._ordered = [index for index in self if first <= index <= last]
        self.members = set(self._ordered)
        self._start = 0

    def clear(self) -> None:
        """Take out all."""
        self.members.clear()
        self._ordered.clear()
        self._start = 0

    def __iter__(self) -> Iterator[int]:
        """Give all in order; nothing may be put in meanwhile."""
        self._pass_discarded()
        members = self.members
        return (index for index in islice(self._ordered, self._start, None) if index in members)

    def _pass_discarded(self) -> None:
        """Pass by those at the beginning for good: what is mended is mostly mended in order."""
        ordered = self._ordered
        start = self._start
        while start < len(ordered) and ordered[start] not in self.members:
            start += 1
        self.passed_count += start - self._start
        if start > _STALE_MAX and 2 * start > len(ordered):
            del ordered[:start]
            start = 0
        self._start = start

    def __contains__(self, value: object) -> bool:
        return value in self.members

    def __len__(self) -> int:
        return len(self.members)

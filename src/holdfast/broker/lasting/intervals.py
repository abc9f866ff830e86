"""
Numbers as the stretches that they make: what is taken in order costs one stretch, however much.

Invariants:
    The stretches are in order, none is empty, and no two of them touch.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator


class Intervals:
    """A set of numbers."""

    __slots__ = ("_ends", "_starts")

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        """The number after the last one of each stretch."""

    @classmethod
    def of(cls, stretches: Iterable[tuple[int, ...]]) -> Intervals:
        """Give what these stretches make, which are as `__iter__` gives them."""
        intervals = cls()
        for start, end in stretches:
            intervals._starts.append(start)
            intervals._ends.append(end)
        return intervals

    def __contains__(self, number: int) -> bool:
        return self.end_of(number) > number

    def __iter__(self) -> Iterator[tuple[int, int]]:
        """Give each stretch: its first number, and the one after its last."""
        return zip(self._starts, self._ends, strict=True)

    def __len__(self) -> int:
        """How many stretches there are."""
        return len(self._starts)

    def end_of(self, number: int) -> int:
        """Give the number after the stretch that this one is in; itself if it is in none."""
        place = bisect_right(self._starts, number) - 1
        return max(number, self._ends[place]) if place >= 0 else number

    def add(self, number: int) -> None:
        """Take a number in."""
        starts, ends = self._starts, self._ends
        place = bisect_right(starts, number)
        if place and ends[place - 1] > number:
            return
        joins_before = bool(place) and ends[place - 1] == number
        joins_after = place < len(starts) and starts[place] == number + 1
        if joins_before and joins_after:
            ends[place - 1] = ends.pop(place)
            del starts[place]
        elif joins_before:
            ends[place - 1] = number + 1
        elif joins_after:
            starts[place] = number
        else:
            starts.insert(place, number)
            ends.insert(place, number + 1)

    def discard(self, number: int) -> None:
        """Take a number out, if it is in."""
        if number not in self:
            return
        starts, ends = self._starts, self._ends
        place = bisect_right(starts, number) - 1
        start, end = starts[place], ends[place]
        left = [each for each in ((start, number), (number + 1, end)) if each[0] < each[1]]
        starts[place : place + 1] = [each[0] for each in left]
        ends[place : place + 1] = [each[1] for each in left]

    def discard_below(self, number: int) -> None:
        """Take out all that are lower."""
        place = bisect_right(self._ends, number)
        del self._starts[:place], self._ends[:place]
        if self._starts:
            self._starts[0] = max(self._starts[0], number)

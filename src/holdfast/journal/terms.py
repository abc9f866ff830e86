"""
Which term each entry of a log is of: where each term begins, since terms only rise along a log.

Owned by whoever owns the journal: the loop.
"""

from __future__ import annotations

from bisect import bisect_right


class TermTable:
    """The first index of each term, in order, with the term."""

    __slots__ = ("_starts", "_values")

    def __init__(self, starts: list[int], values: list[int]) -> None:
        self._starts = starts
        self._values = values

    def __len__(self) -> int:
        return len(self._starts)

    def at(self, index: int, previous_term: int) -> int:
        """Return the term of an entry; `previous_term` if it is before the first start."""
        place = bisect_right(self._starts, index)
        return self._values[place - 1] if place else previous_term

    def begin(self, index: int, term: int) -> None:
        """Note that a term begins with this entry, behind all others."""
        self._starts.append(index)
        self._values.append(term)

    def cut_after(self, index: int) -> None:
        """Forget the terms that begin after this entry."""
        while self._starts and self._starts[-1] > index:
            self._starts.pop()
            self._values.pop()

    def clear(self) -> None:
        """Forget everything."""
        self._starts.clear()
        self._values.clear()

    def set(self, index: int, term: int, known: int, *, is_last: bool) -> int:
        """Note that this one entry is of another term than was `known`; return the last term."""
        starts, values = self._starts, self._values
        place = bisect_right(starts, index)
        if (place == len(starts) or starts[place] != index + 1) and not is_last:
            starts.insert(place, index + 1)
            values.insert(place, known)
        if place and starts[place - 1] == index:
            values[place - 1] = term
        else:
            starts.insert(place, index)
            values.insert(place, term)
        return values[-1]

"""
What of a queue a consumer may have seen: all up to a mark, and ranges of sequences beyond it.

A queue that is dispatched in order needs the mark alone. Where a late message goes first, the mark
would have to cover all that stands before it, and whoever leads next would flag ten million that
nobody ever saw.

Invariants:
    Ranges are apart from the mark and from each other, and in order.
    What is united is the same in whatever order it was said.
    A leader asks for no more than 64 ranges: of more, two neighbours become one (`gathered`).
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

Ranges: TypeAlias = tuple[tuple[int, int], ...]
"""First and last sequence of each."""

COUNT_MAX: Final = 64


class Seen(NamedTuple):
    """What may have been seen."""

    mark: int
    ranges: Ranges

    def __contains__(self, sequence: object) -> bool:
        if not isinstance(sequence, int) or sequence <= self.mark:
            return True
        return any(first <= sequence <= last for first, last in self.ranges)


def united(mark: int, ranges: Ranges, first: int, last: int) -> tuple[int, Ranges]:
    """Give mark and ranges with one range more; from 0 or 1 on it is a mark itself."""
    if first <= mark + 1 and not ranges:
        return max(mark, last), ranges
    merged = [(0, mark)]
    for each in sorted((*ranges, (first, last))):
        if each[0] > merged[-1][1] + 1:
            merged.append(each)
        elif each[1] > merged[-1][1]:
            merged[-1] = (merged[-1][0], each[1])
    return merged[0][1], tuple(merged[1:])


def gathered(mark: int, ranges: Ranges, first: int, last: int) -> tuple[int, int]:
    """Give what to ask for so that there are not too many: it reaches to the nearer neighbour."""
    _, found = united(mark, ranges, first, last)
    if len(found) <= COUNT_MAX:
        return first, last
    ends = [mark, *(each[1] for each in found)]
    place = next(it for it, each in enumerate(found) if each[0] <= first <= each[1])
    before = ends[place] + 1
    if place + 1 < len(found) and found[place + 1][0] - found[place][1] < first - before:
        return first, found[place + 1][0]
    return before, last

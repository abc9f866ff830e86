"""
The segments of a log in order, found by entry or by record, and what they take together.

A log may have a hundred thousand of them, so nothing that is asked again and again goes through
them: sums are kept.

Invariants:
    There is always one segment, be it without a file and without an entry.
    Segments follow each other without gaps, in indexes and in record numbers.

Owned by whoever owns the journal: the loop.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate

from holdfast.journal.segment import SEGMENT_HEADER_BYTES, Segment


class SegmentTable:
    """The segments of one log, oldest first."""

    __slots__ = (
        "_bases",
        "_content_before_last",
        "_record_bases",
        "_segments",
        "_starts",
        "first_index",
        "last",
    )

    def __init__(self, segments: list[Segment]) -> None:
        self._segments = segments
        self._bases = array("Q", [segment.base_index for segment in segments])
        self._record_bases = array("Q", [segment.header.base_record for segment in segments])
        capacities = (segment.header.capacity for segment in segments[:-1])
        self._starts = array("Q", accumulate(capacities, initial=0))
        """Where each file would begin, stood all of them one behind the other since the start."""
        self._content_before_last = sum(map(_content_bytes, segments[:-1]))
        self.first_index = self._bases[0]
        """The oldest index kept; one above the last if the log is empty."""
        self.last = segments[-1]
        """The newest one."""

    def __len__(self) -> int:
        return len(self._segments)

    def __iter__(self) -> Iterator[Segment]:
        return iter(self._segments)

    def bases(self) -> Sequence[int]:
        """Give the first index of each of them; as they are now, made in a tenth of a millisecond
        for 160,000.
        """
        return self._bases[:]

    @property
    def first(self) -> Segment:
        """The oldest one."""
        return self._segments[0]

    @property
    def first_record(self) -> int:
        """The number of the oldest record kept."""
        return self._record_bases[0]

    def find(self, index: int) -> Segment:
        """Return the segment of an entry that the log has."""
        return self._segments[bisect_right(self._bases, index) - 1]

    def find_record(self, number: int) -> Segment:
        """Return the segment of a record that the log has."""
        return self._segments[bisect_right(self._record_bases, number) - 1]

    def base_of(self, index: int) -> int:
        """Return the first entry of the segment that holds one, or of the oldest or newest one."""
        return self._bases[max(bisect_right(self._bases, index) - 1, 0)]

    def sealed_count(self, stored: int) -> int:
        """Return how many segments are before that to which the next entry belongs."""
        return max(bisect_right(self._bases, stored + 1) - 1, 0)

    def sealed_through(self, stored: int) -> int:
        """Return the last entry of those."""
        return self._bases[self.sealed_count(stored)] - 1

    @property
    def file_bytes(self) -> int:
        """The bytes that their files have room for."""
        return self._starts[-1] - self._starts[0] + self.last.header.capacity

    @property
    def content_bytes(self) -> int:
        """The bytes of their entries."""
        return self._content_before_last + _content_bytes(self.last)

    def bytes_from(self, index: int) -> int:
        """Return the bytes of the files that hold this entry or later ones; the newest's so far."""
        if index > self.last.last_index:
            return 0
        place = max(bisect_right(self._bases, index) - 1, 0)
        return self._starts[-1] - self._starts[place] + self.last.end

    def begin(self, segment: Segment) -> None:
        """Take the segment in which the log goes on; it replaces one without an entry."""
        if self.last.offsets:
            self._segments.append(segment)
            self._bases.append(segment.base_index)
            self._record_bases.append(segment.header.base_record)
            self._starts.append(self._starts[-1] + self.last.header.capacity)
            self._content_before_last += _content_bytes(self.last)
        else:
            self._segments[-1] = segment
        self.last = segment

    def begin_anew(self, segment: Segment) -> list[Segment]:
        """Start over with this one; return those that were here."""
        removed = self._segments
        self._segments = [segment]
        self._bases = array("Q", [segment.base_index])
        self._record_bases = array("Q", [segment.header.base_record])
        self._starts = array("Q", [0])
        self._content_before_last = 0
        self.first_index = segment.base_index
        self.last = segment
        return removed

    def cut_after(self, index: int) -> list[Segment]:
        """Give up the segments that begin after an entry; return them, oldest first."""
        removed: list[Segment] = []
        while self._segments[-1].base_index > index:
            removed.insert(0, self._segments.pop())
            self._bases.pop()
            self._record_bases.pop()
            self._starts.pop()
            self._content_before_last -= _content_bytes(self._segments[-1])
        self.last = self._segments[-1]
        return removed

    def end_at(self, segment: Segment, end: int) -> None:
        """Let the last entry of one of them end elsewhere: it was mended."""
        if segment is not self.last:
            self._content_before_last += end - segment.end
        segment.end_at(end)

    def drop_before(self, index: int, stored: int) -> list[Segment]:
        """
        Give up the oldest that hold only entries before `index`; return them.

        The newest stays, and so does the one before it until the newest is a file with an entry
        that is stored.
        """
        count = 0
        while (
            count + 1 < len(self._segments)
            and self._segments[count].last_index < index
            and self._bases[count + 1] <= stored
        ):
            count += 1
        dropped = self._segments[:count]
        del self._segments[:count]
        del self._bases[:count]
        del self._record_bases[:count]
        del self._starts[:count]
        self._content_before_last -= sum(map(_content_bytes, dropped))
        self.first_index = self._bases[0]
        return dropped


def _content_bytes(segment: Segment) -> int:
    return segment.end - SEGMENT_HEADER_BYTES

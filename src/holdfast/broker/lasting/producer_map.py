"""
Producers by id, in many small mappings instead of a large one.

A mapping of 200,000 that grows is built anew at once: that takes 8 to 13 ms. A list of all that is
in it takes 5 ms, and the collector of cycles looks at each of its places, which takes 20. Of
thousands of small mappings only one is built anew at a time, and who wants all as they are now has
the small ones: each is copied when it changes for the first time after that.

Invariants:
    What `as_they_are` has given is changed by nobody.
    In which of the mappings an id stands, and so their order, is the same in every process.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterator
from itertools import chain
from typing import Final
from zlib import crc32

_PART_COUNT: Final = 4096
"""With 200,000 producers some 50 in each: a copy takes one or two microseconds."""
_MASK: Final = _PART_COUNT - 1


class ProducerMap:
    """A value of bytes for each id; values are replaced, never changed."""

    __slots__ = ("_count", "_is_given", "_parts", "copied_count")

    def __init__(self) -> None:
        self._parts: list[dict[str, bytes]] = [{}] * _PART_COUNT
        self._is_given = bytearray(b"\1") * _PART_COUNT
        """1 for each part that somebody may be reading, as all do the one that is empty."""
        self._count = 0
        self.copied_count = 0
        """Parts copied since somebody asked for all."""

    def get(self, producer_id: str) -> bytes | None:
        """Give a producer's value, None if it is not here."""
        return self._parts[crc32(producer_id.encode()) & _MASK].get(producer_id)

    def put(self, producer_id: str, value: bytes) -> bool:
        """Put or replace a value; True if the producer was not here."""
        place = crc32(producer_id.encode()) & _MASK
        part = self._own(place) if self._is_given[place] else self._parts[place]
        before = len(part)
        part[producer_id] = value
        added = len(part) - before
        self._count += added
        return added > 0

    def remove(self, producer_id: str) -> bool:
        """Remove a producer; False if it is not here."""
        place = crc32(producer_id.encode()) & _MASK
        if producer_id not in self._parts[place]:
            return False
        part = self._own(place) if self._is_given[place] else self._parts[place]
        del part[producer_id]
        self._count -= 1
        return True

    def as_they_are(self) -> Iterator[tuple[str, bytes]]:
        """
        Give all as they are now, whatever changes later; this takes no time for each of them.

        Nor does the end: what is held until then is let go of part by part.
        """
        self._is_given = bytearray(b"\1") * _PART_COUNT
        self.copied_count = 0
        return chain.from_iterable(_one_by_one(list(filter(None, reversed(self._parts)))))

    def piles(self) -> Iterator[dict[str, bytes]]:
        """Give the mappings, to be emptied by somebody who is alone with them."""
        for place, part in enumerate(self._parts):
            if part:
                yield self._own(place) if self._is_given[place] else part

    def __len__(self) -> int:
        return self._count

    def __contains__(self, producer_id: str) -> bool:
        return self.get(producer_id) is not None

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(self._parts)

    def _own(self, place: int) -> dict[str, bytes]:
        """Copy a part that somebody may be reading, before it changes."""
        self._is_given[place] = 0
        self.copied_count += 1
        part = self._parts[place] = self._parts[place].copy()
        return part


def _one_by_one(parts: list[dict[str, bytes]]) -> Iterator[ItemsView[str, bytes]]:
    """Give what is in each, the last first, and hold nothing that was passed."""
    while parts:
        yield parts.pop().items()

"""
What a queue knows of each message: record number, size, and whether it still lives.

Three arrays per chunk of 512 sequences, 13 bytes a message, so that a queue of ten million messages
fits. A chunk exists while something in it lives, so one old message pins one chunk, nothing more.
Chunks stand in groups of 512 in the same way, so the next live one is found in a few steps however
far apart they are.

Invariants:
    A chunk's `count` is the number of its live sequences; a chunk with none is dropped.
    A group has a byte for each of its chunks, 1 where there is one; a group with none is dropped.
    The slots of dead sequences are zero, so equal states have equal bytes on every node.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, insort
from collections.abc import Iterator
from typing import Final

CHUNK_SHIFT: Final = 9
CHUNK_SIZE: Final = 1 << CHUNK_SHIFT
_MASK: Final = CHUNK_SIZE - 1
_ZERO_NUMBERS: Final = bytes(8 * CHUNK_SIZE)
_ZERO_SIZES: Final = bytes(4 * CHUNK_SIZE)


class Chunk:
    """The arrays of 512 neighbouring sequences."""

    __slots__ = ("count", "live", "record_numbers", "sizes")

    def __init__(self) -> None:
        self.record_numbers = array("Q", _ZERO_NUMBERS)
        self.sizes = array("I", _ZERO_SIZES)
        self.live = bytearray(CHUNK_SIZE)
        self.count = 0


class SequenceIndex:
    """The live messages of one queue by sequence."""

    __slots__ = ("chunks", "group_numbers", "groups", "live_bytes", "live_count")

    def __init__(self) -> None:
        self.chunks: dict[int, Chunk] = {}
        self.groups: dict[int, bytearray] = {}
        """Which chunks there are, by number >> 9."""
        self.group_numbers: list[int] = []
        """The keys of `groups`, sorted."""
        self.live_count = 0
        self.live_bytes = 0

    def put(self, sequence: int, record_number: int, size: int) -> bool:
        """
        Note that `sequence` lives in `record_number`; True if it did not live before.

        A sequence that lives already only moves: the cleaner wrote it again.
        """
        chunk = self.chunks.get(sequence >> CHUNK_SHIFT)
        if chunk is None:
            chunk = self.add_chunk(sequence >> CHUNK_SHIFT)
        slot = sequence & _MASK
        chunk.record_numbers[slot] = record_number
        if chunk.live[slot]:
            return False
        chunk.live[slot] = 1
        chunk.sizes[slot] = size
        chunk.count += 1
        self.live_count += 1
        self.live_bytes += size
        return True

    def remove(self, sequence: int) -> int:
        """Forget `sequence` and give its size, or -1 if it did not live."""
        number = sequence >> CHUNK_SHIFT
        chunk = self.chunks.get(number)
        slot = sequence & _MASK
        if chunk is None or not chunk.live[slot]:
            return -1
        size = chunk.sizes[slot]
        self.live_count -= 1
        self.live_bytes -= size
        chunk.count -= 1
        if not chunk.count:
            self._drop_chunk(number)
            return size
        chunk.live[slot] = 0
        chunk.sizes[slot] = 0
        chunk.record_numbers[slot] = 0
        return size

    def is_live(self, sequence: int) -> bool:
        """Whether `sequence` is still on the queue."""
        chunk = self.chunks.get(sequence >> CHUNK_SHIFT)
        return chunk is not None and bool(chunk.live[sequence & _MASK])

    def record_number(self, sequence: int) -> int:
        """Give the record number of a live sequence, 0 for a dead one."""
        chunk = self.chunks.get(sequence >> CHUNK_SHIFT)
        return chunk.record_numbers[sequence & _MASK] if chunk is not None else 0

    def next_live(self, sequence: int, end: int) -> int:
        """Give the first live sequence from `sequence` on and before `end`, or `end`."""
        number = sequence >> CHUNK_SHIFT
        chunk = self.chunks.get(number)
        if chunk is not None:
            found = chunk.live.find(1, sequence & _MASK)
            if found >= 0:
                return min((number << CHUNK_SHIFT) + found, end)
        number = self._chunk_from(number + 1)
        if number < 0:
            return end
        return min((number << CHUNK_SHIFT) + self.chunks[number].live.find(1), end)

    def first(self) -> int:
        """Give the lowest live sequence, 0 if nothing lives."""
        number = self._chunk_from(0)
        if number < 0:
            return 0
        return (number << CHUNK_SHIFT) + self.chunks[number].live.find(1)

    def add_chunk(self, number: int) -> Chunk:
        """Make the chunk of this number, which is not there yet, and give it."""
        chunk = self.chunks[number] = Chunk()
        group = self.groups.get(number >> CHUNK_SHIFT)
        if group is None:
            group = self.groups[number >> CHUNK_SHIFT] = bytearray(CHUNK_SIZE)
            insort(self.group_numbers, number >> CHUNK_SHIFT)
        group[number & _MASK] = 1
        return chunk

    def _drop_chunk(self, number: int) -> None:
        del self.chunks[number]
        group = self.groups[number >> CHUNK_SHIFT]
        group[number & _MASK] = 0
        if group.find(1) < 0:
            del self.groups[number >> CHUNK_SHIFT]
            del self.group_numbers[bisect_left(self.group_numbers, number >> CHUNK_SHIFT)]

    def _chunk_from(self, number: int) -> int:
        """Give the number of the first chunk from `number` on, -1 if there is none."""
        group_number = number >> CHUNK_SHIFT
        group = self.groups.get(group_number)
        if group is not None:
            found = group.find(1, number & _MASK)
            if found >= 0:
                return (group_number << CHUNK_SHIFT) + found
        place = bisect_left(self.group_numbers, group_number + 1)
        if place == len(self.group_numbers):
            return -1
        group_number = self.group_numbers[place]
        return (group_number << CHUNK_SHIFT) + self.groups[group_number].find(1)

    def sequences(self, start: int, end: int) -> Iterator[int]:
        """Give the live sequences from `start` on and before `end`, in order."""
        sequence = self.next_live(start, end)
        while sequence < end:
            yield sequence
            sequence = self.next_live(sequence + 1, end)

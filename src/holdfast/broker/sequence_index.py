"""
What a queue knows of each message: record number, size, and whether it still lives.

Three arrays per chunk of 512 sequences, 13 bytes a message, so that a queue of ten million messages
fits. A chunk exists while something in it lives, so one old message pins one chunk, nothing more.

Invariants:
    A chunk's `count` is the number of its live sequences; a chunk with none is dropped.
    The slots of dead sequences are zero, so equal states have equal bytes on every node.
"""

from __future__ import annotations

from array import array
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

    __slots__ = ("chunks", "live_bytes", "live_count")

    def __init__(self) -> None:
        self.chunks: dict[int, Chunk] = {}
        self.live_count = 0
        self.live_bytes = 0

    def put(self, sequence: int, record_number: int, size: int) -> bool:
        """
        Note that `sequence` lives in `record_number`; True if it did not live before.

        A sequence that lives already only moves: the cleaner wrote it again.
        """
        chunk = self.chunks.get(sequence >> CHUNK_SHIFT)
        if chunk is None:
            chunk = self.chunks[sequence >> CHUNK_SHIFT] = Chunk()
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
            del self.chunks[number]
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
        chunks = self.chunks
        if not chunks:
            return end
        number = sequence >> CHUNK_SHIFT
        slot = sequence & _MASK
        last = (end - 1) >> CHUNK_SHIFT
        chunk = chunks.get(number)
        if chunk is not None:
            # Mostly the next one is near; only then is it worth asking how far apart chunks are.
            found = chunk.live.find(1, slot)
            if found >= 0:
                return min((number << CHUNK_SHIFT) + found, end)
        if last - number > len(chunks):
            return self._next_live_sparse(sequence, end)
        while number <= last:
            chunk = chunks.get(number)
            if chunk is not None:
                found = chunk.live.find(1, slot)
                if found >= 0:
                    return min((number << CHUNK_SHIFT) + found, end)
            number += 1
            slot = 0
        return end

    def _next_live_sparse(self, sequence: int, end: int) -> int:
        number = sequence >> CHUNK_SHIFT
        for candidate in sorted(key for key in self.chunks if key >= number):
            slot = sequence & _MASK if candidate == number else 0
            found = self.chunks[candidate].live.find(1, slot)
            if found >= 0:
                return min((candidate << CHUNK_SHIFT) + found, end)
        return end

    def first(self) -> int:
        """Give the lowest live sequence, 0 if nothing lives."""
        if not self.chunks:
            return 0
        number = min(self.chunks)
        return (number << CHUNK_SHIFT) + self.chunks[number].live.find(1)

    def sequences(self, start: int, end: int) -> Iterator[int]:
        """Give the live sequences from `start` on and before `end`, in order."""
        sequence = self.next_live(start, end)
        while sequence < end:
            yield sequence
            sequence = self.next_live(sequence + 1, end)

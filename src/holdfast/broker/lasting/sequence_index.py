"""
What a queue knows of each message: record number, size, and whether it still lives.

Three arrays per chunk of 512 sequences, 13 bytes a message, so that a queue of ten million messages
fits, and so do a hundred thousand queues of one. What was moved here has its bytes in the record
that it was sent with, and that is its record number; a fourth array, in chunks that hold any such,
says which record moved it. A chunk exists while something in it lives, so one
old message pins one chunk, nothing more. Where there are more than a few chunks, they stand in
groups of 512 in the same way, so the next live one is found in a few steps however far apart they
are. What came back to the queue is counted in chunks that have such messages (`returns`); in those
that have any in groups stands of which each is, 4 bytes a message up to the last of these, and when
each expires where any does, 8 bytes. What is scheduled is due at that time instead; how often it is
sent again stands in chunks where any is, 2 bytes. Where any has not the usual priority, that takes
1 byte.

Invariants:
    A chunk's `count` is the number of its live sequences; a chunk with none is dropped.
    A group has a byte for each of its chunks, 1 where there is one; a group with none is dropped.
    The slots of dead sequences are zero, so equal states have equal bytes on every node.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from holdfast.broker.lasting.chunk import CHUNK_SHIFT, CHUNK_SIZE, Chunk
from holdfast.broker.lasting.returns import NEVER, Returned
from holdfast.model.facts import PRIORITY_DEFAULT

BY_GROUP: Final = 1
BY_PRIORITY: Final = 2
_MASK: Final = CHUNK_SIZE - 1
_NONE: Final[list[int]] = []
_FEW: Final = 8
"""So many chunks are looked through one by one; more are kept in groups."""


class SequenceIndex:
    """The live messages of one queue by sequence."""

    __slots__ = (
        *("chunks", "expiring", "group_numbers", "groups", "live_bytes", "live_count"),
        "ordering",
    )

    def __init__(self) -> None:
        self.chunks: dict[int, Chunk] = {}
        self.groups: dict[int, bytearray] | None = None
        """Which chunks there are, by number >> 9; None while there were never many."""
        self.group_numbers: list[int] = _NONE
        """The keys of `groups`, sorted."""
        self.live_count = 0
        self.live_bytes = 0
        self.ordering = 0
        """By what beside the order of sending messages may go that came here: `BY_GROUP`, where any
        was in one, `BY_PRIORITY`, where any had not the usual one."""
        self.expiring: dict[int, int] | None = None
        """Of each chunk in which something expires, by its number, a time no later than the first
        of it does; None, as of most, if nothing ever did."""

    def put(self, sequence: int, record_number: int, size: int) -> bool:
        """
        Note that `sequence` lives in `record_number`; True if it did not live before.

        A sequence that lives already only moves: the cleaner wrote it again.
        """
        chunk = self.chunks.get(sequence >> CHUNK_SHIFT)
        if chunk is None:
            chunk = self.add_chunk(sequence >> CHUNK_SHIFT, sequence & _MASK)
        place = (sequence & _MASK) - chunk.start
        live = chunk.live
        if place == len(live):
            chunk.record_numbers.append(record_number)
            chunk.sizes.append(size)
            live.append(1)
            if chunk.moves is not None:
                chunk.moves.append(0)
        else:
            if not 0 <= place < len(live):
                place = chunk.make_room(place)
            chunk.record_numbers[place] = record_number
            if chunk.moves is not None:
                chunk.moves[place] = 0
            if chunk.live[place]:
                return False
            chunk.live[place] = 1
            chunk.sizes[place] = size
        chunk.count += 1
        self.live_count += 1
        self.live_bytes += size
        return True

    def put_moved(self, sequence: int, record_number: int, size: int, move: int) -> None:
        """Note that `sequence` lives from now on, whose bytes another record has than moved it."""
        self.put(sequence, record_number, size)
        self.chunks[sequence >> CHUNK_SHIFT].put_move(sequence & _MASK, move)

    def put_next(self, sequence: int, record_number: int, sizes: list[int]) -> None:
        """
        Note that neighbouring sequences live in neighbouring records, each of the size given.

        All of them must be above every one that was put before.
        """
        if len(sizes) == 1:
            self.put(sequence, record_number, sizes[0])
            return
        at = 0
        while at < len(sizes):
            number, slot = sequence >> CHUNK_SHIFT, sequence & _MASK
            chunk = self.chunks.get(number) or self.add_chunk(number, slot)
            place = slot - chunk.start
            if place > len(chunk.live):
                chunk.make_room(place - 1)
            assert place == len(chunk.live), "something above it was put before"
            some = sizes[at : at + CHUNK_SIZE - slot]
            count = len(some)
            chunk.record_numbers.extend(range(record_number, record_number + count))
            chunk.sizes.extend(some)
            chunk.live += b"\1" * count
            if chunk.moves is not None:
                chunk.moves.frombytes(bytes(8 * count))
            chunk.count += count
            at += count
            sequence += count
            record_number += count
        self.live_count += len(sizes)
        self.live_bytes += sum(sizes)

    def remove(self, sequences: Iterable[int]) -> list[int]:
        """Forget sequences, and give those of them that lived."""
        gone = []
        number = -1
        chunk: Chunk | None = None
        for sequence in sequences:
            if sequence >> CHUNK_SHIFT != number:
                number = sequence >> CHUNK_SHIFT
                chunk = self.chunks.get(number)
            if chunk is None:
                continue
            live = chunk.live
            place = (sequence & _MASK) - chunk.start
            if not 0 <= place < len(live) or not live[place]:
                continue
            gone.append(sequence)
            self.live_bytes -= chunk.sizes[place]
            chunk.count -= 1
            if not chunk.count:
                self._drop_chunk(number)
                chunk = None
                continue
            live[place] = 0
            chunk.sizes[place] = 0
            chunk.record_numbers[place] = 0
            if chunk.has_columns:
                chunk.clear(sequence & _MASK)
        self.live_count -= len(gone)
        return gone

    def is_live(self, sequence: int) -> bool:
        """Whether `sequence` is still on the queue."""
        chunk = self.chunks.get(sequence >> CHUNK_SHIFT)
        if chunk is None:
            return False
        place = (sequence & _MASK) - chunk.start
        return 0 <= place < len(chunk.live) and bool(chunk.live[place])

    def record_number(self, sequence: int) -> int:
        """Give the record number of a live sequence, 0 for a dead one."""
        chunk = self.chunks.get(sequence >> CHUNK_SHIFT)
        if chunk is None:
            return 0
        place = (sequence & _MASK) - chunk.start
        return chunk.record_numbers[place] if 0 <= place < len(chunk.live) else 0

    def returned(self, sequence: int) -> Returned:
        """Give what came of a message so far: how often it came back, and until when it rests."""
        chunk = self.chunks.get(sequence >> CHUNK_SHIFT)
        if chunk is None or chunk.returns is None:
            return NEVER
        return chunk.returns.of(sequence & _MASK)

    def put_returned(self, sequence: int, returned: Returned) -> bool:
        """Note what came of a message so far; whether it lives."""
        is_live = self.is_live(sequence)
        if is_live:
            self.chunks[sequence >> CHUNK_SHIFT].put_returned(sequence & _MASK, returned)
        return is_live

    def group_hash(self, sequence: int) -> int:
        """Give the hash of a live message's group, 0 if it is in none."""
        chunk = self.chunks.get(sequence >> CHUNK_SHIFT)
        if chunk is None or chunk.group_hashes is None:
            return 0
        slot = sequence & _MASK
        return chunk.group_hashes[slot] if slot < len(chunk.group_hashes) else 0

    def put_group_hash(self, sequence: int, group_hash: int) -> None:
        """Note in which group a live message is, if it is in any."""
        if group_hash:
            self.ordering |= BY_GROUP
            self.chunks[sequence >> CHUNK_SHIFT].put_group_hash(sequence & _MASK, group_hash)

    def priority(self, sequence: int) -> int:
        """Give the priority of a live message."""
        chunk = self.chunks.get(sequence >> CHUNK_SHIFT)
        if chunk is None or chunk.priorities is None:
            return PRIORITY_DEFAULT
        slot = sequence & _MASK
        found = chunk.priorities[slot] if slot < len(chunk.priorities) else 0
        return found - 1 if found else PRIORITY_DEFAULT

    def next_of(self, priority: int, number: int, slot: int) -> int:
        """Give the first slot of a chunk from this one on with one of a priority, -1 for none."""
        chunk = self.chunks.get(number)
        return -1 if chunk is None else chunk.next_of(priority, slot)

    def priorities_from(self, number: int, slot: int) -> list[int]:
        """Give the priorities that there may be in a chunk, which there is, from a slot on."""
        return self.chunks[number].priorities_from(slot)

    def put_priority(self, sequence: int, priority: int) -> None:
        """Note which priority a live message has."""
        if priority != PRIORITY_DEFAULT:
            self.ordering |= BY_PRIORITY
            self.chunks[sequence >> CHUNK_SHIFT].put_priority(sequence & _MASK, priority)

    def expires_ms(self, sequence: int) -> int:
        """Give when a live message expires, in milliseconds since the epoch; 0: never."""
        chunk = self.chunks.get(sequence >> CHUNK_SHIFT)
        if chunk is None or chunk.expires is None:
            return 0
        slot = sequence & _MASK
        return chunk.expires[slot] if slot < len(chunk.expires) else 0

    def has_chunk(self, number: int) -> bool:
        """Whether anything of a chunk lives."""
        return number in self.chunks

    def expiries_of(self, number: int) -> Sequence[int]:
        """Give when the messages of a chunk expire, by slot, up to the last that does; 0: never."""
        chunk = self.chunks.get(number)
        return () if chunk is None or chunk.expires is None else chunk.expires

    def put_expires(self, sequence: int, expires_ms: int) -> None:
        """Note when a live message expires; it does."""
        number = sequence >> CHUNK_SHIFT
        self.chunks[number].put_expires(sequence & _MASK, expires_ms)
        self.note_expiring(number, expires_ms)

    def repeats(self, sequence: int) -> int:
        """Give how often a live message is sent after the next time."""
        chunk = self.chunks.get(sequence >> CHUNK_SHIFT)
        if chunk is None or chunk.repeats is None:
            return 0
        slot = sequence & _MASK
        return chunk.repeats[slot] if slot < len(chunk.repeats) else 0

    def put_repeats(self, sequence: int, repeats: int) -> None:
        """Note how often a live message is sent after the next time."""
        self.chunks[sequence >> CHUNK_SHIFT].put_repeats(sequence & _MASK, repeats)

    def note_expiring(self, number: int, soonest_ms: int) -> None:
        """Note that something in a chunk expires at this time."""
        if self.expiring is None:
            self.expiring = {}
        known = self.expiring.get(number)
        if known is None or soonest_ms < known:
            self.expiring[number] = soonest_ms

    def move_number(self, sequence: int) -> int:
        """Give the number of the record that moved a live sequence here; 0: none did."""
        chunk = self.chunks.get(sequence >> CHUNK_SHIFT)
        if chunk is None or chunk.moves is None:
            return 0
        place = (sequence & _MASK) - chunk.start
        return chunk.moves[place] if 0 <= place < len(chunk.live) else 0

    def next_live(self, sequence: int, end: int) -> int:
        """Give the first live sequence from `sequence` on and before `end`, or `end`."""
        number = sequence >> CHUNK_SHIFT
        chunk = self.chunks.get(number)
        if chunk is not None:
            place = (sequence & _MASK) - chunk.start
            found = chunk.live.find(1, place) if place > 0 else chunk.live.find(1)
            if found >= 0:
                return min((number << CHUNK_SHIFT) + chunk.start + found, end)
        number = self.chunk_from(number + 1)
        return min(self._first_of(number), end) if number >= 0 else end

    def first(self) -> int:
        """Give the lowest live sequence, 0 if nothing lives."""
        number = self.chunk_from(0)
        return self._first_of(number) if number >= 0 else 0

    def _first_of(self, number: int) -> int:
        chunk = self.chunks[number]
        return (number << CHUNK_SHIFT) + chunk.start + chunk.live.find(1)

    def detach_through(self, sequence: int) -> dict[int, Chunk]:
        """
        Forget all live sequences up to this one; gives the chunks that held them, unchanged.

        Takes no time for what is forgotten; of what lives beyond, a little for each chunk, and for
        each message of the one chunk that holds both.
        """
        chunks = self.chunks
        border = sequence >> CHUNK_SHIFT
        in_border = min(self.last(), (border << CHUNK_SHIFT) | _MASK) + 1
        split = [
            (
                each,
                self.record_number(each),
                self.size(each),
                self.move_number(each),
                self.returned(each),
                self.group_hash(each),
                self.expires_ms(each),
                self.priority(each),
            )
            for each in self.sequences(sequence + 1, in_border)
        ]
        self.chunks, self.groups, self.group_numbers = {}, None, _NONE
        expiring, self.expiring = self.expiring or {}, None
        self.live_count = self.live_bytes = 0
        for number in [number for number in chunks if number > border]:
            self._take_over(number, chunks.pop(number))
            if number in expiring:
                self.note_expiring(number, expiring[number])
        for each, record_number, size, move, returned, group_hash, expires_ms, priority in split:
            if move:
                self.put_moved(each, record_number, size, move)
            else:
                self.put(each, record_number, size)
            self.put_returned(each, returned)
            self.put_group_hash(each, group_hash)
            self.put_priority(each, priority)
            if expires_ms:
                self.put_expires(each, expires_ms)
        return chunks

    def _take_over(self, number: int, chunk: Chunk) -> None:
        """Make a chunk part of this, with all that lives in it."""
        self.add_chunk(number, chunk.start)
        self.chunks[number] = chunk
        self.live_count += chunk.count
        self.live_bytes += sum(chunk.sizes)

    def last(self) -> int:
        """Give the highest live sequence, 0 if nothing lives."""
        if not self.chunks:
            return 0
        if self.groups is None:
            number = max(self.chunks)
        else:
            group_number = self.group_numbers[-1]
            number = (group_number << CHUNK_SHIFT) + self.groups[group_number].rfind(1)
        chunk = self.chunks[number]
        return (number << CHUNK_SHIFT) + chunk.start + chunk.live.rfind(1)

    def size(self, sequence: int) -> int:
        """Give the size of a live sequence."""
        chunk = self.chunks[sequence >> CHUNK_SHIFT]
        return chunk.sizes[(sequence & _MASK) - chunk.start]

    def add_chunk(self, number: int, start: int) -> Chunk:
        """Make the chunk of this number, which is not there yet, and give it."""
        chunk = self.chunks[number] = Chunk(start)
        if self.groups is not None or len(self.chunks) > _FEW:
            self._note_chunk(number)
        return chunk

    def _note_chunk(self, number: int) -> None:
        """Note that there is a chunk more, so that it is found."""
        if self.groups is not None:
            self._add_to_group(number)
        elif len(self.chunks) > _FEW:
            self.groups, self.group_numbers = {}, []
            for each in self.chunks:
                self._add_to_group(each)

    def _add_to_group(self, number: int) -> None:
        assert self.groups is not None
        group = self.groups.get(number >> CHUNK_SHIFT)
        if group is None:
            group = self.groups[number >> CHUNK_SHIFT] = bytearray(CHUNK_SIZE)
            insort(self.group_numbers, number >> CHUNK_SHIFT)
        group[number & _MASK] = 1

    def _drop_chunk(self, number: int) -> None:
        del self.chunks[number]
        if self.expiring is not None:
            self.expiring.pop(number, None)
        if self.groups is None:
            return
        group = self.groups[number >> CHUNK_SHIFT]
        group[number & _MASK] = 0
        if group.find(1) < 0:
            del self.groups[number >> CHUNK_SHIFT]
            del self.group_numbers[bisect_left(self.group_numbers, number >> CHUNK_SHIFT)]

    def chunk_from(self, number: int) -> int:
        """Give the number of the first chunk from `number` on, -1 if there is none."""
        if self.groups is None:
            return min((each for each in self.chunks if each >= number), default=-1)
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

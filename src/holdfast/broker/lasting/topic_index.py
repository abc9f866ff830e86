"""
What is stored of a topic: each message once, however many durable subscriptions need it.

Beside what a queue's index knows, a chunk has two things: how many subscriptions take its messages
(`takers`), and for each message how many of these do not need it, or not any more (`done`). So
whoever stores a message does the same work for a thousand subscriptions as for one, and it is gone
when nobody needs it: a message that waits for one subscription keeps itself and nothing else.

Invariants:
    `takers - done` of a live message is how many of the subscriptions known here need it.
    While `is_whole` a live message has one that does. Before, on a replica that begins with a later
    part of the log, subscriptions may be told of only further on: until then nothing goes.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import compress
from typing import Final, Protocol

from holdfast.broker.lasting.chunk import CHUNK_SHIFT, CHUNK_SIZE, Chunk
from holdfast.broker.lasting.sequence_index import SequenceIndex

SLOT_MASK: Final = CHUNK_SIZE - 1
TAKERS_MAX: Final = (1 << 16) - 1
"""So many durable subscriptions one topic has at most."""


class TopicChunk(Chunk):
    """Up to 512 neighbouring messages of a topic."""

    __slots__ = ("done", "takers")

    def __init__(self, start: int, takers: int) -> None:
        super().__init__(start)
        self.takers = takers
        self.done: array[int] | None = None
        """By slot, as far as any is not 0."""

    def done_at(self, slot: int) -> int:
        """How many takers do not need the message of this slot."""
        done = self.done
        return done[slot] if done is not None and slot < len(done) else 0

    def add_done(self, slot: int, count: int) -> int:
        """Note that so many more takers do not need a message; gives how many do not now."""
        done = self.done
        if done is None:
            done = self.done = array("H")
        missing = slot + 1 - len(done)
        if missing > 0:
            done.frombytes(bytes(2 * missing))
        done[slot] += count
        return done[slot]

    def slots(self, first: int = 0) -> Iterator[int]:
        """Give the slots of what lives, from one on."""
        live, start = self.live, self.start
        place = live.find(1, max(first - start, 0))
        while place >= 0:
            yield start + place
            place = live.find(1, place + 1)


class Taker(Protocol):
    """A durable subscription's view of its topic, as the topic sees it."""

    number: int
    """By which its subscription is known."""
    slot: int
    """Its bit in what says who does not need a message; -1: not known yet."""
    begin: int
    """Of what stands before this it needs nothing."""

    def takes(self, number: int) -> bool:
        """Whether it may need something of a chunk that is not there yet."""

    def come_late(self, sequence: int, size: int) -> None:
        """Take note of a message that stands before others which were put here already."""

    def remove(self, sequences: Iterable[int]) -> list[int]:
        """Be done with messages; gives those that it needed until now."""

    def pass_over(self, sequence: int, chunk: TopicChunk, size: int) -> None:
        """Be done with a message, as `remove` is; the topic looks whether it goes."""


class TopicIndex(SequenceIndex):
    """The messages of one topic that somebody needs, by sequence."""

    __slots__ = (
        "_comes_late",
        "by_slot",
        "change_count",
        "died",
        "following",
        "is_whole",
        "put_bytes",
        "put_count",
        "skips",
        "takers",
    )

    chunks: dict[int, TopicChunk]  # type: ignore[assignment]

    def __init__(self) -> None:
        super().__init__()
        self.takers: dict[int, Taker] = {}
        """The subscriptions known here, by number."""
        self.by_slot: dict[int, Taker] = {}
        """Those whose slot is known, by it."""
        self.is_whole = False
        """All of its subscriptions are known."""
        self.following = 1
        """What is new has this sequence, or a higher one."""
        self._comes_late = False
        """What is just being put stands before something that was put here already."""
        self.put_count = self.put_bytes = 0
        """Of all that was put here on this node."""
        self.skips: dict[int, bytes] = {}
        """Until all are known: by sequence, who does not need a message, as a bit for each slot."""
        self.died: list[int] = []
        """What nobody needs any more since somebody asked."""
        self.change_count = 0
        """How often a taker came, left, began a chunk or was done with one."""

    def add_chunk(self, number: int, start: int) -> TopicChunk:
        """Make the chunk of this number, which is not there yet, and give it."""
        if self._comes_late:
            takers = sum(each.takes(number) for each in self.takers.values())
        else:
            takers = len(self.takers)
        chunk = self.chunks[number] = TopicChunk(start, takers)
        self._note_chunk(number)
        return chunk

    def close_below(self, sequence: int) -> None:
        """Note that what is new has this sequence, or a higher one."""
        self.following = max(self.following, sequence)

    def chunk(self, number: int) -> TopicChunk | None:
        """Give the chunk of a number, if there is one."""
        return self.chunks.get(number)

    def put(self, sequence: int, record_number: int, size: int) -> bool:
        """
        As with queues; one that lives already only moves.

        All need it that take what stands there; where nobody does it does not begin to live.
        """
        comes_late = sequence < self.following
        if not comes_late:
            self.following = sequence + 1
            if not self.takers and self.is_whole:
                return False
        self._comes_late = comes_late
        is_new = super().put(sequence, record_number, size)
        self._comes_late = False
        if is_new:
            self.put_count += 1
            self.put_bytes += size
            if comes_late:
                for taker in self.takers.values():
                    taker.come_late(sequence, size)
                if self._bury([sequence]):
                    self.died.pop()  # It never began to live.
                    return False
        return is_new

    def put_next(self, sequence: int, record_number: int, sizes: list[int]) -> None:
        """As with queues: all of them are above what was put before, and somebody takes them."""
        super().put_next(sequence, record_number, sizes)
        if len(sizes) > 1:  # Else it was put as a single one.
            self.following = sequence + len(sizes)
            self.put_count += len(sizes)
            self.put_bytes += sum(sizes)

    def skip(self, sequence: int, slots: bytes) -> None:
        """Note who does not need a message that was just put."""
        if not self.is_whole:
            self.skips[sequence] = slots
        number, place = sequence >> CHUNK_SHIFT, sequence & SLOT_MASK
        chunk = self.chunk(number)
        if chunk is None:
            return
        takers = [taker for it in bits_of(slots) if (taker := self.by_slot.get(it)) is not None]
        if chunk.takers == 1:
            for taker in takers:
                taker.remove([sequence])
            return
        size = chunk.sizes[place - chunk.start]
        chunk.add_done(place, 0)
        for taker in takers:
            taker.pass_over(sequence, chunk, size)
        if takers:
            self._bury([sequence])

    def settle(self, number: int, slots: Iterable[int]) -> None:
        """Note that one taker more does not need these messages of a chunk, which live."""
        chunk = self.chunk(number)
        if chunk is None:
            return
        takers, base = chunk.takers, number << CHUNK_SHIFT
        if takers == 1 and self.is_whole:
            self._end([base + slot for slot in slots])
            return
        over: list[int] = []
        for slot in slots:
            # As `add_done` does it, without a call for each.
            done = chunk.done
            if done is None or slot >= len(done):
                chunk.add_done(slot, 1)
            else:
                done[slot] += 1
                if done[slot] >= takers:
                    over.append(base + slot)
        if self.is_whole:
            self._end(over)

    def count_in(self, number: int, missing: Iterable[int] = ()) -> None:
        """Count one taker more for a chunk, which does not need these slots of what lives."""
        chunk = self.chunk(number)
        if chunk is not None:
            chunk.takers += 1
            for slot in missing:
                chunk.add_done(slot, 1)

    def count_out(self, number: int, missing: Iterable[int] | None = None) -> None:
        """
        Count one taker less for a chunk, which did not need these slots of what lives.

        None: it needed nothing of it.
        """
        chunk = self.chunk(number)
        if chunk is None:
            return
        for slot in chunk.slots() if missing is None else missing:
            chunk.add_done(slot, -1)
        chunk.takers -= 1
        if missing is not None:
            self._bury_in(number, chunk)

    def become_whole(self) -> None:
        """Let go of what nobody needs: all subscriptions are known now."""
        if self.is_whole:
            return
        self.is_whole = True
        self.skips = {}
        for number in list(self.chunks):
            chunk = self.chunk(number)
            if chunk is not None:
                self._bury_in(number, chunk)

    def _bury_in(self, number: int, chunk: TopicChunk) -> None:
        if not self.is_whole:
            return
        base = number << CHUNK_SHIFT
        if not chunk.takers:
            # As `_end` does it, without a step for each message.
            first = base + chunk.start
            self.died += compress(range(first, first + len(chunk.live)), chunk.live)
            self.live_count -= chunk.count
            self.live_bytes -= sum(chunk.sizes)
            self._drop_chunk(number)
        elif chunk.done is not None and max(chunk.done) >= chunk.takers:
            self._bury([base + slot for slot in chunk.slots()])

    def _bury(self, sequences: list[int]) -> bool:
        """Let go of those of some live messages of one chunk that nobody needs; whether any is."""
        if not self.is_whole or not sequences:
            return False
        chunk = self.chunk(sequences[0] >> CHUNK_SHIFT)
        assert chunk is not None, "they live"
        takers = chunk.takers
        return self._end([it for it in sequences if chunk.done_at(it & SLOT_MASK) >= takers])

    def _end(self, sequences: list[int]) -> bool:
        if not sequences:
            return False
        chunk = self.chunk(sequences[0] >> CHUNK_SHIFT)
        self.died += self.remove(sequences)
        if chunk is not None and chunk.done is not None:
            for sequence in sequences:
                if sequence & SLOT_MASK < len(chunk.done):
                    chunk.done[sequence & SLOT_MASK] = 0
        return True

    def take_over_from(self, index: SequenceIndex) -> None:
        """Become what an index is that was taken for a queue's; that one is used no more."""
        for number, chunk in sorted(index.chunks.items()):
            own = self.add_chunk(number, chunk.start)
            own.record_numbers, own.sizes, own.live = chunk.record_numbers, chunk.sizes, chunk.live
            own.moves, own.returns, own.count = chunk.moves, chunk.returns, chunk.count
            own.group_hashes, own.expires = chunk.group_hashes, chunk.expires
            own.repeats, own.priorities = chunk.repeats, chunk.priorities
        self.expiring, self.ordering = index.expiring, index.ordering
        self.live_count, self.live_bytes = index.live_count, index.live_bytes
        self.put_count, self.put_bytes = index.live_count, index.live_bytes

    def take_died(self) -> list[int]:
        """Take what is gone since somebody asked."""
        died, self.died = self.died, []
        return died


def bits_of(bitmap: bytes) -> list[int]:
    """Give the places of the bits that are set."""
    return [
        place << 3 | bit
        for place, byte in enumerate(bitmap)
        if byte
        for bit in range(8)
        if byte >> bit & 1
    ]


def bitmap_of(places: Iterable[int]) -> bytes:
    """Give bytes with these bits set, no more than are needed."""
    return with_bits(b"", list(places))


def with_bits(known: bytes, places: Sequence[int]) -> bytes:
    """Give bytes with these bits set as well."""
    bitmap = bytearray(known)
    bitmap.extend(bytes(max((max(places, default=-1) >> 3) + 1 - len(known), 0)))
    for place in places:
        bitmap[place >> 3] |= 1 << (place & 7)
    return bytes(bitmap)

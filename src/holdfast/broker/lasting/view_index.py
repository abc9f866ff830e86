"""
What of its topic a durable subscription still needs: a view on the topic's index.

Of a chunk that it has not begun it needs whatever lives there, so a subscription that is away costs
nothing per message. When it is first done with a message of a chunk it gets flags of its own for
it; what is put behind these flags it needs again without being told. A chunk that it is done with
whole is one number in a few stretches, as long as others keep it.

Invariants:
    What has a flag of its own lives in the topic.
    A chunk is in `chunks` (begun), in `finished`, or as the topic has it.
    `begin` is the lowest that it may ever need: also of what a replica learns of late.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import accumulate, compress, groupby
from typing import Final, NamedTuple

from holdfast.broker.lasting.chunk import CHUNK_SHIFT, Chunk
from holdfast.broker.lasting.intervals import Intervals
from holdfast.broker.lasting.returns import NEVER, Returned
from holdfast.broker.lasting.sequence_index import SequenceIndex
from holdfast.broker.lasting.topic_index import SLOT_MASK, TopicChunk, TopicIndex

UNKNOWN_SLOT: Final = -1
_NONE: Final = -1


class Cut(NamedTuple):
    """What of the oldest goes, as there is too much."""

    through: int
    message_count: int
    """So many messages."""


class ViewIndex(SequenceIndex):
    """The messages of one topic that one subscription needs, by sequence."""

    __slots__ = (
        *("_drained", "_missed_bytes", "_missed_count"),
        *("begin", "finished", "number", "slot", "topic"),
    )

    def __init__(
        self, topic: TopicIndex, begin: int, slot: int = UNKNOWN_SLOT, number: int = 0
    ) -> None:
        # Not the base's: what lives is counted from the topic's numbers.
        self.topic = topic
        self.begin = begin
        self.slot = slot
        self.number = number
        self.chunks: dict[int, Chunk] = {}
        """Those that it has begun, with flags and returns only; a slot's place is its number."""
        self.groups = None
        self.finished = Intervals()
        """Numbers of chunks of which it needs nothing."""
        self._missed_count = self._missed_bytes = 0
        """Of all that was put on the topic on this node, what it does not need, or not any more."""
        self._drained = _NONE
        """The number of a chunk that it is done with as far as it goes: the topic's last one."""

    @property
    def live_count(self) -> int:  # type: ignore[override]
        """How many messages it needs."""
        return self.topic.put_count - self._missed_count

    @property
    def live_bytes(self) -> int:  # type: ignore[override]
        """How many bytes these have."""
        return self.topic.put_bytes - self._missed_bytes

    def join(self) -> None:
        """Become one of the topic's, with what it is done with as it is now."""
        join_all(self.topic, [self])

    def own_numbers(self) -> list[int]:
        """Give the numbers of chunks that it may need less of than all that lives there."""
        border = self.begin >> CHUNK_SHIFT
        return [*self.chunks, *(() if border in self.chunks else (border,))]

    def count_from(self, missed_count: int, missed_bytes: int) -> None:
        """Count what it needs from the topic's numbers on, with so much that it does not need."""
        self._missed_count, self._missed_bytes = missed_count, missed_bytes

    def leave(self) -> None:
        """Be one of the topic's no more."""
        self.topic.change_count += 1
        for number, chunk in self._topic_chunks():
            if number not in self.finished:
                self.topic.count_out(number, self.share_of(number, chunk)[2])

    def takes(self, number: int) -> bool:
        """Whether it may need something of a chunk."""
        return self.begin >> CHUNK_SHIFT <= number and number not in self.finished

    def _topic_chunks(self) -> Iterator[tuple[int, TopicChunk]]:
        """Give the topic's chunks that may have something for it, in order."""
        topic = self.topic
        number = topic.chunk_from(self.begin >> CHUNK_SHIFT)
        while number >= 0:
            chunk = topic.chunk(number)
            assert chunk is not None, "it was just found"
            yield number, chunk
            number = topic.chunk_from(number + 1)

    def share_of(self, number: int, chunk: TopicChunk) -> tuple[int, int, Collection[int]]:
        """Give how much it needs of a chunk, in messages and bytes, and the slots of the rest."""
        if number not in self.chunks and self.begin <= (number << CHUNK_SHIFT) + chunk.start:
            return chunk.count, sum(chunk.sizes), ()
        needed = list(self._slots(number, chunk))
        size = sum(chunk.sizes[slot - chunk.start] for slot in needed)
        return len(needed), size, set(chunk.slots()).difference(needed)

    def _slots(self, number: int, chunk: TopicChunk) -> Iterator[int]:
        """Give the slots of a chunk, which is not finished, that it needs."""
        own = self.chunks.get(number)
        first = max(self.begin - (number << CHUNK_SHIFT), 0)
        if own is None:
            yield from chunk.slots(first)
            return
        known = len(own.live)
        yield from compress(range(known), own.live)
        yield from chunk.slots(max(known, first))

    def is_live(self, sequence: int) -> bool:
        """Whether it needs a message."""
        if sequence < self.begin or not self.topic.is_live(sequence):
            return False
        number, slot = sequence >> CHUNK_SHIFT, sequence & SLOT_MASK
        own = self.chunks.get(number)
        if own is not None:
            return slot >= len(own.live) or bool(own.live[slot])
        return number not in self.finished

    def record_number(self, sequence: int) -> int:
        """Give the record number of what it needs, 0 for all else."""
        return self.topic.record_number(sequence) if self.is_live(sequence) else 0

    def group_hash(self, sequence: int) -> int:
        """Give the hash of its group, 0 if it is in none."""
        return self.topic.group_hash(sequence)

    def priority(self, sequence: int) -> int:
        """Give its priority."""
        return self.topic.priority(sequence)

    def next_of(self, priority: int, number: int, slot: int) -> int:
        """Give the first slot of a chunk that it needs with one of a priority, -1 for none."""
        chunk = self.topic.chunk(number)
        if chunk is None or not self.takes(number):
            return _NONE
        found = chunk.next_of(priority, max(slot, self.begin - (number << CHUNK_SHIFT)))
        own = self.chunks.get(number)
        if own is not None:
            while 0 <= found < len(own.live) and not own.live[found]:
                found = chunk.next_of(priority, found + 1)
        return found

    def priorities_from(self, number: int, slot: int) -> list[int]:
        """As of the topic: also of what it does not need."""
        return self.topic.priorities_from(number, slot)

    def repeats(self, sequence: int) -> int:
        """Give how often it fires after that: what is on a topic is not scheduled."""
        return 0

    @property
    def ordering(self) -> int:  # type: ignore[override]
        """As of the topic: also by what it does not need."""
        return self.topic.ordering

    def expires_ms(self, sequence: int) -> int:
        """Give when what it needs expires, in milliseconds since the epoch; 0: never."""
        return self.topic.expires_ms(sequence) if self.is_live(sequence) else 0

    def has_chunk(self, number: int) -> bool:
        """Whether it may need something of a chunk that there is."""
        return self.topic.has_chunk(number) and self.takes(number)

    def expiries_of(self, number: int) -> Sequence[int]:
        """As of the topic: also of what it does not need."""
        return self.topic.expiries_of(number)

    @property
    def expiring(self) -> dict[int, int] | None:  # type: ignore[override]
        """As of the topic: also of chunks of which it needs nothing."""
        return self.topic.expiring

    def move_number(self, sequence: int) -> int:
        """Give the number of the record that moved it here; 0: none did."""
        return self.topic.move_number(sequence) if self.is_live(sequence) else 0

    def size(self, sequence: int) -> int:
        """Give the size of a message that it needs."""
        return self.topic.size(sequence)

    def next_live(self, sequence: int, end: int) -> int:
        """Give the first that it needs from `sequence` on and before `end`, or `end`."""
        topic = self.topic
        sequence = max(sequence, self.begin)
        number = sequence >> CHUNK_SHIFT
        chunk = topic.chunk(number)
        if chunk is not None and number not in self.finished:
            found = self._find(number, chunk, sequence & SLOT_MASK)
            if found >= 0:
                return min((number << CHUNK_SHIFT) + found, end)
        while True:
            number = topic.chunk_from(self.finished.end_of(number + 1))
            if number < 0 or number << CHUNK_SHIFT >= end:
                return end
            if number in self.finished:
                continue
            chunk = topic.chunk(number)
            assert chunk is not None, "it was just found"
            found = self._find(number, chunk, 0)
            if found >= 0:
                return min((number << CHUNK_SHIFT) + found, end)

    def _find(self, number: int, chunk: TopicChunk, slot: int) -> int:
        """Give the first slot from this one on that it needs, -1 if there is none."""
        own = self.chunks.get(number)
        if own is not None:
            found = own.live.find(1, slot)
            if found >= 0:
                return found
            slot = max(slot, len(own.live))
        place = chunk.live.find(1, max(slot - chunk.start, 0))
        return chunk.start + place if place >= 0 else -1

    def first(self) -> int:
        """Give the lowest that it needs, 0 if it needs nothing."""
        end = self.topic.last() + 1
        found = self.next_live(self.begin, end)
        return found if found < end else 0

    def last(self) -> int:
        """Give a sequence that it needs nothing above, 0 if it needs nothing."""
        return self.topic.last() if self.live_count else 0

    def remove(self, sequences: Iterable[int]) -> list[int]:
        """Be done with messages; gives those that it needed until now."""
        gone: list[int] = []
        self._tidy()
        for number, some in groupby(sequences, key=_number_of):
            chunk = self.topic.chunk(number)
            if chunk is None or not self.takes(number):
                continue
            own = self.chunks.get(number)
            if own is None and chunk.takers == 1 and self.topic.is_whole:
                # The only one who takes them: what it is done with is gone.
                slots = [it & SLOT_MASK for it in dict.fromkeys(some) if self.is_live(it)]
            else:
                own = self._begun(number, chunk)
                slots = self._clear(own, some)
            if slots:
                self._missed_count += len(slots)
                self._missed_bytes += sum(chunk.sizes[slot - chunk.start] for slot in slots)
                base = number << CHUNK_SHIFT
                gone += [base + slot for slot in slots]
                self.topic.settle(number, slots)
            if own is not None and not own.count:
                self._drain(number, own)
        return gone

    def pass_over(self, sequence: int, chunk: TopicChunk, size: int) -> None:
        """
        Be done with a message, as `remove` is; the topic looks whether it goes.

        A message may say so of a thousand subscriptions: this takes a fraction of what that does.
        """
        if self._drained != _NONE:
            self._tidy()
        number, slot = sequence >> CHUNK_SHIFT, sequence & SLOT_MASK
        own = self.chunks.get(number)
        if own is None:
            if not self.takes(number):
                return
            own = self._begun(number, chunk)
        live = own.live
        if len(live) == slot and sequence >= self.begin:
            live.append(0)
        else:
            if len(live) <= slot:
                self._begun(number, chunk)
            if not live[slot]:
                return
            live[slot] = 0
            own.count -= 1
            if own.returns is not None:
                own.put_returned(slot, NEVER)
        self._missed_count += 1
        self._missed_bytes += size
        done = chunk.done
        assert done is not None, "the topic has made room"
        done[slot] += 1
        if not own.count:
            self._drain(number, own)

    @staticmethod
    def _clear(own: Chunk, sequences: Iterable[int]) -> list[int]:
        """Take back the flags of some messages of a chunk; gives the slots that had one."""
        live = own.live
        known = len(live)
        slots: list[int] = []
        for sequence in sequences:
            slot = sequence & SLOT_MASK
            if slot < known and live[slot]:
                live[slot] = 0
                slots.append(slot)
                if own.returns is not None:
                    own.put_returned(slot, NEVER)
        own.count -= len(slots)
        return slots

    def _begun(self, number: int, chunk: TopicChunk) -> Chunk:
        """Give its own flags of a chunk, which go as far as the topic's do."""
        own = self.chunks.get(number)
        if own is None:
            own = self.chunks[number] = Chunk(0)
            self.topic.change_count += 1
        live = own.live
        known, end = len(live), chunk.start + len(chunk.live)
        if known < end:
            live.extend(bytes(max(chunk.start - known, 0)))
            live.extend(chunk.live[max(known - chunk.start, 0) :])
            first = self.begin - (number << CHUNK_SHIFT)
            if first > known:
                first = min(first, end)
                live[known:first] = bytes(first - known)
            own.count += live.count(1, known)
        return own

    def _drain(self, number: int, own: Chunk) -> None:
        """Forget the flags of a chunk that it needs nothing of, if nothing new is added to it."""
        if number >= self.topic.following >> CHUNK_SHIFT:
            self._drained = number
            return
        chunk = self.topic.chunk(number)
        if chunk is None or chunk.start + len(chunk.live) <= len(own.live):
            del self.chunks[number]
            self.finished.add(number)
            self.topic.change_count += 1
            self.topic.count_out(number)

    def _tidy(self) -> None:
        """Look again at the chunk that was the topic's last one when all of it was done."""
        number = self._drained
        if number != _NONE and number < self.topic.following >> CHUNK_SHIFT:
            self._drained = _NONE
            own = self.chunks.get(number)
            if own is not None and not own.count:
                self._drain(number, own)

    def come_late(self, sequence: int, size: int) -> None:
        """Take note of a message that was put before others that are here."""
        number, slot = sequence >> CHUNK_SHIFT, sequence & SLOT_MASK
        chunk = self.topic.chunk(number)
        assert chunk is not None, "it was just put"
        if sequence < self.begin:
            self._missed_count += 1
            self._missed_bytes += size
            if self.takes(number):
                chunk.add_done(slot, 1)
                own = self.chunks.get(number)
                if own is not None and slot >= len(own.live):
                    self._begun(number, chunk)
            return
        if number in self.finished:
            self.finished.discard(number)
            self.topic.change_count += 1
            self.topic.count_in(number, chunk.slots())
            chunk.add_done(slot, -1)
            own = self.chunks[number] = Chunk(0)
            own.live.extend(bytes(chunk.start + len(chunk.live)))
        else:
            own = self.chunks.get(number)
        if own is not None and slot < len(own.live) and not own.live[slot]:
            own.live[slot] = 1
            own.count += 1

    def detach_through(self, sequence: int) -> dict[int, Chunk]:
        """
        Be done with all up to this one, for good; gives its own chunks of it, as they were.

        Takes a little for each chunk that goes, and for each message of those that others need and
        that it has begun.
        """
        begin = sequence + 1
        if begin <= self.begin:
            return {}
        self.topic.change_count += 1
        border = begin >> CHUNK_SHIFT
        detached: dict[int, Chunk] = {}
        for number, chunk in self._topic_chunks():
            if number >= border:
                break
            if number in self.finished:
                continue
            needed_count, needed_bytes, missing = self.share_of(number, chunk)
            self._missed_count += needed_count
            self._missed_bytes += needed_bytes
            self.topic.count_out(number, missing)
        for number in [number for number in self.chunks if number < border]:
            detached[number] = self.chunks.pop(number)
        self.finished.discard_below(border)
        self.remove(list(self.sequences(border << CHUNK_SHIFT, begin)))
        self.begin = begin
        return detached

    def cut(self, count: int, size: int, chunks_max: int) -> Cut:
        """Give through which the oldest go, so many or more with so many bytes, of some chunks."""
        through, taken = self.begin - 1, 0
        for number, chunk in self._topic_chunks():
            if (count <= 0 and size <= 0) or chunks_max <= 0:
                break
            if number in self.finished:
                continue
            chunks_max -= 1
            base = number << CHUNK_SHIFT
            needed_count, needed_bytes, _ = self.share_of(number, chunk)
            if needed_count <= count or 0 < needed_bytes < size:
                count -= needed_count
                size -= needed_bytes
                taken += needed_count
                through = base + chunk.start + len(chunk.live) - 1
                continue
            for slot in self._slots(number, chunk):
                if count <= 0 and size <= 0:
                    break
                count -= 1
                taken += 1
                size -= chunk.sizes[slot - chunk.start]
                through = base + slot
        return Cut(through, taken)

    def returned(self, sequence: int) -> Returned:
        """Give what came of a message so far on this subscription."""
        own = self.chunks.get(sequence >> CHUNK_SHIFT)
        if own is None or own.returns is None:
            return NEVER
        return own.returns.of(sequence & SLOT_MASK)

    def put_returned(self, sequence: int, returned: Returned) -> bool:
        """Note what came of a message so far; whether it is needed."""
        if not self.is_live(sequence):
            return False
        number = sequence >> CHUNK_SHIFT
        if returned != NEVER or number in self.chunks:
            chunk = self.topic.chunk(number)
            assert chunk is not None, "something of it lives"
            self._begun(number, chunk).put_returned(sequence & SLOT_MASK, returned)
        return True


def _number_of(sequence: int) -> int:
    return sequence >> CHUNK_SHIFT


def join_all(topic: TopicIndex, views: Collection[ViewIndex]) -> None:
    """
    Let some become the topic's, with what each is done with as it is now.

    Takes something for each chunk, something for each of them, and something for each chunk that
    one of them has begun: a thousand that are away are as quick as one.
    """
    topic.change_count += 1
    lowest = min((view.begin >> CHUNK_SHIFT for view in views), default=0)
    numbers = sorted(number for number in topic.chunks if number >= lowest)
    counts = [0, *accumulate(topic.chunks[each].count for each in numbers)]
    sizes = [0, *accumulate(sum(topic.chunks[each].sizes) for each in numbers)]
    changes = [0] * (len(numbers) + 1)
    for view in views:
        first = bisect_left(numbers, view.begin >> CHUNK_SHIFT)
        changes[first] += 1
        count, size = counts[-1] - counts[first], sizes[-1] - sizes[first]
        for start, end in view.finished:
            low, high = bisect_left(numbers, start, first), bisect_left(numbers, end, first)
            changes[low] -= 1
            changes[high] += 1
            count -= counts[high] - counts[low]
            size -= sizes[high] - sizes[low]
        for number in view.own_numbers():
            chunk = topic.chunk(number)
            if chunk is not None and view.takes(number):
                needed_count, needed_bytes, missing = view.share_of(number, chunk)
                count -= chunk.count - needed_count
                size -= sum(chunk.sizes) - needed_bytes
                for slot in missing:
                    chunk.add_done(slot, 1)
        view.count_from(topic.put_count - count, topic.put_bytes - size)
    for number, takers in zip(numbers, accumulate(changes), strict=False):
        topic.chunks[number].takers += takers

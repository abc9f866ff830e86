"""
The messages of a queue by priority: a lane for each of 9 to 0, and the order of sending in each.

What was given back goes before what is new of the same priority, and behind all of a higher one.
Each lane has a place of its own in the queue's index, and the numbers of the chunks in which some
of it may stand from there on: so one message of a high priority is found behind ten million others
without a look at any of these. Chunks are noted as they come, a new leader notes all in steps.

Invariants, beside those of `choice`:
    A live sequence of a lane behind its cursor is noted, or stands behind all that was noted.
    Nothing of a lane is given while something of a higher one is there that the mark does not
    cover yet: it is wanted, and comes next.

Lives on the leader only and may vanish; nothing here is lasting state.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from typing import Final

from holdfast.broker.lasting.chunk import CHUNK_SHIFT, CHUNK_SIZE, HIGHEST_FIRST
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.returned import Returned
from holdfast.model.facts import PRIORITY_DEFAULT, PRIORITY_MAX

USUAL_RANK: Final = PRIORITY_MAX - PRIORITY_DEFAULT
"""Of what has no priority of its own."""

NO_RANK: Final = PRIORITY_MAX + 1
"""Where nothing is: behind all."""

BEFORE_ALL: Final = -1
"""A rank before all others."""


class _Lane:
    """What has one priority."""

    __slots__ = ("chunks", "cursor", "priority", "returned", "waiting")

    def __init__(self, priority: int, cursor: int) -> None:
        self.priority = priority
        self.cursor = cursor
        """Of its stored messages, what stands from here on was never assigned."""
        self.chunks: deque[int] = deque()
        """Numbers of chunks in which some of that may stand, in order."""
        self.returned = Returned()
        """What was given back."""
        self.waiting: deque[int] = deque()
        """Non-persistent messages that were never assigned."""


class Lanes:
    """Which message is next, by priority."""

    __slots__ = ("_index", "_lanes", "_lasting", "_noted", "_queue", "is_new", "left")

    def __init__(self, queue: Queue, cursor: int) -> None:
        """Begin where all before a sequence was assigned, but what is put back."""
        self._queue = queue
        self._index = queue.index
        self._lasting = queue.lasting
        self._lanes = [_Lane(priority, cursor) for priority in range(PRIORITY_MAX + 1)]
        self._noted = cursor
        """Chunks are noted up to this sequence."""
        self.left = 0
        """So much more may be done in this step."""
        self.is_new = False
        """Whether what was given last, or is next, was never assigned before."""

    def priority_of(self, key: int) -> int:
        """Give the priority of a message."""
        if key > 0:
            return self._index.priority(key)
        transient = self._queue.transients.find(key)
        return PRIORITY_DEFAULT if transient is None else transient.priority

    def rank_of(self, key: int) -> int:
        """Give the rank of a message: a higher priority has a lower one."""
        return PRIORITY_MAX - self.priority_of(key)

    def comes_after(self, parked_rank: int, rank: int) -> bool:
        """Whether what is next, which has a rank, comes after what is parked with another."""
        return parked_rank < rank or (parked_rank == rank and self.is_new)

    @property
    def is_noting(self) -> bool:
        """Whether there are chunks that are not noted yet."""
        return self._noted < self._lasting.next_sequence

    def note(self) -> None:
        """Note what has come, for as long as this step may take; whoever does not go on is told."""
        end = self._lasting.next_sequence
        while self._noted < end and self.left > 0:
            first = self._index.next_live(self._noted, end)
            if first >= end:
                self._noted = end
                break
            number = first >> CHUNK_SHIFT
            base = number << CHUNK_SHIFT
            for priority in self._index.priorities_from(number, first - base):
                chunks = self._lanes[priority].chunks
                if not chunks or chunks[-1] != number:
                    chunks.append(number)
            self._noted = min(base + CHUNK_SIZE, end)
            self.left -= 1

    def put_back(self, key: int) -> None:
        """Put a key back in its old order, if it does not come in its turn."""
        lane = self._lanes[self.priority_of(key)]
        if key > 0:
            if key < lane.cursor:
                lane.returned.put(key, 0, key)
        elif key not in lane.returned:
            transient = self._queue.transients.find(key)
            if transient is not None:  # Else it is gone meanwhile.
                lane.returned.put(transient.order, -key, key)

    def add_transient(self, key: int) -> None:
        """Let a non-persistent message wait for its first consumer."""
        self._lanes[self.priority_of(key)].waiting.append(key)

    def __contains__(self, sequence: int) -> bool:
        lane = self._lanes[self.priority_of(sequence)]
        return sequence in lane.returned or sequence >= lane.cursor

    @property
    def cursor(self) -> int:
        """The lowest stored sequence that was never assigned, as far as it is known."""
        heads = [head for lane in self._lanes if (head := self._head(lane))]
        return min((*heads, self._noted))

    def skip_to(self, sequence: int) -> None:
        """Go on from a sequence, where that is further."""
        for lane in self._lanes:
            lane.cursor = max(lane.cursor, sequence)

    def _head(self, lane: _Lane) -> int:
        """Give the first live sequence of a lane that was never assigned, 0 for none."""
        chunks, cursor = lane.chunks, lane.cursor
        while chunks:
            base = chunks[0] << CHUNK_SHIFT
            if cursor < base + CHUNK_SIZE:
                slot = self._index.next_of(lane.priority, chunks[0], max(0, cursor - base))
                if slot >= 0:
                    lane.cursor = base + slot
                    return base + slot
            chunks.popleft()
        return 0

    def next_rank(self) -> int:
        """
        Give the rank of what is next, of nothing `NO_RANK`; it counts if more may be done.

        Whether that was given back tells `is_new`.
        """
        self.note()
        for priority in HIGHEST_FIRST:
            lane = self._lanes[priority]
            self.is_new = not self._first_returned(lane)
            if not self.is_new or self._next_new(lane)[0]:
                return PRIORITY_MAX - priority
        return NO_RANK

    def next_key(self, *, heeds_mark: bool = True) -> int:
        """
        Take the next message and give its key, 0 if there is none now.

        Args:
            heeds_mark: Whether only what the mark covers may be given.
        """
        if heeds_mark:
            self._queue.wanted = 0
        for priority in HIGHEST_FIRST:
            lane = self._lanes[priority]
            key = self._first_returned(lane)
            self.is_new = not key
            stored = 0
            if not key:
                key, stored = self._next_new(lane)
            if self.left <= 0:
                return 0
            if not key:
                continue
            if key > 0 and heeds_mark and not self._lasting.may_be_sent(key):
                self._queue.wanted = key
                return 0
            if not self.is_new:
                lane.returned.pop()
            elif stored:
                lane.cursor = key + 1
            else:
                lane.waiting.popleft()
            return key
        return 0

    def _first_returned(self, lane: _Lane) -> int:
        """Give the first of what was given back that somebody may have, 0 if there is none."""
        returned = lane.returned
        withheld, transients = self._queue.custody.withheld, self._queue.transients
        while key := returned.first():
            if key not in withheld and (key in transients or self._index.is_live(key)):
                return key
            returned.pop()
            self.left -= 1
            if self.left <= 0:
                return 0
        return 0

    def _next_new(self, lane: _Lane) -> tuple[int, bool]:
        """Give the first of a lane that was never assigned, or 0; and whether it is stored."""
        withheld = self._queue.custody.withheld
        sequence = self._head(lane)
        while sequence and sequence in withheld and self.left > 0:
            lane.cursor = sequence + 1
            sequence = self._head(lane)
            self.left -= 1
        # What was sent before it may be on its way to the log still.
        before = sequence or self._lasting.next_sequence
        waiting, transients = lane.waiting, self._queue.transients
        while waiting and self.left > 0:
            transient = transients.find(waiting[0])
            if transient is None:
                waiting.popleft()
                self.left -= 1
            elif transient.order < before:
                return waiting[0], False
            else:
                break
        return sequence, True

    def empty(self) -> tuple[Collection[object], ...]:
        """Forget what was given back and what waits; gives it, to be let go of."""
        known: list[Collection[object]] = []
        for lane in self._lanes:
            known += (lane.waiting, *lane.returned.empty())
            lane.waiting = deque()
        return (*known,)

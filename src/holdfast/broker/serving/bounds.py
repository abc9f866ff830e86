"""
What of a queue with limits is on its way to the log, and where its oldest free message is.

How many messages are assigned and not applied the numbers tell; how many bytes they have is noted
here as they come, so that a burst in one batch does not slip over a limit.

Made for a queue that policies set limits to, when something is sent there.

Invariants:
    What stands before `first` is in somebody's hands, or something else is done with it; so are
    non-persistent messages with keys above `volatile`, which are older than it.

Lives on the leader only and may vanish; nothing here is lasting state.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Protocol

from holdfast.broker.lasting.queue import LastingQueue
from holdfast.broker.lasting.sequence_index import SequenceIndex
from holdfast.broker.serving.message import TransientMessage
from holdfast.broker.serving.shelves import Shelves


class Numbered(Protocol):
    """A queue, as far as it gives numbers."""

    index: SequenceIndex
    lasting: LastingQueue
    assigned_sequence: int
    newest_before: int
    transients: Shelves[TransientMessage]
    transient_bytes: int

    @property
    def transient_count(self) -> int:
        """Non-persistent messages."""


class Bounds:
    """What is on its way to one queue, and its oldest messages."""

    __slots__ = (
        *("_bytes", "_on_its_way", "_queue", "dropped_total", "first", "first_on_its_way"),
        *("is_of_mirror", "judged_at", "unlooked_count", "volatile"),
    )

    def __init__(self, queue: Numbered) -> None:
        self._queue = queue
        self._on_its_way: deque[tuple[int, int, int]] = deque()
        """First number, count and bytes of what was sent and is not applied, in their order."""
        self._bytes = 0
        """All of these."""
        self.first = 0
        """The oldest stored message that may be free."""
        self.first_on_its_way = 0
        """And the oldest of those that are not applied."""
        self.volatile = 0
        """And the oldest non-persistent one, by its key."""
        self.unlooked_count = 0
        """Messages that were sent since it was looked whether the queue is too full."""
        self.judged_at = (-1, -1)
        """What there was when it was found out whether the queue consumes a mirror."""
        self.is_of_mirror = False
        self.dropped_total = 0
        """Messages that went as newer ones came, under this leader."""

    def sent(self, first: int, count: int, size: int) -> None:
        """Note that messages were sent under neighbouring numbers."""
        self.unlooked_count += count
        on_its_way = self._on_its_way
        while on_its_way and on_its_way[-1][0] >= first:
            self._bytes -= on_its_way.pop()[2]  # It was taken back.
        self.first_on_its_way = min(self.first_on_its_way, first)
        on_its_way.append((first, count, size))
        self._bytes += size

    @property
    def next_to_apply(self) -> int:
        """The first number that this leader gave and is not applied."""
        return max(self._queue.newest_before + 1, self._queue.lasting.next_sequence)

    @property
    def count_on_its_way(self) -> int:
        """How many messages are assigned and not applied."""
        return self._queue.assigned_sequence - self.next_to_apply

    @property
    def bytes_on_their_way(self) -> int:
        """How many bytes these have; a run that is applied in parts counts until its end is."""
        on_its_way, applied = self._on_its_way, self.next_to_apply
        while on_its_way and on_its_way[0][0] + on_its_way[0][1] <= applied:
            self._bytes -= on_its_way.popleft()[2]
        while on_its_way and on_its_way[-1][0] >= self._queue.assigned_sequence:
            self._bytes -= on_its_way.pop()[2]  # It was taken back.
        return self._bytes

    def sizes_on_their_way(self, first: int) -> Iterator[tuple[int, int]]:
        """Give those of them from a number on, each with its bytes, about."""
        start = max(first, self.next_to_apply)
        end = self._queue.assigned_sequence
        for begin, count, size in list(self._on_its_way):
            for sequence in range(max(begin, start), min(begin + count, end)):
                yield sequence, size // count

    def volatile_keys(self) -> Iterator[int]:
        """Give the keys of the non-persistent messages from `volatile` on, oldest first."""
        for shelf in list(self._queue.transients.shelves.values()):
            if shelf and next(reversed(shelf)) <= self.volatile:
                yield from [key for key in shelf if key <= self.volatile]

    @property
    def newest(self) -> int:
        """The key of the newest message; 0: there is none."""
        queue = self._queue
        newest_stored = queue.assigned_sequence - 1
        if newest_stored <= queue.newest_before:
            newest_stored = queue.lasting.next_sequence - 1
        shelves = [shelf for shelf in queue.transients.shelves.values() if shelf]
        if shelves:
            key, message = next(reversed(shelves[-1].items()))
            if message.order >= newest_stored:
                return key
        return newest_stored

    def memory_bytes(self, overhead_bytes: int) -> int:
        """Give what the non-persistent messages take, with so much for each beside its content."""
        return self._queue.transient_bytes + overhead_bytes * self._queue.transient_count

    def came_back(self, keys: list[int]) -> None:
        """Note that nobody has these any more."""
        for key in keys:
            if key > 0:
                self.first = min(self.first, key)
            else:
                self.volatile = max(self.volatile, key)

    def begin_anew(self) -> None:
        """Note that nobody has anything any more."""
        self.first = self.first_on_its_way = self.volatile = 0

"""
When what is on one queue expires: found without looking at all of it, and without a heap of it.

Of stored messages the lasting half has the times, in chunks of 512, and of each chunk with any the
soonest. When that is over the chunk is looked through, and what is due in the next minutes is
listed, 8 bytes a message, in the order of time; what comes later is put there, or makes the next
look earlier. So of ten million messages with times at random each is looked at once in a while.

What expires while somebody has it is left alone, and is looked at again when it comes back.

Invariants:
    A stored message that lives and expires is listed, or its chunk is to be looked through by then,
    or it was found expired while it was not at hand.
    What is listed may be gone, or have come to expire at another time: it is looked up again.

Lives on the leader only and may vanish; nothing here is lasting state.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right, insort
from collections.abc import Collection
from typing import Final, Protocol

from holdfast.broker.lasting.chunk import CHUNK_SHIFT
from holdfast.broker.lasting.sequence_index import SequenceIndex
from holdfast.broker.serving.deadlines import Deadlines
from holdfast.broker.serving.message import TransientMessage
from holdfast.broker.serving.shelves import ShelvedSet, Shelves

HORIZON_MS: Final = 300_000
"""What is due so long after a chunk is looked through is listed: to look through all chunks of ten
million messages takes 0.6 s."""

_SLOT_MASK: Final = (1 << CHUNK_SHIFT) - 1
_TIME_MS_MAX: Final = (1 << 63 - CHUNK_SHIFT) - 1
"""What is due later than in 500,000 years is due then."""
AT_ONCE: Final = 1
"""A time that is over by now, in milliseconds since the epoch."""
_LOOK_EFFORT: Final = 32
"""To look through a chunk takes as long as so many messages that are taken."""


class _Page:
    """What is known of one chunk."""

    __slots__ = ("alarm", "later_ms", "listed", "through_ms")

    def __init__(self) -> None:
        self.listed = array("Q")
        """Time and slot of what is due soon, in that order, in one number each."""
        self.through_ms = 0
        """What is due by then was listed as it was looked through."""
        self.later_ms = 0
        """When the first is due that is not listed, or earlier; 0: there is none."""
        self.alarm = 0
        """When something is to be done for it; 0: there is nothing."""

    @property
    def due_ms(self) -> int:
        """When something is to be done for it."""
        times = []
        if self.listed:
            times.append(self.listed[0] >> CHUNK_SHIFT)
        if self.later_ms:
            times.append(self.later_ms)
        return min(times, default=0)


class Kept(Protocol):
    """A queue, as far as it keeps messages."""

    index: SequenceIndex
    transients: Shelves[TransientMessage]


class Expiry:
    """The times of one queue's messages."""

    __slots__ = (
        "_alarms",
        "_index",
        "_missed",
        "_missed_volatile",
        "_pages",
        "_queue",
        "_unseen",
        "_volatile",
        "alarm",
        "aside",
        "looked_at_count",
        "rests_until_ms",
    )

    def __init__(self, queue: Kept) -> None:
        self._queue = queue
        self._index = queue.index
        self._unseen = list(self._index.expiring or ())
        """Chunks of which it was told before this was made, still to be put in order."""
        self._pages: dict[int, _Page] = {}
        """By the number of the chunk."""
        self._alarms: Deadlines[tuple[int, int]] = Deadlines()
        """Chunks, by when something is to be done for them; may have others."""
        self._volatile: Deadlines[tuple[int, int]] = Deadlines()
        """Non-persistent messages, by when they expire; may have others."""
        self._missed = ShelvedSet()
        """Stored messages that have expired, and are to be looked at now."""
        self._missed_volatile = ShelvedSet()
        """The same of non-persistent ones."""
        self.rests_until_ms = 0
        """Stored messages are not looked at before this time: there is nowhere to go for them."""
        self.aside = ShelvedSet()
        """Of that, what nobody has as it was found expired on its way out; it is withheld."""
        self.alarm = (0, 0)
        """When it is to be woken, and which of the broker's alarms that is."""
        self.looked_at_count = 0
        """Chunks that were looked through."""

    @property
    def soonest(self) -> int:
        """When there may be something to do, in milliseconds; 0: never."""
        stored = AT_ONCE if self._unseen or self._missed else self._alarms.soonest
        volatile = AT_ONCE if self._missed_volatile else self._volatile.soonest
        return min(filter(None, (stored and max(stored, self.rests_until_ms), volatile)), default=0)

    def has_stored(self, now_ms: int) -> bool:
        """Whether there is something to do for stored messages."""
        if now_ms < self.rests_until_ms:
            return False
        return bool(self._unseen or self._missed) or 0 < self._alarms.soonest <= now_ms

    def add(self, expiring: list[tuple[int, int]]) -> None:
        """Take note of messages that live from now on, by their keys, each with its time."""
        pages = self._pages
        for sequence, expires_ms in expiring:
            if sequence < 0:
                self._volatile.add((expires_ms, sequence), self._lives)
                continue
            number = sequence >> CHUNK_SHIFT
            page = pages.get(number)
            if page is None:
                page = pages[number] = _Page()
            if expires_ms <= page.through_ms:
                _list(page, sequence & _SLOT_MASK, expires_ms)
            elif not page.later_ms or expires_ms < page.later_ms:
                page.later_ms = expires_ms
            else:
                continue
            self._set_alarm(number, page)

    def _lives(self, entry: tuple[int, int]) -> bool:
        return entry[1] in self._queue.transients

    def of(self, key: int) -> int:
        """Give when a message expires; 0: never."""
        if key > 0:
            return self._index.expires_ms(key)
        message = self._queue.transients.find(key)
        return 0 if message is None else message.expires_ms

    def is_over(self, key: int, now_ms: int) -> bool:
        """Whether a message has expired."""
        return 0 < self.of(key) <= now_ms

    def came_back(self, keys: list[int]) -> bool:
        """Look again at those of some messages that expire: nobody has them now."""
        mortal = [key for key in keys if self.of(key)]
        self._missed.update([key for key in mortal if key > 0])
        self._missed_volatile.update([key for key in mortal if key < 0])
        return bool(mortal)

    def look_again(self, stored: ShelvedSet, volatile: ShelvedSet) -> None:
        """Look again at what could not be taken off, however much it is."""
        self._missed.merge(stored)
        self._missed_volatile.merge(volatile)

    def put_aside(self, key: int) -> None:
        """Look at a message again that was found expired on its way out, and is withheld."""
        self.aside.add(key)
        (self._missed if key > 0 else self._missed_volatile).add(key)

    def due(self, now_ms: int, count_max: int) -> tuple[list[int], int]:
        """
        Give what has expired by now, having looked at about so much; gives how much it was, too.

        Each is given once, whoever has it; others may be due, too.
        """
        keys: list[int] = []
        left = count_max
        while self._missed_volatile and left > 0:
            keys.append(self._missed_volatile.pop())
            left -= 1
        while 0 < self._volatile.soonest <= now_ms and left > 0:
            entry = self._volatile.pop()
            left -= 1
            if self._lives(entry):
                keys.append(entry[1])
        if now_ms < self.rests_until_ms:
            return keys, count_max - left
        while self._unseen and left > 0:
            self._see(self._unseen.pop())
            left -= 1
        while self._missed and left > 0:
            keys.append(self._missed.pop())
            left -= 1
        while 0 < self._alarms.soonest <= now_ms and left > 0:
            alarm = self._alarms.pop()
            left -= 1
            if self._counts(alarm):
                left -= self._turn(alarm[1], now_ms, keys, left)
        return keys, count_max - left

    def _see(self, number: int) -> None:
        soonest_ms = (self._index.expiring or {}).get(number)
        if soonest_ms is None:
            return
        page = self._pages.setdefault(number, _Page())
        if not page.through_ms and (not page.later_ms or soonest_ms < page.later_ms):
            page.later_ms = soonest_ms
            self._set_alarm(number, page)

    def _turn(self, number: int, now_ms: int, keys: list[int], count_max: int) -> int:
        """Take what is due of a chunk, and look through it if it is time; gives what it took."""
        page, effort = self._pages[number], 0
        page.alarm = 0
        if 0 < page.later_ms <= now_ms:
            self._look_through(number, page, now_ms + HORIZON_MS)
            effort = _LOOK_EFFORT
        listed = page.listed
        count = bisect_right(listed, (min(now_ms, _TIME_MS_MAX) << CHUNK_SHIFT) | _SLOT_MASK)
        count = min(count, max(1, count_max - effort))
        for each in listed[:count]:
            sequence = (number << CHUNK_SHIFT) | (each & _SLOT_MASK)
            if self._index.expires_ms(sequence):
                keys.append(sequence)
        del listed[:count]
        self._set_alarm(number, page)
        return effort + count

    def _look_through(self, number: int, page: _Page, through_ms: int) -> None:
        """List what is due by then."""
        self.looked_at_count += 1
        page.through_ms, page.later_ms = through_ms, 0
        expires = self._index.expiries_of(number)
        later = [it for it in expires if it > through_ms]
        if later:
            page.later_ms = min(later)
        listed = [
            (it << CHUNK_SHIFT) | slot for slot, it in enumerate(expires) if 0 < it <= through_ms
        ]
        page.listed = array("Q", sorted(listed))

    def _set_alarm(self, number: int, page: _Page) -> None:
        due_ms = page.due_ms
        if not due_ms:
            del self._pages[number]
        elif not 0 < page.alarm <= due_ms:
            page.alarm = due_ms
            self._alarms.add((due_ms, number), self._counts)

    def _counts(self, alarm: tuple[int, int]) -> bool:
        """Whether something is still to be done; of what is gone nothing is kept."""
        page = self._pages.get(alarm[1])
        if page is None or page.alarm != alarm[0]:
            return False
        if not self._index.has_chunk(alarm[1]):
            del self._pages[alarm[1]]
            return False
        return True

    def empty(self) -> tuple[Collection[object], ...]:
        """Forget all; gives it, to be let go of."""
        known = (self._unseen, self._pages, self._missed, self._missed_volatile, self.aside)
        self._unseen, self._pages = [], {}
        self._missed, self._missed_volatile, self.aside = ShelvedSet(), ShelvedSet(), ShelvedSet()
        return (*known, *self._alarms.empty(), *self._volatile.empty())


def _list(page: _Page, slot: int, expires_ms: int) -> None:
    entry = (min(expires_ms, _TIME_MS_MAX) << CHUNK_SHIFT) | slot
    if not page.listed or entry > page.listed[-1]:
        page.listed.append(entry)
    else:
        insort(page.listed, entry)

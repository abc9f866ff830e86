"""
What rests on one queue until it is due: ten bytes a message, and a shelf for 512 neighbours.

A shelf has its messages in the order in which they are due, so the first of them is at hand; of the
shelves there is a heap, by their first. A million messages that rest take 12 MB.

Invariants:
    What rests stands in its shelf's order once. What was taken before it was due may stand there
    too, as long as there is less of it than of what rests, or next to nothing.
    Each shelf has something that rests, and an alarm no later than that is due.

Lives on the leader only and may vanish; nothing here is lasting state.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Collection
from typing import Final

from holdfast.broker.serving.deadlines import Deadlines
from holdfast.broker.serving.shelves import SHELF_SHIFT, SLOT_BITS, SLOT_MASK

_FEW: Final = 16


class _Shelf:
    """Of 512 neighbouring keys those that rest."""

    __slots__ = ("alarm", "dues", "resting", "slots")

    def __init__(self) -> None:
        self.dues = array("Q")
        """Until when, in milliseconds, ascending."""
        self.slots = array("H")
        """Whose that is."""
        self.resting = 0
        """A bit for each slot that rests."""
        self.alarm = 0
        """When it is looked at next."""

    def put(self, slot: int, due_ms: int) -> None:
        """Let a slot rest until then, whatever was said of it before."""
        dues, slots = self.dues, self.slots
        if len(slots) > self.resting.bit_count() or self.resting & SLOT_BITS[slot]:
            self._drop(slot)
        place = len(dues) if not dues or due_ms >= dues[-1] else bisect_right(dues, due_ms)
        dues.insert(place, due_ms)
        slots.insert(place, slot)
        self.resting |= SLOT_BITS[slot]

    def _drop(self, slot: int) -> None:
        """Take what was said of a slot out of the order, if it stands there."""
        if slot in self.slots:
            place = self.slots.index(slot)
            del self.dues[place], self.slots[place]

    def take(self, slot: int) -> bool:
        """Let a slot rest no more; whether it did."""
        if not self.resting & SLOT_BITS[slot]:
            return False
        self.resting ^= SLOT_BITS[slot]
        if len(self.slots) > 2 * self.resting.bit_count() + _FEW:
            resting = self.resting
            both = [
                (due_ms, each)
                for due_ms, each in zip(self.dues, self.slots, strict=True)
                if resting & SLOT_BITS[each]
            ]
            self.dues = array("Q", [due_ms for due_ms, _ in both])
            self.slots = array("H", [each for _, each in both])
        return True

    def due(self, now_ms: int, count_max: int) -> tuple[list[int], int]:
        """Take the slots that are due, looking at so many; gives how many that were, too."""
        count = min(bisect_right(self.dues, now_ms), count_max)
        found = [slot for slot in self.slots[:count] if self.resting & SLOT_BITS[slot]]
        for slot in found:
            self.resting ^= SLOT_BITS[slot]
        del self.dues[:count], self.slots[:count]
        return found, count


class Resting:
    """Keys that rest, by when they are due."""

    __slots__ = ("_alarms", "_shelves")

    def __init__(self) -> None:
        self._shelves: dict[int, _Shelf] = {}
        """By the keys that stand on it: `key >> SHELF_SHIFT`."""
        self._alarms: Deadlines[tuple[int, int]] = Deadlines()
        """Shelves, by when the first on them is due; may have others."""

    def __contains__(self, key: int) -> bool:
        shelf = self._shelves.get(key >> SHELF_SHIFT)
        return shelf is not None and bool(shelf.resting & SLOT_BITS[key & SLOT_MASK])

    def __len__(self) -> int:
        return sum(shelf.resting.bit_count() for shelf in self._shelves.values())

    def put(self, key: int, due_ms: int) -> bool:
        """Let a key rest until then; whether it is due before all others."""
        number = key >> SHELF_SHIFT
        shelf = self._shelves.get(number)
        if shelf is None:
            shelf = self._shelves[number] = _Shelf()
        shelf.put(key & SLOT_MASK, due_ms)
        soonest = self._alarms.soonest
        if not 0 < shelf.alarm <= due_ms:
            self._set_alarm(number, shelf, due_ms)
        return not soonest or due_ms < soonest

    def _set_alarm(self, number: int, shelf: _Shelf, due_ms: int) -> None:
        shelf.alarm = due_ms
        self._alarms.add((due_ms, number), self._counts)

    def _counts(self, alarm: tuple[int, int]) -> bool:
        shelf = self._shelves.get(alarm[1])
        return shelf is not None and shelf.alarm == alarm[0]

    def take(self, key: int) -> None:
        """Let a key rest no more, if it does."""
        number = key >> SHELF_SHIFT
        shelf = self._shelves.get(number)
        if shelf is not None and shelf.take(key & SLOT_MASK) and not shelf.resting:
            del self._shelves[number]

    @property
    def soonest(self) -> int:
        """When the first may be due, in milliseconds; 0: nothing rests."""
        return self._alarms.soonest

    def due(self, now_ms: int, count_max: int) -> list[int]:
        """Take those that are due, looking at so many; others may be due, too."""
        keys: list[int] = []
        left = count_max
        while left > 0 and 0 < self._alarms.soonest <= now_ms:
            alarm = self._alarms.pop()
            left -= 1
            if not self._counts(alarm):
                continue
            number = alarm[1]
            shelf = self._shelves[number]
            slots, looked_at = shelf.due(now_ms, left + 1)
            keys += [(number << SHELF_SHIFT) + slot for slot in slots]
            left -= looked_at - 1
            if shelf.resting:
                self._set_alarm(number, shelf, shelf.dues[0])
            else:
                del self._shelves[number]
        return keys

    def empty(self) -> tuple[Collection[object], ...]:
        """Forget all; gives it, to be let go of."""
        known = (self._shelves, *self._alarms.empty())
        self._shelves = {}
        return known

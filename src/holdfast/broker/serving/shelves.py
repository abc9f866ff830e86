"""
What is known of single messages, on shelves of 512 neighbouring keys each.

A mapping that grows is built anew at once, and so is a set: with 350,000 in it that takes 15 ms, in
which nobody else is served, and it comes again where as many come as go. Of shelves only one is
built anew at a time, whatever stands on all of them together.

Keys are a queue's sequences, and below zero those of messages that are in memory only: neighbours
come and go together, so a shelf is full or soon gone. What is asked for each message may look at
`shelves` itself, by `key >> SHELF_SHIFT`, which saves a call.

Invariants:
    An empty shelf of a mapping stands alone: it is kept where single messages come and go.
    A shelf of which few are left takes no more room than those few need.

Lives on the leader only and may vanish; nothing here is lasting state.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Collection, Iterator, MutableMapping, MutableSet, Sequence
from itertools import chain, repeat
from typing import Any, Final, TypeVar

SHELF_SHIFT: Final = 9
_SIZE: Final = 1 << SHELF_SHIFT
SLOT_MASK: Final = _SIZE - 1
SLOT_BITS: Final = tuple(1 << slot for slot in range(_SIZE))
"""The bit of a key on its shelf, where a shelf is one number: by `key & SLOT_MASK`."""
_FEW: Final = _SIZE >> 4
"""Python's own containers give no room back: a full shelf takes 18 KB, whatever is taken off it."""
LOOKED_AT: Final = frozenset({0, _FEW})
"""Where so many are left on a shelf, after one was taken off, `tidy` is to be called."""
NO_SHELF: Final[dict[int, Any]] = {}
"""Stands for a shelf that there is none of; nothing is ever put on it."""

V = TypeVar("V")


class _Mappings(dict[int, dict[int, V]]):
    """Shelves by number, made when something is put on them."""

    __slots__ = ()

    def __missing__(self, number: int) -> dict[int, V]:
        _drop_empty(self)
        shelf: dict[int, V] = {}
        self[number] = shelf
        return shelf


class Shelves(MutableMapping[int, V]):
    """A mapping from keys to what is not None."""

    __slots__ = ("shelves",)

    def __init__(self) -> None:
        self.shelves: dict[int, dict[int, V]] = _Mappings()
        """By the keys that stand on it: `key >> SHELF_SHIFT`."""

    def __getitem__(self, key: int) -> V:
        value: V = self.shelves.get(key >> SHELF_SHIFT, NO_SHELF)[key]
        return value

    def __setitem__(self, key: int, value: V) -> None:
        self.shelves[key >> SHELF_SHIFT][key] = value

    def __delitem__(self, key: int) -> None:
        if self.take(key) is None:
            raise KeyError(key)

    def __contains__(self, key: object) -> bool:
        return isinstance(key, int) and key in self.shelves.get(key >> SHELF_SHIFT, NO_SHELF)

    def __iter__(self) -> Iterator[int]:
        return chain.from_iterable(self.shelves.values())

    def __len__(self) -> int:
        return sum(map(len, self.shelves.values()))

    def __bool__(self) -> bool:
        return any(self.shelves.values())

    def find(self, key: int) -> V | None:
        """Give what stands under this key, None if nothing does."""
        return self.shelves.get(key >> SHELF_SHIFT, NO_SHELF).get(key)

    def put_next(self, first: int, values: Sequence[V]) -> None:
        """Put values under neighbouring keys from `first` on."""
        if len(values) == 1:
            self.shelves[first >> SHELF_SHIFT][first] = values[0]
            return
        at = 0
        while at < len(values):
            key = first + at
            some = values[at : at + _SIZE - (key & (_SIZE - 1))]
            self.shelves[key >> SHELF_SHIFT].update(zip(range(key, key + len(some)), some))  # noqa: B905 - as many as there are
            at += len(some)

    def take(self, key: int) -> V | None:
        """Take what stands under this key, None if nothing does."""
        shelf: dict[int, V] = self.shelves.get(key >> SHELF_SHIFT, NO_SHELF)
        value = shelf.pop(key, None)
        if value is not None and len(shelf) in LOOKED_AT:
            self.tidy(key)
        return value

    def tidy(self, key: int) -> None:
        """Give room back of the shelf from which this key was taken, if few or none are left."""
        number = key >> SHELF_SHIFT
        if self.shelves[number]:
            self.shelves[number] = self.shelves[number].copy()
        elif len(self.shelves) > 1:
            del self.shelves[number]

    def take_all(self, keys: Collection[int]) -> list[V]:
        """Take what stands under these keys, as far as anything does."""
        if len(keys) == 1:
            (key,) = keys
            taken = self.take(key)
            return [] if taken is None else [taken]
        gone: list[V] = []
        for number, some in _by_shelf(keys):
            shelf = self.shelves.get(number)
            if shelf is not None:
                before = len(shelf)
                gone += [value for value in map(shelf.pop, some, repeat(None)) if value is not None]
                if len(shelf) <= _FEW < before or not shelf:
                    self.tidy(some[0])
        return gone

    def popitem(self) -> tuple[int, V]:
        """Take any of them."""
        number, shelf = self.shelves.popitem()
        item = shelf.popitem()
        if shelf:
            self.shelves[number] = shelf
        return item


class ShelvedSet(MutableSet[int]):
    """A set of keys: of each shelf a bit for each key, so a full one takes 100 bytes."""

    __slots__ = ("shelves",)

    def __init__(self, keys: Collection[int] = ()) -> None:
        self.shelves: dict[int, int] = {}
        """By the keys that stand on it: `key >> SHELF_SHIFT`; none is empty."""
        self.update(keys)

    def __contains__(self, key: object) -> bool:
        if not isinstance(key, int):
            return False
        return bool(self.shelves.get(key >> SHELF_SHIFT, 0) & SLOT_BITS[key & SLOT_MASK])

    def __iter__(self) -> Iterator[int]:
        for number, bits in self.shelves.items():
            left = bits
            while left:
                lowest = left & -left
                left ^= lowest
                yield (number << SHELF_SHIFT) + lowest.bit_length() - 1

    def __len__(self) -> int:
        return sum(map(int.bit_count, self.shelves.values()))

    def __bool__(self) -> bool:
        return bool(self.shelves)

    def add(self, value: int) -> None:
        """Put a key on its shelf."""
        number = value >> SHELF_SHIFT
        self.shelves[number] = self.shelves.get(number, 0) | SLOT_BITS[value & SLOT_MASK]

    def discard(self, value: int) -> None:
        """Take a key off, if it is there."""
        if self.shelves:
            self._take(value >> SHELF_SHIFT, SLOT_BITS[value & SLOT_MASK])

    def update(self, keys: Collection[int]) -> None:
        """Put many on their shelves."""
        for number, some in _by_shelf(keys):
            self.shelves[number] = self.shelves.get(number, 0) | _bits_of(some)

    def difference_update(self, keys: Collection[int]) -> None:
        """Take many off, as far as they are there."""
        if not self.shelves:
            return
        for number, some in _by_shelf(keys):
            if number in self.shelves:
                self._take(number, _bits_of(some))

    def merge(self, other: ShelvedSet) -> None:
        """Put all of another set there, too: shelf by shelf, however many they are."""
        shelves = self.shelves
        for number, bits in other.shelves.items():
            shelves[number] = shelves.get(number, 0) | bits

    def pop(self) -> int:
        """Take any of them."""
        number, bits = self.shelves.popitem()
        lowest = bits & -bits
        if bits != lowest:
            self.shelves[number] = bits ^ lowest
        return (number << SHELF_SHIFT) + lowest.bit_length() - 1

    def cut(self, first: int) -> None:
        """Take off all from a key on."""
        number = first >> SHELF_SHIFT
        for each in [each for each in self.shelves if each > number]:
            del self.shelves[each]
        self._take(number, -SLOT_BITS[first & SLOT_MASK])

    def _take(self, number: int, bits: int) -> None:
        left = self.shelves.get(number, 0) & ~bits
        if left:
            self.shelves[number] = left
        else:
            self.shelves.pop(number, None)


class OrderedKeys(ShelvedSet):
    """A set of which the lowest key is at hand."""

    __slots__ = ("_numbers",)

    def __init__(self) -> None:
        self._numbers: list[int] = []
        """Heap of the shelves there are; may have some that are gone, or twice."""
        super().__init__()

    def add(self, value: int) -> None:
        """Put a key on its shelf."""
        number = value >> SHELF_SHIFT
        if number not in self.shelves:
            if len(self._numbers) > 2 * len(self.shelves) + _FEW:
                self._numbers = sorted(self.shelves)
            heapq.heappush(self._numbers, number)
        super().add(value)

    def update(self, keys: Collection[int]) -> None:
        """Put many on their shelves."""
        for key in keys:
            self.add(key)

    def first(self) -> int:
        """Give the lowest key, which is above zero as all are; 0 if there is none."""
        numbers, shelves = self._numbers, self.shelves
        while numbers:
            bits = shelves.get(numbers[0], 0)
            if bits:
                return (numbers[0] << SHELF_SHIFT) + (bits & -bits).bit_length() - 1
            heapq.heappop(numbers)
        return 0


def _bits_of(keys: list[int]) -> int:
    """Give a bit for each key of one shelf, in order."""
    if len(keys) > _FEW and len(set(keys)) == keys[-1] - keys[0] + 1:
        return ((1 << (keys[-1] - keys[0] + 1)) - 1) << (keys[0] & SLOT_MASK)
    bits = 0
    for key in keys:
        bits |= SLOT_BITS[key & SLOT_MASK]
    return bits


def _drop_empty(shelves: dict[int, dict[int, V]]) -> None:
    """Give up the shelf that stands alone and empty, before there is another one."""
    if len(shelves) == 1 and not any(shelves.values()):
        shelves.clear()


def _by_shelf(keys: Collection[int]) -> Iterator[tuple[int, list[int]]]:
    """Give keys shelf by shelf; most come in order, so this does not look at each."""
    ordered = sorted(keys)
    at = 0
    while at < len(ordered):
        number = ordered[at] >> SHELF_SHIFT
        end = bisect_left(ordered, (number + 1) << SHELF_SHIFT, at)
        yield number, ordered[at:end]
        at = end

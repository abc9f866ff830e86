"""
What is known of single messages, on shelves of 512 neighbouring keys each.

A mapping that grows is built anew at once, and so is a set: with 350,000 in it that takes 15 ms, in
which nobody else is served, and it comes again where as many come as go. Of shelves only one is
built anew at a time, whatever stands on all of them together.

Keys are a queue's sequences, and below zero those of messages that are in memory only: neighbours
come and go together, so a shelf is full or soon gone. What is asked for each message may look at
`shelves` itself, by `key >> SHELF_SHIFT`, which saves a call.

Invariants:
    An empty shelf stands alone: it is kept where single messages come and go.
    A shelf of which few are left takes no more room than those few need.

Lives on the leader only and may vanish; nothing here is lasting state.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Collection, Iterator, MutableMapping, MutableSet, Sequence
from itertools import chain, repeat
from typing import Any, Final, TypeVar

SHELF_SHIFT: Final = 9
_SIZE: Final = 1 << SHELF_SHIFT
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


class _Sets(dict[int, set[int]]):
    """The same, of keys alone."""

    __slots__ = ()

    def __missing__(self, number: int) -> set[int]:
        _drop_empty(self)
        shelf: set[int] = set()
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
    """A set of keys."""

    __slots__ = ("shelves",)

    def __init__(self, keys: Collection[int] = ()) -> None:
        self.shelves: dict[int, set[int]] = _Sets()
        """By the keys that stand on it: `key >> SHELF_SHIFT`."""
        self.update(keys)

    def __contains__(self, key: object) -> bool:
        return isinstance(key, int) and key in self.shelves.get(key >> SHELF_SHIFT, NO_SHELF)

    def __iter__(self) -> Iterator[int]:
        return chain.from_iterable(self.shelves.values())

    def __len__(self) -> int:
        return sum(map(len, self.shelves.values()))

    def __bool__(self) -> bool:
        return any(self.shelves.values())

    def add(self, value: int) -> None:
        """Put a key on its shelf."""
        self.shelves[value >> SHELF_SHIFT].add(value)

    def discard(self, value: int) -> None:
        """Take a key off, if it is there."""
        if self.shelves:
            self._take(value >> SHELF_SHIFT, (value,))

    def update(self, keys: Collection[int]) -> None:
        """Put many on their shelves."""
        for number, some in _by_shelf(keys):
            self.shelves[number].update(some)

    def difference_update(self, keys: Collection[int]) -> None:
        """Take many off, as far as they are there."""
        if not self.shelves:
            return
        for number, some in _by_shelf(keys):
            self._take(number, some)

    def pop(self) -> int:
        """Take any of them."""
        number, shelf = self.shelves.popitem()
        key = shelf.pop()
        if shelf:
            self.shelves[number] = shelf
        return key

    def _take(self, number: int, keys: Collection[int]) -> None:
        shelf = self.shelves.get(number)
        if shelf is None:
            return
        before = len(shelf)
        shelf.difference_update(keys)
        if not shelf:
            if len(self.shelves) > 1:
                del self.shelves[number]
        elif len(shelf) <= _FEW < before:
            self.shelves[number] = shelf.copy()


def _drop_empty(shelves: dict[int, dict[int, V]] | dict[int, set[int]]) -> None:
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

"""
Messages of one queue that were looked at, and that nobody who may have them has room for.

Each stands in a *bucket*, which says who may have it: the consumers whose selectors want it, the
owner of its group, both. Within a bucket they stand in the order of their queue, also those that
are put back; whoever may take from several buckets takes the first of their heads (`Heads`).

The contract, for whoever chooses by more than the order:
    A bucket is any hashable value; it is there as long as something stands in it.
    `put` places a message, `take` removes it wherever it stands, `move` gives it another bucket.
    Order is by rank (a higher priority has a lower one), then as the queue has it. All of a bucket
    have one rank: who ranks messages makes the rank a part of the bucket.
    Who takes from a bucket is asked when it comes into being (`takers`). Where that changes, what
    stands in it goes to another bucket (`pour`, `put`), in steps.
    Whoever learns that a message is gone, withheld or given back takes it out: nothing here knows
    what lives.
    Nothing bounds `put`: who looks through a queue stops while it `is_full`.

Invariants:
    A message stands in one bucket, once.
    Of each bucket with messages all of its `Heads` have one note, no later than its head; of others
    they have none.

Lives on the leader only and may vanish; nothing here is lasting state.
"""

from __future__ import annotations

import heapq
from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Hashable, Iterable, MutableSequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

from holdfast.broker.serving.shelves import Shelves

PARKED_COUNT_MAX: Final = 1_000_000
"""At so many on one queue nothing more is looked at."""

_PAGE_COUNT_MAX: Final = 512
_FEW: Final = 64

P = TypeVar("P", int, tuple[int, int])


class Place(NamedTuple):
    """Where a message stands in the order of its queue, among all buckets."""

    rank: int
    order: int
    """A stored one's sequence; of others that of the stored one that was sent before."""
    serial: int
    """0 of a stored one; others stand behind theirs, in the order in which they came."""

    @property
    def key(self) -> int:
        """The key of the message that stands there."""
        return -self.serial if self.serial else self.order


class _Row(Generic[P]):
    """Values in order, on pages: so that one may come or go anywhere of a million."""

    __slots__ = ("_make", "pages")

    def __init__(self, make: Callable[[Iterable[P]], MutableSequence[P]]) -> None:
        self._make: Callable[[Iterable[P]], MutableSequence[P]] = make
        self.pages: list[MutableSequence[P]] = []
        """In order; none is empty."""

    def put(self, value: P) -> None:
        """Put a value in its place."""
        pages = self.pages
        if not pages:
            pages.append(self._make((value,)))
            return
        page = pages[-1]
        if value > page[-1]:
            if len(page) < _PAGE_COUNT_MAX:
                page.append(value)
            else:
                pages.append(self._make((value,)))
            return
        number = max(0, bisect_right(pages, value, key=_first_of) - 1)
        page = pages[number]
        page.insert(bisect_left(page, value), value)
        if len(page) > _PAGE_COUNT_MAX:
            half = len(page) // 2
            pages.insert(number + 1, self._make(page[half:]))
            del page[half:]

    def take(self, value: P) -> None:
        """Take a value out that is there."""
        pages = self.pages
        number = bisect_right(pages, value, key=_first_of) - 1
        page = pages[number]
        place = bisect_left(page, value)
        assert page[place] == value, "what stands in a bucket stands in its row"
        del page[place]
        if not page:
            del pages[number]


def _first_of(page: MutableSequence[P]) -> P:
    return page[0]


def _make_stored(values: Iterable[int]) -> MutableSequence[int]:
    return array("Q", values)


class _Life:
    """Whether what once stood there was forgotten, all of it."""

    __slots__ = ("is_over",)

    def __init__(self) -> None:
        self.is_over = False


class _Lane:
    """What stands in one bucket."""

    __slots__ = ("bucket", "count", "life", "rank", "stored", "takers", "volatile")

    def __init__(self, bucket: Hashable, rank: int, takers: Iterable[Heads], life: _Life) -> None:
        self.bucket = bucket
        self.life = life
        self.rank = rank
        self.takers = [*takers]
        self.count = 0
        self.stored: _Row[int] = _Row(_make_stored)
        """Sequences: eight bytes each."""
        self.volatile: _Row[tuple[int, int]] | None = None
        """Order and serial of what is in memory only; most buckets have none."""

    def head(self) -> Place | None:
        """Give where the first stands, None if there is none."""
        stored = self.stored.pages
        volatile = None if self.volatile is None else self.volatile.pages
        if volatile:
            first = volatile[0][0]
            # Sent behind the persistent message of the same order.
            if not stored or first[0] < stored[0][0]:
                return Place(self.rank, *first)
        return Place(self.rank, stored[0][0], 0) if stored else None


class Parked:
    """What is parked on one queue."""

    __slots__ = ("_lanes", "_life", "_orders", "_takers", "_where", "count", "count_max")

    def __init__(
        self,
        takers: Callable[[Any], Iterable[Heads]] = lambda _bucket: (),
        count_max: int = PARKED_COUNT_MAX,
    ) -> None:
        """
        Begin with nothing.

        Args:
            takers: Gives who takes from a bucket.
        """
        self._takers = takers
        self.count_max = count_max
        self._life = _Life()
        self._lanes: dict[Hashable, _Lane] = {}
        self._where: Shelves[_Lane] = Shelves()
        """By key: in which bucket it stands."""
        self._orders: Shelves[int] = Shelves()
        """The order of what is in memory only, by key."""
        self.count = 0

    def __contains__(self, key: int) -> bool:
        return key in self._where

    def __len__(self) -> int:
        return self.count

    @property
    def is_full(self) -> bool:
        """Whether nothing more is to be looked at, until some of it is taken."""
        return self.count >= self.count_max

    @property
    def buckets(self) -> Collection[Hashable]:
        """Those in which something stands."""
        return self._lanes.keys()

    def put(self, bucket: Hashable, key: int, order: int, rank: int = 0) -> None:
        """Place a message that stands nowhere yet."""
        assert key not in self._where, "a message stands in one bucket, once"
        lane = self._lanes.get(bucket)
        if lane is None:
            lane = self._lanes[bucket] = _Lane(bucket, rank, self._takers(bucket), self._life)
        assert lane.rank == rank, "all of a bucket have one rank"
        self._where[key] = lane
        lane.count += 1
        self.count += 1
        if key > 0:
            place = Place(rank, key, 0)
            lane.stored.put(key)
        else:
            place = Place(rank, order, -key)
            self._orders[key] = order
            if lane.volatile is None:
                lane.volatile = _Row(list)
            lane.volatile.put((order, -key))
        if lane.takers and (lane.count == 1 or lane.head() == place):
            lane.takers = [each for each in lane.takers if each.note(lane, place)]

    def take(self, key: int) -> Hashable | None:
        """Take a message out, wherever it stands; gives its bucket, None if it stood nowhere."""
        lane = self._where.take(key)
        if lane is None:
            return None
        if key > 0:
            lane.stored.take(key)
        else:
            order = self._orders.take(key)
            assert order is not None and lane.volatile is not None, "it was put there"
            lane.volatile.take((order, -key))
        self.count -= 1
        lane.count -= 1
        if not lane.count:
            del self._lanes[lane.bucket]
            for each in lane.takers:
                each.forget(lane)
        return lane.bucket

    def move(self, key: int, bucket: Hashable, rank: int = 0) -> None:
        """Give a message that stands somewhere another bucket."""
        order = key if key > 0 else self._orders[key]
        self.take(key)
        self.put(bucket, key, order, rank)

    def ask_again(self, bucket: Hashable) -> None:
        """Ask anew who takes from a bucket: it has changed."""
        lane = self._lanes.get(bucket)
        head = None if lane is None else lane.head()
        if lane is None or head is None:
            return
        for each in lane.takers:
            each.forget(lane)
        lane.takers = [each for each in self._takers(bucket) if each.note(lane, head)]

    def pour(self, bucket: Hashable, count_max: int) -> list[int]:
        """Take so many out of a bucket, the first ones in order."""
        keys: list[int] = []
        while len(keys) < count_max and (key := self.first(bucket)):
            self.take(key)
            keys.append(key)
        return keys

    def bucket_of(self, key: int) -> Hashable | None:
        """Give where a message stands, None if nowhere."""
        lane = self._where.find(key)
        return None if lane is None else lane.bucket

    def count_of(self, bucket: Hashable) -> int:
        """Give how many stand in a bucket."""
        lane = self._lanes.get(bucket)
        return 0 if lane is None else lane.count

    def first(self, bucket: Hashable) -> int:
        """Give the first of a bucket, 0 if nothing stands there."""
        lane = self._lanes.get(bucket)
        head = None if lane is None else lane.head()
        return 0 if head is None else head.key

    def place_of(self, bucket: Hashable) -> Place | None:
        """Give where the first of a bucket stands, None if there is nothing."""
        lane = self._lanes.get(bucket)
        return None if lane is None else lane.head()

    def empty(self) -> tuple[Collection[object], ...]:
        """Forget all; gives it, to be let go of. Who takes finds nothing any more."""
        known = (self._lanes, self._where, self._orders)
        self._life.is_over = True
        self._life = _Life()
        self._lanes, self._where, self._orders = {}, Shelves(), Shelves()
        self.count = 0
        return known


class Heads:
    """The buckets from which somebody takes, by what stands first in each."""

    __slots__ = ("_count", "_noted", "_notes", "is_over")

    def __init__(self) -> None:
        self._notes: list[tuple[Place, int, _Lane]] = []
        """Heap of the notes, and of some that do not count any more."""
        self._noted: dict[_Lane, int] = {}
        """Which of the notes on a bucket counts."""
        self._count = 0
        self.is_over = False
        """Set by whoever takes nothing any more: it is told of nothing then."""

    def note(self, lane: _Lane, place: Place) -> bool:
        """Note what stands first in a bucket now; false if it is to be told no more."""
        if self.is_over:
            self._notes, self._noted = [], {}
            return False
        self._count += 1  # No two are equal: lanes have no order.
        self._noted[lane] = self._count
        heapq.heappush(self._notes, (place, self._count, lane))
        if len(self._notes) > 2 * len(self._noted) + _FEW:
            noted = self._noted
            self._notes = [each for each in self._notes if noted.get(each[2]) == each[1]]
            heapq.heapify(self._notes)
        return True

    def forget(self, lane: _Lane) -> None:
        """Note that nothing stands in a bucket any more."""
        self._noted.pop(lane, None)

    @property
    def buckets(self) -> list[Hashable]:
        """Those in which something stands."""
        return [lane.bucket for lane in self._noted if not lane.life.is_over]

    def first(self) -> Place | None:
        """Give where the first of all stands that may be taken, None if there is nothing."""
        notes, noted = self._notes, self._noted
        while notes:
            place, number, lane = notes[0]
            if noted.get(lane) == number:
                head = None if lane.life.is_over else lane.head()
                if head == place:
                    return place
                if head is None:
                    del noted[lane]
                else:
                    # What stood there was taken, perhaps by others.
                    heapq.heapreplace(notes, (head, number, lane))
                    continue
            heapq.heappop(notes)
        return None

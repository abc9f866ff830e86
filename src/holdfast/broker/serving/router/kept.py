"""
What of a queue was looked at and stays: parked for those who want it, or left over.

What nobody wants who is there is left over: a bit for each message, on shelves.

Invariants:
    A message stands in one place: parked in the bucket of those who want it, or left over.

Lives on the leader only and may vanish; nothing here is lasting state.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeAlias, cast

from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.router.classes import ConsumerClass
from holdfast.broker.serving.router.parked import Heads, Parked
from holdfast.broker.serving.shelves import OrderedKeys, ShelvedSet

Bucket: TypeAlias = frozenset[ConsumerClass]
"""Who may have what is parked: those that want it."""


def _takers(bucket: Bucket) -> list[Heads]:
    return [one.heads for one in bucket]


class Kept:
    """Messages that nobody has, by who wants them."""

    __slots__ = ("_queue", "left_over", "left_over_volatile", "parked")

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self.parked = Parked(_takers)
        self.left_over = OrderedKeys()
        """Stored messages that nobody wants who is there."""
        self.left_over_volatile = ShelvedSet()
        """The same of those in memory only."""

    def __bool__(self) -> bool:
        return bool(self.parked.count or self.left_over or self.left_over_volatile)

    def __contains__(self, key: int) -> bool:
        return key in self.parked or key in self._left(key)

    def _left(self, key: int) -> ShelvedSet:
        return self.left_over if key > 0 else self.left_over_volatile

    def put(self, key: int, order: int, wanted: Bucket) -> None:
        """Keep a message for those who want it."""
        if wanted:
            self.parked.put(wanted, key, order)
        else:
            self._left(key).add(key)

    def take(self, key: int) -> None:
        """Take a message out, wherever it stands."""
        if self.parked.take(key) is None:
            self._left(key).discard(key)

    def add(self, key: int, one: ConsumerClass) -> None:
        """Let a class have a message, too, if it is here yet."""
        bucket = self.parked.bucket_of(key)
        if bucket is not None:
            self.parked.move(key, cast("Bucket", bucket) | {one})
        elif key in self._left(key):
            self._left(key).discard(key)
            order = key if key > 0 else self._queue.transients[key].order
            self.put(key, order, frozenset((one,)))

    def rehome(self, bucket: Bucket, count_max: int) -> int:
        """Let so many of a bucket stand where those have them who are there yet; how many."""
        wanted = frozenset([one for one in bucket if not one.is_over])
        keys = self.parked.pour(bucket, count_max)
        for key in keys:
            if key > 0:
                self.put(key, key, wanted)
            elif key in self._queue.transients:
                self.put(key, self._queue.transients[key].order, wanted)
        return len(keys)

    def empty(self) -> tuple[Collection[object], ...]:
        """Forget all; gives what was long, to be let go of."""
        known = (*self.parked.empty(), self.left_over, self.left_over_volatile)
        self.left_over, self.left_over_volatile = OrderedKeys(), ShelvedSet()
        return known

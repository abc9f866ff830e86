"""
What of a queue was looked at and stays: parked for those who want it, or left over.

What nobody wants who is there is left over: a bit for each message, on shelves.

Invariants:
    A message stands in one place: parked in the bucket of those who want it, or left over.

Lives on the leader only and may vanish; nothing here is lasting state.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import cast

from holdfast.broker.serving.lanes import USUAL_RANK
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.router.buckets import Bucket, Stream, rank_of, wanted_by
from holdfast.broker.serving.router.classes import ConsumerClass
from holdfast.broker.serving.router.hands import Hands
from holdfast.broker.serving.router.parked import Heads, Parked
from holdfast.broker.serving.shelves import OrderedKeys, ShelvedSet


class Kept:
    """Messages that nobody has, by who wants them."""

    __slots__ = ("_queue", "alone", "hands", "left_over", "left_over_volatile", "parked")

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self.parked = Parked(self._takers)
        self.alone = Parked(lambda bucket: [one.alone for one in bucket])
        """What is to be sent alone, outside the order, by who wants it."""
        self.hands: Hands | None = None
        """In whose hands groups are; None where there are none."""
        self.left_over = OrderedKeys()
        """Stored messages that nobody wants who is there."""
        self.left_over_volatile = ShelvedSet()
        """The same of those in memory only."""

    def _takers(self, bucket: Bucket) -> list[Heads]:
        if self.hands is not None and isinstance(bucket, Stream):
            return self.hands.takers(bucket)
        return [one.heads for one in bucket]

    def __bool__(self) -> bool:
        is_parked = self.parked.count or self.alone.count
        return bool(is_parked or self.left_over or self.left_over_volatile)

    def __contains__(self, key: int) -> bool:
        return key in self.parked or key in self._left(key) or key in self.alone

    def _left(self, key: int) -> ShelvedSet:
        return self.left_over if key > 0 else self.left_over_volatile

    def put(self, key: int, order: int, wanted: Bucket) -> None:
        """Keep a message for those who want it."""
        if wanted:
            bucket = wanted if self.hands is None else self.hands.stream(key, wanted)
            self.parked.put(bucket, key, order, rank_of(bucket))
        else:
            self._left(key).add(key)

    def take(self, key: int) -> None:
        """Take a message out, wherever it stands."""
        bucket = self.parked.take(key)
        if bucket is None:
            if self.alone.take(key) is None:
                self._left(key).discard(key)
        elif self.hands is not None and isinstance(bucket, Stream):
            self.hands.taken(bucket)

    def set_apart(self, key: int, order: int, wanted: Bucket) -> None:
        """Keep a message that is to be sent alone for those who want it."""
        if wanted:
            self.alone.put(frozenset(wanted), key, order)  # Whatever its priority.
        else:
            self._left(key).add(key)

    def count_of(self, bucket: Bucket) -> int:
        """Give how many stand in a bucket, whether they are to be sent alone or not."""
        return self.parked.count_of(bucket) + self.alone.count_of(bucket)

    def add(self, key: int, one: ConsumerClass, rank: int = USUAL_RANK) -> None:
        """Let a class have a message, too, if it is here yet."""
        if key in self.alone:
            wanted = cast("Bucket", self.alone.bucket_of(key))
            self.alone.move(key, frozenset((*wanted, one)))
            return
        bucket = self.parked.bucket_of(key)
        if bucket is not None:
            before = cast("Bucket", bucket)
            wanted = wanted_by((*before, one), rank_of(before))
            if self.hands is not None:
                wanted = self.hands.stream(key, wanted)
            self.parked.move(key, wanted, rank_of(before))
            if self.hands is not None and isinstance(bucket, Stream):
                self.hands.taken(bucket)
        elif key in self._left(key):
            self._left(key).discard(key)
            order = key if key > 0 else self._queue.transients[key].order
            self.put(key, order, wanted_by((one,), rank))

    def rehome(self, bucket: Bucket, count_max: int) -> int:
        """Let so many of a bucket stand where those have them who are there yet; how many."""
        wanted = wanted_by([one for one in bucket if not one.is_over], rank_of(bucket))
        keys = self.parked.pour(bucket, count_max)
        for key in keys:
            if (order := self._order_of(key)) is not None:
                self.put(key, order, wanted)
        if len(keys) < count_max and self.alone.count_of(bucket):
            apart = self.alone.pour(bucket, count_max - len(keys))
            for key in apart:
                if (order := self._order_of(key)) is not None:
                    self.set_apart(key, order, wanted)
            keys += apart
        if self.hands is not None and isinstance(bucket, Stream):
            self.hands.taken(bucket)
        return len(keys)

    def _order_of(self, key: int) -> int | None:
        if key > 0:
            return key
        transient = self._queue.transients.find(key)
        return None if transient is None else transient.order

    def empty(self) -> tuple[Collection[object], ...]:
        """Forget all; gives what was long, to be let go of."""
        known = (*self.parked.empty(), *self.alone.empty(), self.left_over, self.left_over_volatile)
        self.left_over, self.left_over_volatile = OrderedKeys(), ShelvedSet()
        return known

"""
The way back from an order by who wants what to the plain one, in steps.

What was looked at is given back, so that it goes out first, in order. But of what stands above the
mark nobody was ever sent anything: that comes in its turn again.

Lives on the leader only and may vanish; nothing here is lasting state.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable
from itertools import islice

from holdfast.broker.serving.lanes import Lanes
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.returned import Returned
from holdfast.broker.serving.router.kept import Kept


class Pouring:
    """How much is put back so far; of stored messages `Kept.left_over` tells."""

    __slots__ = ("_above", "_queue", "below", "mark", "waiting")

    def __init__(self, queue: Queue, mark: int) -> None:
        self._queue = queue
        self.mark = mark
        """Where it was as this began: nothing behind it was ever sent to anybody."""
        self.below: list[tuple[int, int]] = []
        """Heap of orders and serials of what is in memory only, before the mark."""
        self._above: list[tuple[int, int]] = []
        """The same of those behind it."""
        self.waiting: list[int] = []
        """Those of them of which the order is known, by their keys."""

    def keys(self) -> list[int]:
        """Give what is in memory only and was put back."""
        known = [-serial for _, serial in (*self.below, *self._above)]
        return [key for key in (*known, *self.waiting) if key in self._queue.transients]

    def put(self, kept: Kept, keys: Iterable[int]) -> None:
        """Put some back that stand nowhere any more."""
        for key in keys:
            if key > 0:
                if not self._queue.has_ended(key):
                    kept.left_over.add(key)
            elif (message := self._queue.transients.find(key)) is not None:
                place = (message.order, -key)
                heapq.heappush(self._above if place[0] > self.mark else self.below, place)

    def step(self, kept: Kept, returned: Returned, count_max: int) -> bool:
        """Put so many back; whether that was all."""
        left = count_max
        for parked in (kept.parked, kept.alone):
            for bucket in [*islice(parked.buckets, left)]:
                keys = parked.pour(bucket, left)
                self.put(kept, keys)
                left -= len(keys) + 1
                if left <= 0:
                    return False
        while left > 0 and (returned or kept.left_over_volatile):
            self.put(kept, (returned.pop() or kept.left_over_volatile.pop(),))
            left -= 1
        while left > 0 and self._above:
            self.waiting.append(-heapq.heappop(self._above)[1])
            left -= 1
        return left > 0


def pour_into(lanes: Lanes, kept: Kept, is_there: Callable[[int], bool], count_max: int) -> bool:
    """Put so many back where messages go by priority; whether that was all."""
    left = count_max
    for parked in (kept.parked, kept.alone):
        for bucket in [*islice(parked.buckets, left)]:
            keys = parked.pour(bucket, left)
            for key in filter(is_there, keys):
                lanes.put_back(key)
            left -= len(keys) + 1
            if left <= 0:
                return False
    for some in (kept.left_over, kept.left_over_volatile):
        while left > 0 and some:
            key = some.pop()
            if is_there(key):
                lanes.put_back(key)
            left -= 1
    return left > 0

"""
Durable subscriptions that nobody takes from: how much they keep, and for how long, as policies say.

The leader looks at all subscriptions every second, in steps. Of one that has more than its topic's
policies let it keep the oldest go: while nobody consumes from it by one record for many, else, of
what its consumer does not have, as on a queue (`limiting`). One that has been alone for too long
ends. Since when it is alone the log says, so that a change of leaders does not begin that anew; of
one whose consumer was lost with the last leader, and did not come back, this one says it.

Invariants:
    What a consumer has, or an open transaction holds, is never dropped.
    A subscription with a consumer does not end.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from holdfast.broker.destinations import Destinations
from holdfast.broker.durables import Durables
from holdfast.broker.errands import IsSpent
from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.lasting.topics import LastingSubscription
from holdfast.broker.receipts import Receipts
from holdfast.broker.serving.effective import Keeping
from holdfast.broker.serving.policies import PolicyBook
from holdfast.broker.serving.queue import Queue
from holdfast.model.records import PurgeRecord

LOOK_MS: Final = 1_000
"""So often all subscriptions are looked at."""
_PER_STEP: Final = 64
_CHUNKS_PER_RECORD: Final = 32
"""So much of a subscription is cut by one record, which takes about a millisecond to apply."""
_SAID_MAX: Final = 256
"""So many subscriptions are cut, or end, in one batch."""


class Lapsing:
    """Ends, and cuts, durable subscriptions that nobody takes from."""

    __slots__ = (
        *("_change_count", "_destinations", "_durables", "_keepings", "_left", "_look_at_ms"),
        *("_policies", "_receipts", "_says_any", "_state", "dropped_total", "ended_total"),
        "look_ms",
    )

    def __init__(
        self,
        state: BrokerState,
        *,
        receipts: Receipts,
        destinations: Destinations,
        durables: Durables,
        policies: PolicyBook,
    ) -> None:
        self._state = state
        self._receipts = receipts
        self._destinations = destinations
        self._durables = durables
        self._policies = policies
        self.look_ms = LOOK_MS
        self.dropped_total = 0
        """Messages that went as there were too many, of subscriptions that nobody consumed from,
        of all leaderships of this process."""
        self.ended_total = 0
        """Subscriptions that ended as nobody came back for them, of all of these."""
        self._change_count = -1
        self._says_any = False
        self._keepings: dict[str, Keeping | None] = {}
        """By topic, what its policies say; as long as they are the same."""
        self.follow()

    def follow(self) -> None:
        """Forget all: another leader looks anew."""
        self._left: Iterator[LastingSubscription] | None = None
        self._look_at_ms = 0

    @property
    def has_any(self) -> bool:
        """Whether subscriptions are to be looked at now."""
        if not self._state.subscriptions:
            return False
        if self._state.policies.change_count != self._change_count:
            self._change_count = self._state.policies.change_count
            self._keepings.clear()
            self._says_any = self._policies.keeps_less
        if not self._says_any:
            return False
        return self._left is not None or self._passed_ms >= self._look_at_ms

    @property
    def _passed_ms(self) -> int:
        return self._destinations.leadership.passed_ms

    def step(self, is_spent: IsSpent = lambda: False) -> bool:
        """Look at some subscriptions; whether to go on now."""
        if self._left is None:
            self._left = iter(list(self._state.subscriptions.values()))
            self._look_at_ms = self._passed_ms + self.look_ms
        said = 0
        for count, subscription in enumerate(self._left, 1):
            is_said = self._look_at(subscription)
            said += is_said
            if said >= _SAID_MAX:
                return False  # The next turn goes on.
            if (is_said or not count % _PER_STEP) and is_spent():
                return True
        self._left = None
        return False

    def _look_at(self, subscription: LastingSubscription) -> bool:
        """Do what is due for a subscription; whether anything was said of it."""
        keeping = self._keeping_of(subscription.topic.name)
        if keeping is None or self._state.subscriptions.get(subscription.key) is not subscription:
            return False
        queue = self._destinations.leadership.half_of(subscription)
        if queue is not None and queue.is_deleted:
            return False
        over = _over(subscription, keeping)
        if queue is not None and self._is_served(queue):
            if over is not None:
                self._destinations.leadership.filling[queue] = None
            return False
        is_whole = not subscription.whole_number  # A part does not end by itself.
        if (
            is_whole
            and keeping.offline_ms > 0
            and self._has_ended(subscription, keeping.offline_ms)
        ):
            return True
        return over is not None and self._cut(subscription, *over)

    @staticmethod
    def _is_served(queue: Queue) -> bool:
        """Whether somebody consumes from it."""
        return bool(queue.subscriptions)

    def _keeping_of(self, topic: str) -> Keeping | None:
        if topic not in self._keepings:
            self._keepings[topic] = self._policies.keeping_of(topic)
        return self._keepings[topic]

    def _has_ended(self, subscription: LastingSubscription, offline_ms: int) -> bool:
        """End one that has been alone for too long, or note that it is; whether either is said."""
        queue = self._durables.find(subscription.key)
        assert queue is not None, "it is in the log, and does not end yet"
        now_ms = self._destinations.leadership.now_ms
        if not queue.detached_at:
            self._durables.detached(queue)
            return True
        if now_ms - queue.detached_at < offline_ms:
            return False
        self._durables.remove(queue)
        self.ended_total += 1
        return True

    def _cut(self, subscription: LastingSubscription, count: int, size: int) -> bool:
        """Take the oldest off one that nobody consumes from; whether it was said."""
        queue = self._durables.find(subscription.key)
        assert queue is not None, "it is in the log, and does not end yet"
        index = subscription.index
        if queue.purging_through >= index.begin:
            return False  # It is on its way to the log: then it is seen how much is left.
        if not queue.is_idle and not self._has_let_go(queue):
            return False
        through, dropped = index.cut(count, size, _CHUNKS_PER_RECORD)
        queue.purge_through(through)
        self._receipts.record(PurgeRecord(queue.number, through, queue.topic_number))
        self.dropped_total += dropped
        return True

    def _has_let_go(self, queue: Queue) -> bool:
        """Forget who had what of a queue; false if anybody still has anything, or gives it back."""
        custody = queue.custody
        if custody.is_held or custody.reserved.shelves:
            return False
        leaving = {sequence for each in self._receipts.leaving(queue) for sequence in each}
        self._destinations.empty(queue)
        queue.renew(leaving)
        return True


def _over(subscription: LastingSubscription, keeping: Keeping) -> tuple[int, int] | None:
    """Give how many messages, and bytes, are too much; None: it is not too full."""
    index = subscription.index
    count = index.live_count - keeping.length if keeping.length else 0
    size = index.live_bytes - keeping.bytes if keeping.bytes else 0
    return (max(count, 0), max(size, 0)) if count > 0 or size > 0 else None

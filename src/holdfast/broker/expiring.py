"""
Messages whose time is over: found as it passes, and taken off their queues.

It makes no difference how deep they stand, or whether anybody consumes. What somebody has runs on,
and is looked at again when it comes back; what is found expired on its way to a consumer is taken
back, whoever chose it. So nothing expired is sent, also where there is more of it than is taken off
in a turn.

What was stored goes to the dead-letter queue by one record, or nowhere, as the policies say; what
expires on the queue where dead letters go is nowhere any more.

The time is that of `returning`: the clock's, and never before what the log has said.

Invariants:
    What expired is delivered to nobody from then on, whatever becomes of the record that says so.
    No more goes into one batch than one record moves: who applies it has other things to do.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from holdfast.broker.destinations import Destinations
from holdfast.broker.errands import IsSpent
from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.moving import Moving
from holdfast.broker.receipts import Receipts
from holdfast.broker.returning import Returning
from holdfast.broker.routing import Routing
from holdfast.broker.serving import late
from holdfast.broker.serving.advises import SILENCE, Advises
from holdfast.broker.serving.consumer import AcknowledgeMode, Consumer
from holdfast.broker.serving.delivery import Delivery, Step
from holdfast.broker.serving.message import TransientMessage
from holdfast.broker.serving.policies import PolicyBook
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.shelves import ShelvedSet
from holdfast.broker.serving.subscription import Subscription
from holdfast.broker.settings import BrokerSettings
from holdfast.broker.settling import Settling
from holdfast.errors import DestinationError
from holdfast.model.facts import Cause, Origin
from holdfast.model.format_level import EXPIRY_LEVEL
from holdfast.model.records import MOVE_COUNT_MAX

_AGAIN_MS: Final = 1_000
"""What cannot be taken off now is tried again so much later."""


class Expiring:
    """Takes off what has expired."""

    def __init__(
        self,
        settings: BrokerSettings,
        state: BrokerState,
        *,
        receipts: Receipts,
        destinations: Destinations,
        routing: Routing,
        policies: PolicyBook,
        moving: Moving,
        settling: Settling,
        returning: Returning,
    ) -> None:
        self._settings = settings
        self._state = state
        self._receipts = receipts
        self._destinations = destinations
        self._routing = routing
        self._policies = policies
        self._moving = moving
        self._settling = settling
        self._returning = returning
        self._unserved: list[int] = []
        """Queues by number on which something expires, which this leader has not looked at yet."""
        self._again: dict[Queue, tuple[ShelvedSet, ShelvedSet]] = {}
        """What could not be taken off: stored messages, and others."""
        self._again_ms = 0
        self.is_full = False
        """Whether nothing new is stored, as a disk is almost full."""
        self.advising: Advises = SILENCE
        self.expired_total = 0
        """Messages that expired, of all leaderships of this process."""

    def lead(self) -> None:
        """Begin to look after all that expires."""
        self._unserved = list(self._state.expiring)

    def follow(self) -> None:
        """Forget all."""
        self._unserved, self._again, self._again_ms = [], {}, 0

    @property
    def is_possible(self) -> bool:
        """Whether every member knows that messages expire."""
        return self._state.format_level >= EXPIRY_LEVEL

    @property
    def has_any(self) -> bool:
        """Whether anything may expire."""
        return bool(self._unserved or self._again or self._destinations.leadership.expiries)

    def step(self, is_spent: IsSpent = lambda: False) -> bool:
        """Take off what has expired, as the time goes; whether there may be more of it."""
        now_ms = self._returning.now_ms
        count_max = self._settings.step_count_max
        leadership = self._destinations.leadership
        self._try_again(now_ms)
        while self._receipts.batch.moved_count + count_max <= MOVE_COUNT_MAX:
            if self._unserved:
                self._serve_some(count_max)
            else:
                queue = leadership.expiry_due(now_ms)
                if queue is None:
                    return False
                self._take_off(queue, now_ms, count_max)
            if is_spent():
                return True
        return False  # The next turn comes when this batch goes.

    def _serve_some(self, count_max: int) -> None:
        """Let some queues be served on which something expires, so that it is looked after."""
        for number in self._unserved[:count_max]:
            late.served(self._state, self._destinations.leadership, number)
        del self._unserved[:count_max]

    def _try_again(self, now_ms: int) -> None:
        if self._again and now_ms >= self._again_ms:
            again, self._again = self._again, {}
            for queue, keys in again.items():
                if queue.expiry is not None:
                    queue.expiry.look_again(*keys)
                    self._destinations.leadership.expires(queue)

    def _later(self, queue: Queue, keys: list[int], now_ms: int) -> None:
        if not self._again:
            self._again_ms = now_ms + _AGAIN_MS
        stored, volatile = self._again.setdefault(queue, (ShelvedSet(), ShelvedSet()))
        stored.update([key for key in keys if key > 0])
        volatile.update([key for key in keys if key < 0])

    def _take_off(self, queue: Queue, now_ms: int, count_max: int) -> None:
        """Take some of what has expired off a queue."""
        expiry = queue.expiry
        assert expiry is not None, "something of it expires"
        places = self._places(queue)
        if expiry.has_stored(now_ms) and not self._destinations.has_place(places):
            # Not what is due rests, but all of it: that may be ten million messages.
            expiry.rests_until_ms = now_ms + _AGAIN_MS
        found, _ = expiry.due(now_ms, count_max)
        keys = dict.fromkeys(found)  # One may have been found in two ways.
        try:
            stored = self._free(queue, [key for key in keys if key > 0], now_ms)
            self._bury(queue, places, stored, now_ms)
            self._bury_volatile(queue, [key for key in keys if key < 0], now_ms)
        except Exception as error:  # noqa: BLE001 - its queue's, which is built anew
            self._routing.broken.append((queue, error))
            queue.touch()
        self._destinations.leadership.expires(queue)

    def _free(self, queue: Queue, keys: list[int], now_ms: int) -> list[int]:
        """Give, in order, what has expired and nobody has; what has not is anybody's again."""
        expiry = queue.expiry
        assert expiry is not None, "something of it expires"
        aside = [key for key in keys if key in expiry.aside]
        expiry.aside.difference_update(aside)
        # Somebody may have said since that he is done with it, in a transaction that is open.
        free = [key for key in aside if key not in queue.custody.reserved]
        lasting = set(self._moving.lasting(queue, free)) if free else set()
        alive = [key for key in free if not expiry.is_over(key, now_ms)]
        if alive:  # The clock was put back.
            queue.custody.withheld.difference_update(alive)
            queue.give_back([key for key in alive if key in lasting], redelivered=False)
            queue.touch()
        if not self._policies.of(queue).lifetimes.are_swept:
            keys = aside  # What was found on its way out.
        over = [key for key in keys if expiry.is_over(key, now_ms)]
        return sorted(key for key in over if key in lasting or self._moving.is_free(queue, key))

    def _places(self, queue: Queue) -> tuple[str, ...]:
        """Give the names of the queues where what expires on one goes; none: nowhere."""
        policy = self._policies.of(queue)
        if policy.keeps_dead_letters or not policy.lifetimes.buries:
            return ()
        return self._policies.burial_places(queue)

    def _bury(self, queue: Queue, places: Sequence[str], sequences: list[int], now_ms: int) -> None:
        if not sequences:
            return
        self._moving.keep_from_all(queue, sequences)
        closed = [it for it in sequences if self._moving.is_closed(queue, it)]
        if closed:
            assert queue.expiry is not None, "something of it expires"
            queue.expiry.aside.update(closed)
            self._later(queue, closed, now_ms)
            sequences = [it for it in sequences if it not in queue.expiry.aside]
        if not sequences:
            return
        self._settling.bury(queue, places, sequences, Cause.EXPIRED, now_ms)
        self.expired_total += len(sequences)

    def _bury_volatile(self, queue: Queue, keys: list[int], now_ms: int) -> None:
        """Let non-persistent messages be gone that have expired and nobody has."""
        expiry = queue.expiry
        assert expiry is not None, "something of it expires"
        for key in keys:
            message = queue.transients.find(key)
            if message is None:
                expiry.aside.discard(key)
                continue
            if not expiry.is_over(key, now_ms):
                if key in expiry.aside:  # The clock was put back.
                    expiry.aside.discard(key)
                    queue.custody.withheld.discard(key)
                    queue.give_back([key], redelivered=False)
                    queue.touch()
                continue
            is_held = key not in expiry.aside and self._moving.is_volatile_held(queue, key)
            if is_held or key in queue.custody.reserved:
                expiry.aside.discard(key)
                continue
            if self._keep_dead(queue, message):
                expiry.aside.discard(key)
                self._destinations.settle_transient(queue, key)
                self.expired_total += 1
            else:
                self._later(queue, [key], now_ms)

    def _keep_dead(self, queue: Queue, message: TransientMessage) -> bool:
        """Store a non-persistent message as a dead letter, if it is to be one; false: not now."""
        if not self._policies.of(queue).keeps_volatile or not self._places(queue):
            if self.advising.listeners:
                self.advising.died(queue, (message.key,), Cause.EXPIRED, is_buried=False)
            return True
        if self.is_full:
            return False
        try:
            self._settling.store_dead(queue, message, Origin(Cause.EXPIRED, queue.name, ""))
        except DestinationError:
            return False
        return True

    def sift(self, queue: Queue, step: Step) -> Step:
        """Give those deliveries of a queue that have not expired; take back the others."""
        expiry = queue.expiry
        if expiry is None:
            return step
        now_ms = self._returning.now_ms
        over = [each for each in step if self._has_expired(queue, each, now_ms)]
        if not over:
            return step
        keys = {each[1] for each in over}
        settled = queue.acknowledged
        # What goes to a consumer that never acknowledges was settled as it was given.
        recent = [key for key in settled[-len(step) :] if key not in keys]
        self._receipts.batch.settled_count += len(recent) - len(settled[-len(step) :])
        settled[-len(step) :] = recent
        for consumer, key, message, _, _ in over:
            self._take_back(queue, consumer, key, message)
        self._destinations.leadership.expires(queue)
        return [each for each in step if each[1] not in keys]

    def _has_expired(self, queue: Queue, delivery: Delivery, now_ms: int) -> bool:
        assert queue.expiry is not None, "something of it expires"
        if delivery[0].is_closed:
            return False  # It is only read, for a router that looks at it: nobody gets it by that.
        message = delivery[2]
        if isinstance(message, TransientMessage):  # It may be settled already.
            return 0 < message.expires_ms <= now_ms
        return queue.expiry.is_over(delivery[1], now_ms)

    def _take_back(self, queue: Queue, consumer: Consumer, key: int, message: object) -> None:
        assert queue.expiry is not None, "something of it expires"
        assert isinstance(consumer, Subscription), "every consumer is one"
        consumer.unacknowledged.pop(key, None)
        if consumer.browser is not None:
            pass  # It is only left out of the picture.
        elif key < 0 and consumer.mode is AcknowledgeMode.AUTO:
            assert isinstance(message, TransientMessage), "it is in memory"
            self._keep_dead(queue, message)
            self.expired_total += 1
        else:
            queue.custody.settle_late(key)
            queue.expiry.put_aside(key)
        consumer.receiver.recount_room()
        self._routing.refill(consumer)

    def sift_topics(self, step: Step) -> Step:
        """Give those deliveries of topics that have not expired."""
        now_ms = self._returning.now_ms
        kept: Step = []
        for delivery in step:
            consumer, key, message = delivery[:3]
            if isinstance(message, TransientMessage) and 0 < message.expires_ms <= now_ms:
                assert isinstance(consumer, Subscription), "every consumer is one"
                consumer.unacknowledged.pop(key, None)
                consumer.receiver.recount_room()
                self._routing.refill(consumer)
                if self.advising.listeners and consumer.topic is not None:
                    self.advising.expired_on_topic(consumer.topic, key)
            else:
                kept.append(delivery)
        return kept

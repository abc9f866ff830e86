"""
Deliveries that fail: whether their messages come again, and when, or are dead.

What a rejection, a subscription and the policies say of redelivery is weighed here, on the leader;
the log says what came of it. Where nobody says anything of it, what is rejected is dead at once.

Invariants:
    What is lost with a connection counts as a failure of its message only where it was alone on
    its subscription; what is lost with a leader never counts.
    Without a word on redelivery nothing is dead because of lost connections.
    On the very queue where it would go as a dead letter nothing is dead: it comes again.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from holdfast.broker.destinations import Destinations
from holdfast.broker.errands import IsSpent
from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.outputs import Replier
from holdfast.broker.receipts import Receipts
from holdfast.broker.routing import Routing
from holdfast.broker.sending import Sending
from holdfast.broker.serving import late
from holdfast.broker.serving.consumer import Consumer
from holdfast.broker.serving.policies import PolicyBook
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.subscription import Subscription
from holdfast.broker.settings import BrokerSettings
from holdfast.errors import LevelNotReachedError
from holdfast.model.format_level import RETURNS_LEVEL
from holdfast.model.policies import redelivery_of
from holdfast.model.records import ReturnCause
from holdfast.model.redelivery import Redelivery

_LOOK_MICROSECONDS_MAX: Final = 1_000_000
"""The clock is looked at more often: where it says that more has passed, it was set."""


class Rejection(NamedTuple):
    """What a consumer says as it rejects a delivery."""

    requeue: bool | None = None
    """Whether it comes again; None: as is said elsewhere."""
    delay_ms: int | None = None
    """How long it rests if it does; None: as is said elsewhere."""


SILENT = Rejection()
"""Nothing beside the rejection itself."""

REFUSED = Rejection(requeue=False)
"""That it is not to come again."""


class Returning:
    """Weighs what comes of deliveries that failed."""

    __slots__ = (
        "_destinations",
        "_now",
        "_policies",
        "_receipts",
        "_routing",
        "_sending",
        "_settings",
        "_state",
        "_wall",
    )

    def __init__(
        self,
        settings: BrokerSettings,
        state: BrokerState,
        *,
        receipts: Receipts,
        destinations: Destinations,
        routing: Routing,
        sending: Sending,
        policies: PolicyBook,
    ) -> None:
        self._settings = settings
        self._state = state
        self._receipts = receipts
        self._destinations = destinations
        self._routing = routing
        self._sending = sending
        self._policies = policies
        self._wall = self._now = 0
        """What the clock said last, and what was taken for the time, in microseconds."""

    @property
    def now_ms(self) -> int:
        """
        The time, in milliseconds since the epoch; it never runs back over a failover.

        Nor does it stand still until a clock that was put back has come so far again: it goes on,
        half as fast, so that what rests comes. A clock that is set right again has not passed all
        that it was set by.
        """
        self.look_at_the_clock()
        return self._now // 1000

    def look_at_the_clock(self) -> None:
        """
        Let time go on; to be called at least once a second, whether anybody knows what rests.

        After the clock was put back only a second passes with each look: what rests on a queue that
        nobody has asked for under this leader would else wait for as long once more.
        """
        wall, now = self._sending.now_microseconds, self._now
        passed = min(max(0, wall - (self._wall or wall)), _LOOK_MICROSECONDS_MAX)
        if wall < now:
            now += passed // 2
        self._wall = wall
        self._now = max(wall, self._state.timestamp, now)
        self._destinations.leadership.look(self._now // 1000, passed)

    def due_of(self, subscription: Subscription, key: int, said: Rejection) -> int | None:
        """
        Give when a delivery that is rejected comes again: 0 at once; None: it is dead.

        Raises:
            UnknownDeliveryError: It is not in delivery on this subscription.
            LevelNotReachedError: It asks for what the log cannot say yet.
        """
        if key not in subscription.unacknowledged:
            raise late.not_in_delivery(key)
        queue = subscription.queue
        if queue is None:
            return None
        stays = self._stays(queue, key)
        if said.requeue is False and not stays:
            return None
        if self._state.format_level < RETURNS_LEVEL:
            if said not in (SILENT, REFUSED):
                raise LevelNotReachedError.of("returns", RETURNS_LEVEL, self._state.format_level)
            return 0 if stays else None
        failures = queue.returned_so_far(key).failures + 1
        delay_ms = said.delay_ms
        if not said.requeue:
            rule = self.rule_of(subscription)
            is_said = rule is not None or delay_ms is not None
            rule = rule or Redelivery()
            if not stays and (not is_said or rule.is_exhausted(failures)):
                return None
            if delay_ms is None:
                delay_ms = rule.delay_of(failures, f"{queue.number} {key} {failures}")
        return self.now_ms + delay_ms if delay_ms else 0

    def _stays(self, queue: Queue, key: int) -> bool:
        """Whether a message that is kept is on the queue where it would go as a dead letter."""
        policy = self._policies.of(queue)
        return policy.keeps_dead_letters and (key > 0 or policy.keeps_volatile)

    def rule_of(self, subscription: Subscription) -> Redelivery | None:
        """Give what holds for a consumer's deliveries, None if nothing was said of it."""
        queue = subscription.queue
        if queue is None or self._state.format_level < RETURNS_LEVEL:
            return None
        base = self._policies.of(queue).redelivery
        said = subscription.redelivery
        return base if said is None else redelivery_of(said, base)

    def give_back(
        self,
        subscription: Subscription,
        key: int,
        due_ms: int,
        replier: Replier,
        receipt: bytes | None,
        cause: ReturnCause = ReturnCause.REJECTED,
    ) -> None:
        """Let a rejected delivery come again, when the log says so, and not before it is due."""
        queue = subscription.queue
        assert queue is not None, "only queues keep messages"
        del subscription.unacknowledged[key]
        queue.send_back([key], cause, subscription.client, due_ms=due_ms)
        queue.touch()
        if receipt is not None:
            self._receipts.reply_after_pending(replier, receipt)
        self._routing.refill(subscription)

    def dies_with(self, subscription: Subscription) -> int | None:
        """Give the delivery that is dead if its consumer's connection is lost, None if none is."""
        queue = subscription.queue
        if queue is None or subscription.held_count != 1 or not subscription.unacknowledged:
            return None
        if self._state.format_level < RETURNS_LEVEL:
            return None
        (key,) = subscription.unacknowledged
        if self._stays(queue, key):
            return None
        rule = self.rule_of(subscription)
        failures = queue.returned_so_far(key).failures + 1
        return key if rule is not None and rule.is_exhausted(failures) else None

    def _take_back(self, consumer: Consumer, keys: list[int]) -> None:
        """Take from a consumer what it had for too long."""
        try:
            for key in keys:
                consumer.lapse(key)
            consumer.receiver.overdue(consumer, keys)
        except Exception as error:  # noqa: BLE001 - a mistake of ours costs one client
            self._routing.errands.fail(consumer.receiver, error)

    def wake(self, is_spent: IsSpent = lambda: False) -> bool:
        """Let what rested until now be dispatched, as the time goes; whether more of it is due."""
        leadership, now_ms = self._destinations.leadership, self.now_ms
        while 0 < leadership.alarms.soonest <= now_ms:
            for queue, error in leadership.wake(now_ms, self._settings.step_count_max):
                self._routing.errands.fail(queue, error)
            while leadership.overdue:
                self._take_back(*leadership.overdue.popleft())
            if is_spent():
                return 0 < leadership.alarms.soonest <= now_ms
        return False

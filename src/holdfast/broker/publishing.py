"""
Topics' deliveries: one line for all topics, with what waits for slow subscribers beside it.

A message for few subscribers is handed to all of them as it comes. One for many is spread: some of
its subscribers at a time, while its deliveries are asked for, so that neither the turn that took it
nor the line grows with their number.

Lives on the leader only and may vanish; nothing here is lasting state.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

from holdfast.broker.queue import TransientMessage
from holdfast.broker.settings import BrokerSettings
from holdfast.broker.subscription import Subscription
from holdfast.broker.topic import Backlogs, Delivery, Spread, Topic


class Publishing:
    """What topics have to deliver."""

    __slots__ = ("_settings", "backlogs", "deliveries", "spread_bytes", "spreads")

    def __init__(self, settings: BrokerSettings) -> None:
        self._settings = settings
        self.deliveries: deque[Delivery] = deque()
        """Assigned and not yet asked for."""
        self.spreads: deque[Spread] = deque()
        """Messages on their way to many subscribers, oldest first."""
        self.spread_bytes = 0
        """What those messages take, with what one costs beside its content."""
        self.backlogs = Backlogs(settings.message_memory_overhead_bytes)

    def __bool__(self) -> bool:
        """Whether anything is to be delivered."""
        return bool(self.deliveries or self.spreads)

    @property
    def is_behind(self) -> bool:
        """Whether more is to be delivered than goes out in one step."""
        return len(self.deliveries) > self._settings.step_count_max

    def publish(self, topic: Topic, message: TransientMessage) -> None:
        """Hand a message to every live subscription of a topic, or begin to."""
        topic.enqueued_total += 1
        if topic.spread_count or len(topic.subscriptions) > self._settings.step_count_max:
            self._begin_spread(topic, message)
            return
        pending_bytes_max = self._settings.topic_pending_bytes_max
        topic.hand_out(
            message, topic.subscriptions, self.deliveries, pending_bytes_max, self.backlogs
        )

    def publish_later(self, topic: Topic, message: TransientMessage) -> None:
        """Begin to hand a message to all subscriptions; what is published next goes behind it."""
        topic.enqueued_total += 1
        if topic.subscriptions:
            self._begin_spread(topic, message)

    def _begin_spread(self, topic: Topic, message: TransientMessage) -> None:
        topic.spread_count += 1
        self.spreads.append(Spread(topic, message))
        self.spread_bytes += message.size + self._settings.message_memory_overhead_bytes

    @property
    def has_room(self) -> bool:
        """Whether one more message may be published: those on their way have a bound."""
        return self.spread_bytes <= self._settings.spread_bytes_max

    def drain(self, topic: Topic, subscription: Subscription) -> None:
        """Deliver what waits for a subscription, as far as it has room now."""
        if subscription.pending:
            topic.drain(subscription, self.deliveries, self.backlogs)

    def close(self, topic: Topic, subscription: Subscription) -> None:
        """Remove a subscription of a topic."""
        topic.close_subscription(subscription, self.backlogs)

    def take(self, broken: list[tuple[Any, Exception]]) -> Iterator[list[Delivery]]:
        """
        Give deliveries in short steps, spreading messages on; a step may be empty.

        A mistake of ours in spreading is put into `broken`, with the topic.
        """
        step_count = self._settings.step_count_max
        waiting = self.deliveries
        while waiting or self.spreads:
            effort = len(waiting)
            while self.spreads and effort < step_count:
                effort += self._spread_some(broken)
            some = [waiting.popleft() for _ in range(min(step_count, len(waiting)))]
            yield [delivery for delivery in some if not delivery[0].is_closed]

    def _spread_some(self, broken: list[tuple[Any, Exception]]) -> int:
        """Spread the oldest message on, and give what that cost, in subscribers."""
        spread = self.spreads[0]
        subscribers = spread.next(self._settings.step_count_max)
        try:
            spread.topic.hand_out(
                spread.message,
                subscribers,
                self.deliveries,
                self._settings.topic_pending_bytes_max,
                self.backlogs,
            )
        except Exception as error:  # noqa: BLE001 - its topic's, whose consumers are closed
            broken.append((spread.topic, error))
        if spread.is_done:
            spread.topic.spread_count -= 1
            self.spreads.popleft()
            overhead_bytes = self._settings.message_memory_overhead_bytes
            self.spread_bytes -= spread.message.size + overhead_bytes
        return len(subscribers) + 1

    def clear(self) -> deque[Delivery]:
        """Forget all, as nobody is connected any more; gives the deliveries, to be let go of."""
        deliveries, self.deliveries = self.deliveries, deque()
        self.spreads.clear()
        self.spread_bytes = 0
        self.backlogs.clear()
        return deliveries

"""
A topic: each message goes to every live subscription.

Nothing of a topic is lasting: a message is handed to those who are there. A subscriber without room
keeps a bounded backlog; once it is over the limit the topic is *blocked* and its producers wait.
"""

from __future__ import annotations

from collections import OrderedDict, deque

from holdfast.broker.queue import TransientMessage
from holdfast.broker.subscription import AcknowledgeMode, Receiver, Subscription
from holdfast.model.records import MessageRecord

Delivery = tuple[Subscription, int, MessageRecord | TransientMessage | None, int, bool]
"""Subscription, key, message or None, record number to read it from, redelivered flag."""


class Backlogs:
    """What waits for topic subscribers without room, over all topics."""

    __slots__ = ("_overhead_bytes", "growth_bytes", "subscriptions")

    def __init__(self, overhead_bytes: int) -> None:
        self._overhead_bytes = overhead_bytes
        self.subscriptions: dict[Subscription, None] = {}
        """For which something waits, and some for which it did."""
        self.growth_bytes = 0
        """What was added since that was last looked at."""

    def grow(self, subscription: Subscription, size: int) -> None:
        """Note that a message begins to wait for a subscription."""
        if not subscription.pending:
            self.subscriptions[subscription] = None
        self.growth_bytes += size + self._overhead_bytes

    def sizes(self) -> dict[Receiver, int]:
        """Give how many bytes wait for each connection, if any, and count growth anew."""
        self.growth_bytes = 0
        waiting: dict[Receiver, int] = {}
        subscriptions = [each for each in self.subscriptions if each.pending]
        for each in subscriptions:
            size = each.pending_bytes + len(each.pending) * self._overhead_bytes
            waiting[each.receiver] = waiting.get(each.receiver, 0) + size
        self.subscriptions = dict.fromkeys(subscriptions)
        return waiting

    def clear(self) -> None:
        """Forget everybody: nobody is connected any more."""
        self.subscriptions.clear()
        self.growth_bytes = 0


class Topic:
    """One topic of one broker."""

    __slots__ = (
        "blocked_by",
        "enqueued_total",
        "is_deleted",
        "is_temporary",
        "name",
        "owner",
        "subscriptions",
    )

    def __init__(self, name: str) -> None:
        self.name = name
        self.subscriptions: dict[Subscription, None] = {}
        self.blocked_by: set[Subscription] = set()
        """Subscriptions whose backlog is over the limit."""
        self.enqueued_total = 0
        self.is_temporary = False
        self.is_deleted = False
        self.owner: object = None

    def publish(
        self,
        message: TransientMessage,
        out: deque[Delivery],
        pending_bytes: int,
        backlogs: Backlogs,
    ) -> None:
        """Hand a message to every subscription; those over `pending_bytes` block the topic."""
        self.enqueued_total += 1
        key = message.key
        size = message.size
        for subscription in self.subscriptions:
            receiver = subscription.receiver
            if subscription.pending or not subscription.has_room():
                backlogs.grow(subscription, size)
                subscription.pending.append(message)
                subscription.pending_bytes += size
                if subscription.pending_bytes > pending_bytes:
                    self.blocked_by.add(subscription)
                continue
            receiver.room_bytes -= size
            if subscription.mode is not AcknowledgeMode.AUTO:
                subscription.unacknowledged[key] = None
            out.append((subscription, key, message, 0, False))

    def drain(self, subscription: Subscription, out: deque[Delivery]) -> bool:
        """Deliver a subscription's backlog as far as there is room; True if that unblocks."""
        pending = subscription.pending
        while pending and subscription.has_room():
            message = pending.popleft()
            subscription.pending_bytes -= message.size
            subscription.receiver.room_bytes -= message.size
            if subscription.mode is not AcknowledgeMode.AUTO:
                subscription.unacknowledged[message.key] = None
            out.append((subscription, message.key, message, 0, False))
        if pending or subscription not in self.blocked_by:
            return False
        self.blocked_by.discard(subscription)
        return not self.blocked_by

    def close_subscription(self, subscription: Subscription) -> bool:
        """Remove a subscription; True if that unblocks the topic."""
        subscription.is_closed = True
        del self.subscriptions[subscription]
        subscription.pending.clear()
        subscription.unacknowledged.clear()
        if subscription not in self.blocked_by:
            return False
        self.blocked_by.discard(subscription)
        return not self.blocked_by


class IdleTopics:
    """The topics that nobody subscribes to, found without looking at all the others."""

    __slots__ = ("_topics",)

    def __init__(self) -> None:
        self._topics: OrderedDict[Topic, None] = OrderedDict()
        """All of them, who is so for longest first, and some that have subscribers again."""

    def add(self, topic: Topic) -> None:
        """Note that a topic is new, or that its last subscriber left."""
        self._topics[topic] = None

    def forget_one(self, topics: dict[str, Topic]) -> None:
        """Delete the one without subscribers for longest, if there is any."""
        while self._topics:
            topic = self._topics.popitem(last=False)[0]
            if not topic.subscriptions:
                topic.is_deleted = True
                del topics[topic.name]
                return

    def clear(self) -> None:
        """Forget all: nobody is connected any more."""
        self._topics.clear()

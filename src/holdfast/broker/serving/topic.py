"""
A topic: each message goes to every live subscription that wants it.

Nothing of a topic is lasting: a message is handed to those who are there. Where they are many it is
*spread*, some at a time, and what comes meanwhile goes behind it. A topic that has just come into
being is *joined* by those whose wildcards mean it, some at a time, too; what is sent to it before
all have joined is spread once they have. A subscriber without room keeps a bounded backlog; once it
is over the limit the topic is *blocked* and its producers wait.

Invariants:
    Who subscribed by a wildcard before a topic came into being gets all that is sent to it.
    Each subscriber gets messages in the order they came: what is handed to it now goes behind what
    was, in one line of deliveries.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from holdfast.broker.serving.backlogs import PLACE_BYTES, Backlogs
from holdfast.broker.serving.consumer import AcknowledgeMode, Consumer, Receiver
from holdfast.broker.serving.delivery import EFFORT_SHIFT, Delivery
from holdfast.broker.serving.effective import Effective
from holdfast.broker.serving.message import TransientMessage
from holdfast.model.forwarding import is_mirror

_LOOKED_AT_MAX: Final = 8
"""So many idle topics are looked at for one to be forgotten."""

_WITHOUT_LIMIT: Final = 1 << 62


class Joining:
    """The coming of those whose wildcards mean a topic, from when that came into being."""

    __slots__ = ("arrivals", "known_count")

    def __init__(self, known_count: int) -> None:
        self.known_count = known_count
        """So many subscriptions were made before; those join it, and others by themselves."""
        self.arrivals: list[Consumer] = []
        """Who of them has joined, in order."""

    def has_just_come(self, consumer: Consumer) -> bool:
        """Whether somebody is the last of them to have joined."""
        return bool(self.arrivals) and self.arrivals[-1] is consumer


class Spread:
    """
    A message on its way to the many subscribers that its topic had when it came; or to those that
    it had and those that were about to join it then.
    """

    __slots__ = ("_joined_before", "_joining", "message", "place", "subscribers", "topic")

    @property
    def size_bytes(self) -> int:
        """What it takes of the memory."""
        return self.message.size

    @property
    def may_be_large(self) -> bool:
        """Whether to write it takes as long as several."""
        return self.message.size >> EFFORT_SHIFT > 0

    def __init__(self, topic: Topic, message: TransientMessage) -> None:
        self.topic = topic
        self.message = message
        self.subscribers = topic.audience()
        self.place = 0
        self._joining = topic.joining
        self._joined_before = 0 if topic.joining is None else len(topic.joining.arrivals)

    def _add_arrivals(self, joining: Joining) -> None:
        self.subscribers = [*self.subscribers, *joining.arrivals[self._joined_before :]]
        self._joining = None

    def next(self, effort_max: int) -> list[Consumer]:
        """Give the next of them that are still there: one, and more for so much effort."""
        if self._joining is not None:
            self._add_arrivals(self._joining)
        start = self.place
        self.place += self._count_for(effort_max)
        return [each for each in self.subscribers[start : self.place] if not each.is_closed]

    def _count_for(self, effort_max: int) -> int:
        if not self.topic.selective_count:
            return effort_max
        count = effort = 0
        while self.place + count < len(self.subscribers):
            effort += self.subscribers[self.place + count].effort
            if count and effort > effort_max:
                break
            count += 1
        return count

    def step(
        self, effort_max: int, out: deque[Delivery], pending_bytes: int, backlogs: Backlogs
    ) -> int:
        """Hand it to some more of them; gives what that took."""
        subscribers = self.next(effort_max)
        self.topic.hand_out(self.message, subscribers, out, pending_bytes, backlogs)
        return self.topic.effort_of(subscribers)

    @property
    def is_done(self) -> bool:
        """Whether everybody was given."""
        return self.place >= len(self.subscribers)


class Replay:
    """Messages that were sent before somebody subscribed, on their way to him."""

    __slots__ = ("_messages", "_place", "_subscription", "topic")

    may_be_large = True

    def __init__(
        self, topic: Topic, subscription: Consumer, messages: Sequence[TransientMessage]
    ) -> None:
        self.topic = topic
        self._subscription = subscription
        self._messages = messages
        self._place = 0

    @property
    def size_bytes(self) -> int:
        """What it takes of the memory beside the messages, which the topic keeps."""
        return PLACE_BYTES * len(self._messages)

    def step(
        self, effort_max: int, out: deque[Delivery], _pending_bytes: int, backlogs: Backlogs
    ) -> int:
        """
        Hand him some more of them; gives what that took.

        What he has no room for waits, and blocks nobody.
        """
        effort, subscription = 0, self._subscription
        while effort < effort_max and not self.is_done:
            message = self._messages[self._place]
            self._place += 1
            effort += subscription.effort + (message.size >> EFFORT_SHIFT)
            self.topic.hand_out(message, (subscription,), out, _WITHOUT_LIMIT, backlogs)
            backlogs.note_recovered(subscription, message)
        return effort

    @property
    def receiver(self) -> Receiver:
        """His connection."""
        return self._subscription.receiver

    @property
    def is_done(self) -> bool:
        """Whether he was given all, or is gone."""
        return self._place >= len(self._messages) or self._subscription.is_closed


class Topic:
    """One topic of one broker."""

    __slots__ = (
        "_audience",
        "blocked_by",
        "effort",
        "is_deleted",
        "is_mirror",
        "is_outdated",
        "is_stored",
        "is_temporary",
        "joining",
        "name",
        "no_local_count",
        "owner",
        "policy",
        "selective_count",
        "spread_count",
        "subscriptions",
        "wild_count",
    )

    replays: Mapping[Consumer, object] = MappingProxyType({})
    """Who is to be told more of what there is: of advisories only, see `listeners`."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.subscriptions: dict[Consumer, None] = {}
        self._audience: list[Consumer] | None = None
        """The subscriptions, for all messages until one comes or goes."""
        self.effort = 0
        """What handing out one message takes at most, counted in deliveries."""
        self.selective_count = 0
        """How many of the subscriptions do not want every message."""
        self.no_local_count = 0
        """How many of them do not want what comes over their own connection, and one more while it
        is joined: somebody may not."""
        self.spread_count = 0
        """Messages on their way to many subscribers, and one more while it is joined; what comes
        goes behind them."""
        self.joining: Joining | None = None
        """Those that join it since it came into being; None: all have."""
        self.blocked_by: set[Consumer] = set()
        """Consumers whose backlog is over the limit; of a mirror there are none."""
        self.is_mirror = is_mirror(name)
        """Who is slow here loses old messages: nobody stops a queue by looking at it."""
        self.is_temporary = False
        self.is_deleted = False
        """It is no more."""
        self.is_stored = False
        """Its messages are stored, too: there are durable subscriptions."""
        self.is_outdated = False
        """Whoever remembers where its name leads looks that up anew: it is deleted, or stored."""
        self.owner: Hashable = None
        """A temporary topic's connection."""
        self.policy: Effective | None = None
        """What holds for it, kept by the policies; None until somebody asks."""
        self.wild_count = 0
        """How many of the subscriptions came by a wildcard: they leave it where it is not used."""

    @property
    def is_unnamed(self) -> bool:
        """Whether nobody subscribes who has named it."""
        return len(self.subscriptions) == self.wild_count

    def begin_joining(self, known_count: int) -> None:
        """Let what is sent wait for those, of so many subscriptions, that are to join it now."""
        self.joining = Joining(known_count)
        self.spread_count += 1
        self.no_local_count += 1

    def end_joining(self) -> None:
        """Note that all of them have joined."""
        if self.joining is not None:
            self.joining = None
            self.spread_count -= 1
            self.no_local_count -= 1

    def delete(self) -> None:
        """Let its name mean it no more."""
        self.is_deleted = self.is_outdated = True

    def note_stored(self, is_stored: bool) -> None:
        """Note that its messages are stored from now on, or not any more."""
        self.is_stored = is_stored
        self.is_outdated = is_stored or self.is_deleted

    def audience(self) -> list[Consumer]:
        """Give who subscribes now, as a list that nobody changes."""
        if self._audience is None:
            self._audience = list(self.subscriptions)
        return self._audience

    def add_subscription(self, subscription: Consumer) -> None:
        """Add one who gets what comes from now on."""
        subscription.is_on_topic = True
        self.subscriptions[subscription] = None
        self._audience = None
        self.effort += subscription.effort
        self.selective_count += subscription.selector is not None
        self.no_local_count += subscription.has_no_local

    def effort_of(self, subscribers: Collection[Consumer]) -> int:
        """Give what handing a message to some subscribers takes at most."""
        if not self.selective_count:
            return len(subscribers)
        return sum(each.effort for each in subscribers)

    def hand_out(
        self,
        message: TransientMessage,
        subscribers: Iterable[Consumer],
        out: deque[Delivery],
        pending_bytes: int,
        backlogs: Backlogs,
    ) -> None:
        """
        Hand a message to those of some subscribers who want it.

        Who has more than `pending_bytes` waiting then blocks the topic, beside what was sent before
        it came, or loses the oldest of it: where it mirrors a queue, or policies say so.
        """
        if self.no_local_count:
            sender_id = message.sender_id
            subscribers = [
                each
                for each in subscribers
                if not each.has_no_local or each.receiver.id != sender_id
            ]
        if self.selective_count:
            subscribers = [
                each
                for each in subscribers
                if each.selector is None or each.selector.selects(message)
            ]
        key = message.key
        size = message.size
        for subscription in subscribers:
            receiver = subscription.receiver
            if subscription.pending or not subscription.has_room():
                backlogs.add(subscription, message)
                backlogs.drop_oldest(subscription)
                if subscription.pending_bytes > pending_bytes:
                    self._has_much(subscription, pending_bytes, backlogs)
                continue
            receiver.room_bytes -= size
            if subscription.mode is not AcknowledgeMode.AUTO:
                subscription.unacknowledged[key] = None
            out.append((subscription, key, message, 0, False))

    def _has_much(self, subscription: Consumer, pending_bytes: int, backlogs: Backlogs) -> None:
        """Let somebody for whom more waits block the topic, or lose the oldest of it."""
        if self.is_mirror or subscription.drops_oldest:
            backlogs.shorten(subscription, pending_bytes)
        elif backlogs.since_bytes(subscription) > pending_bytes:
            self.blocked_by.add(subscription)

    def drain(self, subscription: Consumer, out: deque[Delivery], backlogs: Backlogs) -> bool:
        """Deliver a subscription's backlog as far as there is room; True if that unblocks."""
        pending = subscription.pending
        while pending and subscription.has_room():
            message = backlogs.take(subscription)
            subscription.receiver.room_bytes -= message.size
            if subscription.mode is not AcknowledgeMode.AUTO:
                subscription.unacknowledged[message.key] = None
            out.append((subscription, message.key, message, 0, False))
        if pending or subscription not in self.blocked_by:
            return False
        self.blocked_by.discard(subscription)
        return not self.blocked_by

    def close_subscription(self, subscription: Consumer, backlogs: Backlogs) -> bool:
        """Remove a subscription; True if that unblocks the topic."""
        subscription.is_closed = True
        del self.subscriptions[subscription]
        self._audience = None
        self.effort -= subscription.effort
        self.selective_count -= subscription.selector is not None
        self.no_local_count -= subscription.has_no_local
        backlogs.drop(subscription)
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
        """Who is so for longest first."""

    def add(self, topic: Topic) -> None:
        """Note that a topic is new, or that its last subscriber left."""
        self._topics[topic] = None

    def remove(self, topic: Topic) -> None:
        """Note that somebody subscribes to a topic."""
        self._topics.pop(topic, None)

    def forget_one(self, topics: dict[str, Topic]) -> Topic | None:
        """Delete the one without subscribers for longest, if there is any; give it."""
        for _ in range(min(len(self._topics), _LOOKED_AT_MAX)):
            topic = self._topics.popitem(last=False)[0]
            is_early = topic.joining is not None
            if is_early or topic.blocked_by or any(it.pending for it in topic.subscriptions):
                self._topics[topic] = None  # What waits for somebody is not given up.
                continue
            topic.delete()
            del topics[topic.name]
            return topic
        return None

    def clear(self) -> None:
        """Forget all: nobody is connected any more."""
        self._topics.clear()

"""
Topics' deliveries: one line for all topics, with what waits for slow subscribers beside it.

A message for few subscribers is handed to all of them as it comes. One for many, or where it takes
long to find out who wants it, is spread: some of its subscribers at a time, while its deliveries
are asked for, so that neither the turn that took it nor the line grows with their number.

Whoever published is told so when it is out: a message that is still in the line dies with this
leader. What waits in memory on a queue is confirmed in the same line.

Lives on the leader only and may vanish; nothing here is lasting state.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from holdfast.broker.outputs import Publisher
from holdfast.broker.serving.backlogs import Backlogs
from holdfast.broker.serving.consumer import Consumer, Receiver
from holdfast.broker.serving.delivery import EFFORT_SHIFT, Delivery
from holdfast.broker.serving.message import TransientMessage
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.topic import Replay, Spread, Topic
from holdfast.broker.settings import BrokerSettings

_ADVISORIES_SHARE: Final = 4
"""What the broker itself says gets no room once so large a part of it is taken: producers go on."""

NOWHERE: Final = "$nowhere"
"""Whither a message goes that policies forward, and to no destination that it fits."""

Broken = list[tuple[Queue | Topic, Exception]]
"""Destinations whose work failed by a mistake of ours; whoever conducts renews them."""


class Replaying:
    """What of topics is on its way to one connection that was sent before it subscribed."""

    __slots__ = ("spread_count",)

    def __init__(self) -> None:
        self.spread_count = 0
        """So many topics' messages."""


class Publishing:
    """What topics have to deliver."""

    __slots__ = (
        "_settings",
        "backlogs",
        "deliveries",
        "early",
        "early_count",
        "large_through",
        "mortal_count",
        "published_total",
        "receipts",
        "replaying",
        "spread_bytes",
        "spread_count",
        "spreads",
        "taken_count",
        "unjoined",
        "unmatched_total",
        "unspread",
    )

    def __init__(self, settings: BrokerSettings) -> None:
        self._settings = settings
        self.deliveries: deque[Delivery] = deque()
        """Assigned and not yet asked for."""
        self.spreads: deque[Spread | Replay] = deque()
        """Messages on their way to many subscribers, oldest first; and what was sent before
        somebody came, on its way to him."""
        self.replaying: dict[Receiver, Replaying] = {}
        """Who is given what was sent before he came."""
        self.early: dict[Topic, tuple[int, list[Spread]]] = {}
        """Messages to topics that are being joined, which get into that line once all have; and how
        many had waited so when the first of a topic came, with it."""
        self.early_count = 0
        """So many ever waited for that."""
        self.spread_bytes = 0
        """What those messages take, with what one costs beside its content."""
        self.backlogs = Backlogs(settings.message_memory_overhead_bytes)
        self.taken_count = 0
        """Deliveries that were asked for."""
        self.large_through = 0
        """Before so many of them were asked for there may be large ones in the line."""
        self.spread_count = 0
        """Messages that were spread to the last of their subscribers."""
        self.mortal_count = 0
        """Messages that expire, of this leadership."""
        self.published_total = 0
        """Messages to topics, of all leaderships of this process."""
        self.unmatched_total = 0
        """Those of them for which policies had no place: nothing that they say was true of them."""
        self.receipts: deque[tuple[int, Publisher, bytes]] = deque()
        """Who is told what, once so many deliveries were asked for; in the order of these."""
        self.unspread: deque[tuple[int, Publisher, bytes]] = deque()
        """Who gets into that line once so many messages are spread."""
        self.unjoined: deque[tuple[int, Publisher, bytes]] = deque()
        """Who gets there behind all messages, of so many, that wait for topics to be joined."""

    def __bool__(self) -> bool:
        """Whether anything is to be delivered."""
        return bool(self.deliveries or self.spreads)

    @property
    def is_behind(self) -> bool:
        """Whether more is to be delivered than goes out in one step."""
        return len(self.deliveries) > self._settings.step_count_max

    def publish(self, topic: Topic, message: TransientMessage) -> None:
        """Hand a message to every live subscription of a topic, or begin to."""
        self.published_total += 1
        if topic.spread_count or topic.effort > self._settings.step_count_max:
            self._begin_spread(topic, message)
            return
        pending_bytes_max = self._settings.topic_pending_bytes_max
        topic.hand_out(
            message, topic.subscriptions, self.deliveries, pending_bytes_max, self.backlogs
        )
        if message.size >> EFFORT_SHIFT:
            self._note_large()

    def publish_later(self, topic: Topic, message: TransientMessage) -> None:
        """Begin to hand a message to all subscriptions; what is published next goes behind it."""
        self.published_total += 1
        if topic.subscriptions or topic.joining is not None:
            self._begin_spread(topic, message)
        elif topic.name == NOWHERE:
            self.unmatched_total += 1

    def replay(
        self, topic: Topic, subscription: Consumer, messages: Sequence[TransientMessage]
    ) -> None:
        """Begin to hand messages to one who has just subscribed; what is published goes behind."""
        receiver = subscription.receiver
        under_way = self.replaying.get(receiver)
        if under_way is None:
            under_way = self.replaying[receiver] = Replaying()
        under_way.spread_count += 1
        self._begin(Replay(topic, subscription, messages))

    def _begin_spread(self, topic: Topic, message: TransientMessage) -> None:
        spread = Spread(topic, message)
        if topic.joining is None:
            self._begin(spread)
            return
        self.early_count += 1
        self.early.setdefault(topic, (self.early_count, []))[1].append(spread)
        self._count(spread)

    def _begin(self, spread: Spread | Replay) -> None:
        self.spreads.append(spread)
        self._count(spread)

    def _count(self, spread: Spread | Replay) -> None:
        spread.topic.spread_count += 1
        self.spread_bytes += spread.size_bytes + self._settings.message_memory_overhead_bytes

    def joined(self, topic: Topic) -> None:
        """Let what was sent to a topic before all had joined go to them now."""
        self.spreads.extend(self.early.pop(topic, (0, ()))[1])
        # In the order of their first messages.
        first = next((number for number, _ in self.early.values()), self.early_count + 1)
        while self.unjoined and self.unjoined[0][0] < first:
            self._confirm_behind(*self.unjoined.popleft()[1:])

    def before_early(
        self, topic: Topic, subscription: Consumer, messages: Sequence[TransientMessage]
    ) -> Sequence[TransientMessage]:
        """Give those of a topic's messages that do not wait for one who has just joined it."""
        joining = topic.joining
        if topic not in self.early or joining is None or not joining.has_just_come(subscription):
            return messages
        first = self.early[topic][1][0].message.key
        return [it for it in messages if it.key > first]  # Keys descend.

    def advise(self, topic: Topic, message: TransientMessage) -> bool:
        """Begin to hand out what the broker itself says, if there is room for that; whether."""
        if not self.has_room_for_advice:
            return False
        self._begin_spread(topic, message)
        return True

    @property
    def has_room_for_advice(self) -> bool:
        """Whether something that the broker itself says may be handed out."""
        return self.spread_bytes <= self._settings.spread_bytes_max // _ADVISORIES_SHARE

    def advise_one(self, topic: Topic, message: TransientMessage, subscription: Consumer) -> None:
        """Hand it to one of those who listen to it."""
        pending_bytes_max = self._settings.topic_pending_bytes_max
        topic.hand_out(message, (subscription,), self.deliveries, pending_bytes_max, self.backlogs)

    @property
    def has_room(self) -> bool:
        """Whether one more message may be published: those on their way have a bound."""
        return self.spread_bytes <= self._settings.spread_bytes_max

    def confirm(self, publisher: Publisher, receipt: bytes) -> None:
        """Let somebody be told when all that is in the line now is out."""
        self.receipts.append((self.taken_count + len(self.deliveries), publisher, receipt))

    def confirm_later(self, publisher: Publisher, receipt: bytes) -> None:
        """Let somebody be told when all that is on its way to subscribers now is out."""
        if self.early:
            self.unjoined.append((self.early_count, publisher, receipt))
        else:
            self._confirm_behind(publisher, receipt)

    def _confirm_behind(self, publisher: Publisher, receipt: bytes) -> None:
        """Do so when all that is in the line of these is out."""
        if self.spreads:
            self.unspread.append((self.spread_count + len(self.spreads), publisher, receipt))
        else:
            self.confirm(publisher, receipt)

    def take_receipts(self, count_max: int) -> list[tuple[Publisher, bytes]]:
        """Take who can be told what now, no more than so many."""
        told: list[tuple[Publisher, bytes]] = []
        receipts = self.receipts
        while receipts and receipts[0][0] <= self.taken_count and len(told) < count_max:
            _, publisher, receipt = receipts.popleft()
            told.append((publisher, receipt))
        return told

    def drain(self, topic: Topic, subscription: Consumer) -> None:
        """Deliver what waits for a subscription, as far as it has room now."""
        if subscription.pending or subscription in topic.replays:
            topic.drain(subscription, self.deliveries, self.backlogs)
            self._note_large()

    def close(self, topic: Topic, subscription: Consumer) -> None:
        """Remove a subscription of a topic."""
        topic.close_subscription(subscription, self.backlogs)

    def take(self, broken: Broken) -> Iterator[list[Delivery]]:
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
            if self.taken_count < self.large_through:
                some = self._take_by_size(step_count)
            else:
                some = [waiting.popleft() for _ in range(min(step_count, len(waiting)))]
            self.taken_count += len(some)
            yield [delivery for delivery in some if not delivery[0].is_closed]

    def _take_by_size(self, effort_left: int) -> list[Delivery]:
        """Take deliveries of which some are large, and count for several."""
        waiting = self.deliveries
        some: list[Delivery] = []
        while waiting and effort_left > 0:
            delivery = waiting.popleft()
            some.append(delivery)
            message = delivery[2]
            assert message is not None, "a topic's messages are in memory"
            effort_left -= 1 + (message.size >> EFFORT_SHIFT)
        return some

    def _note_large(self) -> None:
        """Note that there may be large messages in all that is in the line now."""
        self.large_through = self.taken_count + len(self.deliveries)

    def _spread_some(self, broken: Broken) -> int:
        """Spread the oldest message on, and give what that cost, in subscribers."""
        spread = self.spreads[0]
        settings = self._settings
        effort = settings.step_count_max
        try:
            effort = 1 + spread.step(
                settings.step_count_max,
                self.deliveries,
                settings.topic_pending_bytes_max,
                self.backlogs,
            )
        except Exception as error:  # noqa: BLE001 - its topic's, whose consumers are closed
            broken.append((spread.topic, error))
        if spread.may_be_large:
            self._note_large()
        if spread.is_done:
            spread.topic.spread_count -= 1
            self.spreads.popleft()
            self.spread_bytes -= spread.size_bytes + settings.message_memory_overhead_bytes
            self.spread_count += 1
            if isinstance(spread, Replay):
                self._end_replay(spread.receiver)
            while self.unspread and self.unspread[0][0] <= self.spread_count:
                self.confirm(*self.unspread.popleft()[1:])
        return effort

    def _end_replay(self, receiver: Receiver) -> None:
        under_way = self.replaying[receiver]
        under_way.spread_count -= 1
        if not under_way.spread_count:
            del self.replaying[receiver]

    def clear(self) -> tuple[Collection[object], ...]:
        """Forget all, as nobody is connected any more; gives what was long, to be let go of."""
        gone = (self.deliveries, self.receipts, self.unspread, self.unjoined)
        self.deliveries, self.receipts, self.unspread = deque(), deque(), deque()
        self.unjoined = deque()
        self.spreads.clear()
        self.early.clear()
        self.replaying.clear()
        self.spread_bytes = self.mortal_count = 0
        self.backlogs.clear()
        return gone

"""
One leadership: what all queues of a leader share, and where their serving halves are found.

A serving half is made when somebody first asks for the queue. The next leadership begins with none:
what this one had is let go of in steps, queue by queue, and nothing has to be undone.

What it has taken of producers' numbers (`numbers_taken`) begins anew with it in the same way.

Invariants:
    Of each lasting queue there is at most one serving half of one leadership, its listener.
    A name means the leader's queue, where one is planned or its deletion is, else the log's.

Lives on the leader only and may vanish; nothing here is lasting state.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterator
from typing import Any

from holdfast.broker.flow_control import FlowControl
from holdfast.broker.lasting.producers import Producers
from holdfast.broker.lasting.queue import LastingQueue
from holdfast.broker.lasting.topics import (
    LastingSubscription,
    LastingTopic,
    SubscriptionKey,
)
from holdfast.broker.serving.bundle import Bundle
from holdfast.broker.serving.choice import Choice
from holdfast.broker.serving.consumer import Consumer, MessageSelector
from holdfast.broker.serving.deadlines import Deadlines
from holdfast.broker.serving.durable import DurableQueue, StoredTopic
from holdfast.broker.serving.numbers_taken import NumbersTaken
from holdfast.broker.serving.patterns import Patterns, WildDurable
from holdfast.broker.serving.queue import NO_ALARM, Queue
from holdfast.broker.serving.subscription import Subscription
from holdfast.broker.serving.wildcards import Wildcards
from holdfast.broker.settings import BrokerSettings
from holdfast.errors import SelectorError
from holdfast.model.numbering import Numbering
from holdfast.model.records import ReturnCause, ReturnedRecord
from holdfast.model.schedules import SCHEDULE_QUEUE
from holdfast.model.wildcards import parse_pattern

ReadSelector = Callable[[str, LastingQueue], MessageSelector]
"""Gives what selects the messages of a stored topic."""


def no_selectors(_text: str, _topic: LastingQueue) -> MessageSelector:
    """Read no selector: whoever conducts says who does."""
    raise AssertionError("nobody said who reads selectors")


class Leadership:
    """What all queues of one leader share, and where they are found."""

    __slots__ = (
        "_alarm_count",
        "_make_choice",
        "_passed",
        "_read_selector",
        "_say",
        "_selectors",
        "alarms",
        "browsing",
        "by_name",
        "durables",
        "durables_to_come",
        "expiries",
        "filling",
        "flow",
        "is_over",
        "known_count",
        "leaving",
        "names_to_come",
        "numbering",
        "now_ms",
        "numbers",
        "overdue",
        "patterns",
        "paused",
        "plans",
        "selector_bytes",
        "settings",
        "stirring",
        "stored_topics",
        "touched",
        "touched_in_vain",
        "wildcards",
    )

    def __init__(
        self,
        settings: BrokerSettings,
        flow: FlowControl,
        make_choice: Callable[[Queue], Choice],
        numbering: Numbering,
        *,
        producers: Producers,
        say: Callable[[ReturnedRecord], bool] = lambda _record: False,
        read_selector: ReadSelector = no_selectors,
    ) -> None:
        self.settings = settings
        self.flow = flow
        self._make_choice = make_choice
        self._say = say
        self.is_over, self.known_count = False, 0
        """Words of messages by which those of all queues are found that have selectors."""
        self._alarm_count = 0
        self.alarms: Deadlines[tuple[int, int, Queue]] = Deadlines()
        """Queues on which something is due later, by when the first of it is."""
        self.now_ms = self._passed = 0
        """The time at the last look, and how long was seen to pass since the leadership began, in
        microseconds, whatever the clock was set to."""
        self.overdue: deque[tuple[Consumer, list[int]]] = deque()
        """What is to be taken from consumers that have had it for too long."""
        self.expiries: Deadlines[tuple[int, int, Queue]] = Deadlines()
        """Queues on which something expires, by when the first of it does."""
        self.numbering = numbering
        """Where each queue's numbers begin under this leader."""
        self.numbers = NumbersTaken(producers)
        """The numbers of producers that are on their way to the log."""
        self.by_name: dict[str, Queue] = {}
        """The serving halves that somebody asked for."""
        self.stored_topics: dict[str, StoredTopic] = {}
        """The same of stored topics."""
        self.durables: dict[SubscriptionKey, DurableQueue] = {}
        """The same of durable subscriptions, by client-id and name."""
        self._read_selector = read_selector
        self._selectors: dict[int, MessageSelector] = {}
        """By number of the durable subscription: what was read before the lead began."""
        self.selector_bytes = 0
        """What the selectors of durable subscriptions take of the memory."""
        self.plans: dict[int, Queue] = {}
        """By number: queues whose declaration is on its way."""
        self.leaving: dict[int, Queue] = {}
        """By number: queues whose deletion is on its way, without their names."""
        self.names_to_come = self.durables_to_come = 0
        """How many more of each there are once all that is on its way to the log is applied."""
        self.touched: deque[Queue] = deque()
        """Queues with consumers that may have something new to dispatch."""
        self.filling: dict[Queue, None] = {}
        """Queues that may have come to hold more than they may, in the order that they did."""
        self.paused: dict[Queue, None] = {}  # They have something for somebody.
        self.browsing: deque[Subscription] = deque()
        """Who looks through a queue and has room, in turns."""
        self.touched_in_vain = 0
        """Deleted queues that still stand there: they are taken out together."""
        self.stirring: deque[Bundle] = deque()
        """Subscriptions to several destinations that may have room for those that wait for it."""
        self.wildcards, self.patterns = Wildcards[Bundle](), Patterns()

    def make_choice(self, queue: Queue) -> Choice:
        """Make what pairs a queue's messages with its consumers."""
        return self._make_choice(queue)

    def first_number(self, lasting: LastingQueue) -> int:
        """Give the first number that this leader gives on a queue; it says so in the log, too."""
        return self.numbering.first(lasting.next_sequence, lasting.numbered_term)

    def half_of(self, lasting: LastingQueue) -> Queue | None:
        """Give the serving half of a queue, if this leader has one."""
        found = lasting.listener
        return found if isinstance(found, Queue) and found.leadership is self else None

    def serve(self, lasting: LastingQueue) -> Queue:
        """Make the serving half of a queue that the log has."""
        if isinstance(lasting, LastingSubscription):
            topic = self.stored_topic(lasting.topic)
            # A topic that is made now has all of its subscriptions made if anything expires there.
            durable = self.half_of(lasting)
            if durable is None:
                durable = self.durables[lasting.key] = DurableQueue(lasting, self, topic)
            return durable
        if isinstance(lasting, LastingTopic):
            return self.stored_topic(lasting)
        queue = self.by_name[lasting.name] = Queue(lasting, self, lasting.name)
        return queue

    def stored_topic(self, lasting: LastingTopic) -> StoredTopic:
        """Give the serving half of a stored topic, made if nobody asked for it yet."""
        topic = self.half_of(lasting)
        if topic is None:
            topic = self.stored_topics[lasting.name] = StoredTopic(lasting, self)
        assert isinstance(topic, StoredTopic), "a topic has no other"
        return topic

    def read_ahead(self, subscription: LastingSubscription) -> None:
        """Read what a durable subscription wants, before anybody is served."""
        selector = self.selector_of(subscription)
        if selector is not None:
            self._selectors[subscription.number] = selector

    def selector_of(self, subscription: LastingSubscription) -> MessageSelector | None:
        """Give what a durable subscription wants; None: all, also where it cannot be read."""
        known = self._selectors.pop(subscription.number, None)
        if known is not None or not subscription.selector:
            return known
        selector = self.selector_for(subscription.selector, subscription.topic)
        if selector is not None and not subscription.whole_number:  # It has the whole's.
            self.selector_bytes += selector.cost_bytes
        return selector

    def selector_for(self, text: str, topic: LastingTopic) -> MessageSelector | None:
        """Give what selects messages of a topic; None: none does, or it cannot be read."""
        try:
            return self._read_selector(text, topic) if text else None
        except SelectorError:
            return None  # A later version's: rather too much than too little.

    def client_key_of(self, subscription: LastingSubscription) -> SubscriptionKey:
        """Give by what a client names a durable subscription, if this is all of it or a part."""
        whole = self.patterns.by_number.get(subscription.whole_number)
        return subscription.key if whole is None else whole.lasting.key

    def know_wildcard(self, subscription: LastingSubscription) -> None:
        """Take note of a durable subscription of a wildcard that the log has."""
        selector = self.selector_for(subscription.selector, subscription.topic)
        pattern = parse_pattern(f"topic://{subscription.topic.name}")
        self.patterns.add(WildDurable(subscription, pattern, selector))

    def planned(self, number: int) -> LastingQueue | None:
        """Give the lasting half made for a queue whose declaration is applied, if it is ours."""
        queue = self.plans.pop(number, None)
        if queue is None:
            return None
        if type(queue) is Queue:
            self.names_to_come -= 1
        elif type(queue) is DurableQueue:
            self.durables_to_come -= 1
        return queue.lasting

    def deleted(self, queue: Queue) -> None:
        """Note that a queue's deletion is applied."""
        if self.leaving.pop(queue.number, None) is not None:
            self.names_to_come += type(queue) is Queue
            self.durables_to_come += type(queue) is DurableQueue
        self._forget_name(queue)
        self.filling.pop(queue, None)
        self.paused.pop(queue, None)
        if queue.is_touched:
            self.touched_in_vain += 1
            if 2 * self.touched_in_vain > len(self.touched):
                self._forget_touched_in_vain()

    def _forget_name(self, queue: Queue) -> None:
        """Let what a queue is called mean it no more, if it does still."""
        if isinstance(queue, DurableQueue):
            if self.durables.get(queue.key) is queue:
                del self.durables[queue.key]
        elif isinstance(queue, StoredTopic):
            if self.stored_topics.get(queue.name) is queue:
                del self.stored_topics[queue.name]
        elif self.by_name.get(queue.name) is queue:
            del self.by_name[queue.name]

    def _forget_touched_in_vain(self) -> None:
        touched, self.touched = self.touched, deque()
        self.touched_in_vain = 0
        for queue in touched:
            if queue.is_deleted:
                queue.is_touched = False
            else:
                self.touched.append(queue)

    def say_returned(self, queue: Queue, cause: ReturnCause, keys: list[int], due_ms: int) -> bool:
        """Let the log say that stored messages come back; false if it does not say so yet."""
        # A leader that leads no more says nothing: its clients did nothing wrong.
        if self.is_over or queue.is_deleted:
            return False
        sequences = sorted(keys)
        return self._say(ReturnedRecord(queue.number, cause, sequences, due_ms, queue.topic_number))

    def look(self, now_ms: int, passed: int) -> None:
        """Note what time it is, and how many microseconds have passed since the last look."""
        self.now_ms = now_ms
        self._passed += passed

    @property
    def passed_ms(self) -> int:
        """How long this leadership has seen time pass."""
        return self._passed // 1000

    def discard(self, *piles: Collection[object]) -> None:
        """Let go, in steps, of what nobody can reach any more."""
        self.flow.discards.add(*piles)

    def rests(self, queue: Queue) -> None:
        """Note that the first of a queue's messages that rest is due earlier than it was."""
        comebacks = queue.custody.comebacks
        if comebacks is not None and comebacks.soonest:
            self._set_alarm(comebacks.soonest, queue)

    def expires(self, queue: Queue) -> None:
        """Note that the first of a queue's messages expires earlier than was known."""
        expiry = queue.expiry
        soonest = 0 if expiry is None else expiry.soonest
        if expiry is None or not soonest or 0 < expiry.alarm[0] <= soonest:
            return
        if queue.name == SCHEDULE_QUEUE:
            return  # There it is due, and who sends it looks by himself.
        self._alarm_count += 1
        expiry.alarm = (soonest, self._alarm_count)
        self.expiries.add((*expiry.alarm, queue), _expires_then)

    def expiry_due(self, now_ms: int) -> Queue | None:
        """Take a queue on which something is to be done; None: nothing is due."""
        while 0 < self.expiries.soonest <= now_ms:
            alarm = self.expiries.pop()
            queue = alarm[2]
            if _expires_then(alarm) and queue.expiry is not None:
                queue.expiry.alarm = NO_ALARM
                return queue
        return None

    def rouse(self, queue: Queue, due_ms: int) -> None:
        """Wake a queue at this time, or soon if that is over."""
        self._set_alarm(due_ms, queue)

    def _set_alarm(self, due_ms: int, queue: Queue) -> None:
        if 0 < queue.alarm[0] <= due_ms:
            return
        self._alarm_count += 1  # No two are equal: queues have no order.
        queue.alarm = (due_ms, self._alarm_count)
        self.alarms.add((*queue.alarm, queue), _counts)

    def wake(self, now_ms: int, count_max: int) -> list[tuple[Queue, Exception]]:
        """
        Let so many messages that are due be dispatched; the others have their turn next time.

        Gives the queues where that failed, and how.
        """
        broken: list[tuple[Queue, Exception]] = []
        alarms = self.alarms
        left = count_max
        while 0 < alarms.soonest <= now_ms and left > 0:
            alarm = alarms.pop()
            left -= 1
            if _counts(alarm):
                queue = alarm[2]
                queue.alarm = NO_ALARM
                try:
                    count, soonest = queue.wake(now_ms, left + 1)
                except Exception as error:  # noqa: BLE001 - its queue's, which is built anew
                    broken.append((queue, error))
                    continue
                left -= count
                if soonest:
                    self._set_alarm(soonest, queue)
        return broken

    def piles(self) -> Iterator[Collection[object]]:
        """Give all that it and its queues hold, queue by queue, to be let go of: it is over."""
        kinds: tuple[dict[Any, Any], ...] = (self.by_name, self.durables, self.stored_topics)
        for queues in (*kinds, self.plans, self.leaving):
            for queue in list(queues.values()):
                yield from queue.piles()
            yield queues
        yield self.touched
        yield self.filling
        yield self.paused
        yield from self.alarms.empty()
        yield from self.expiries.empty()
        yield self.numbers.under_way


def _expires_then(alarm: tuple[int, int, Queue]) -> bool:
    """Whether this is the alarm that a queue has for what expires on it, and was not set anew."""
    expiry = alarm[2].expiry
    return expiry is not None and alarm[:2] == expiry.alarm and not alarm[2].is_deleted


def _counts(alarm: tuple[int, int, Queue]) -> bool:
    """Whether it is the one that its queue has, and was not set anew."""
    queue = alarm[2]
    return alarm[:2] == queue.alarm and not queue.is_deleted

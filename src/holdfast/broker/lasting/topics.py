"""
Topics that are stored, and their durable subscriptions: the lasting halves, and how they change.

A topic has the messages, each once; a subscription is a queue whose index is a view on the topic's.
So what can be done with a queue's messages (acknowledged, come back, moved, purged) is done with a
subscription's by the same code.

A replica that begins with a later part of the log meets messages of a topic, and what is said of
its subscriptions, before it is told of either; they are nameless until then. Its topic is whole,
and lets go of what nobody needs, once it knows as many subscriptions as the topic's record says.

Invariants:
    Of a whole topic every subscription is known.
    Messages behind a subscription's record are all its own, but those that say it skips them.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from holdfast.broker.lasting.discards import Discards
from holdfast.broker.lasting.queue import LastingQueue
from holdfast.broker.lasting.returns import Returned
from holdfast.broker.lasting.topic_index import TopicIndex
from holdfast.broker.lasting.view_index import UNKNOWN_SLOT, ViewIndex
from holdfast.model.owners import NOBODY
from holdfast.model.records import DeleteQueueRecord, SubscriptionAcknowledgeRecord
from holdfast.model.topic_records import (
    CountedRecord,
    DetachedRecord,
    SubscriptionRecord,
    TopicRecord,
    whole_of,
)

SubscriptionKey = tuple[str, str]
"""Client-id and name."""


class LastingTopic(LastingQueue):
    """One topic of which messages are stored."""

    __slots__ = ("needs", "subscriptions", "unknown_count")

    index: TopicIndex

    def __init__(self, number: int, name: str) -> None:
        super().__init__(number, name)
        self.index = TopicIndex()
        self.subscriptions: dict[int, LastingSubscription] = {}
        """By number, those that are known here."""
        self.unknown_count = 0
        """So many more there were where its record stood."""
        self.needs: object = None
        """What the cleaner has found out last: who needs what of one chunk."""

    @property
    def takes_runs(self) -> bool:  # type: ignore[override]
        """Whether many messages may be put at once: what nobody takes goes at once."""
        return bool(self.subscriptions)

    def go_on_from(self, next_sequence: int, term: int) -> None:
        """Let what is put from now on have this number, or a higher one."""
        self.next_sequence = next_sequence
        self.numbered_term = term
        self.index.close_below(next_sequence)

    @property
    def declared_count(self) -> int:
        """How many subscriptions were told of."""
        return sum(each.is_declared for each in self.subscriptions.values())


class LastingSubscription(LastingQueue):
    """One durable subscription."""

    __slots__ = ("client_id", "detached_at", "has_no_local", "owner", "selector", "topic")

    index: ViewIndex

    def __init__(
        self, number: int, topic: LastingTopic, begin: int = 0, slot: int = UNKNOWN_SLOT
    ) -> None:
        super().__init__(number, "")
        self.index = ViewIndex(topic.index, begin, slot, number)
        self.topic = topic
        self.client_id = ""
        self.selector = ""
        self.has_no_local = False
        self.detached_at = 0
        self.owner = NOBODY

    @property
    def key(self) -> SubscriptionKey:
        """By which its client names it."""
        return self.client_id, self.name

    @property
    def whole_number(self) -> int:
        """The number of the subscription that it is a part of; 0: it is none."""
        return whole_of(self.name)

    @property
    def next_sequence(self) -> int:
        """The topic's."""
        return self.topic.next_sequence

    @next_sequence.setter
    def next_sequence(self, following: int) -> None:
        """Do nothing: it has no numbers of its own."""

    @property
    def numbered_term(self) -> int:
        """The topic's."""
        return self.topic.numbered_term

    @numbered_term.setter
    def numbered_term(self, term: int) -> None:
        """Do nothing: it has no numbers of its own."""


class Planning(Protocol):
    """The leader, which has made the lasting half of what it declares."""

    def planned(self, number: int) -> LastingQueue | None:
        """Give the lasting half of what is declared now, if it is ours."""


class OfQueue(Protocol):
    """A record that speaks of messages of one queue, or of one subscription of a topic."""

    queue_number: int
    topic_number: int


class TopicState(Protocol):
    """The state, as far as topics change it."""

    queues: dict[int, LastingQueue]
    by_name: dict[str, LastingQueue]
    topics: dict[str, LastingTopic]
    subscriptions: dict[SubscriptionKey, LastingSubscription]
    parts: dict[int, dict[int, LastingSubscription]]
    planning: Planning | None
    discards: Discards
    term: int

    def note_number(self, number: int, home: int) -> None:
        """Note that a number is taken."""

    def lost(self, count: int, size: int) -> None:
        """Count what lived until now and is nowhere any more."""

    def forgotten(self, count: int, size: int) -> None:
        """Count what lives no more, and was not settled."""


def apply_topic(state: TopicState, record: TopicRecord, number: int) -> None:
    """Declare a topic, or say again what it is."""
    topic = topic_of(state, record.topic_number)
    topic.name = record.name
    topic.is_declared = True
    topic.home = number
    topic.go_on_from(max(topic.next_sequence, record.next_sequence), state.term)
    state.topics[record.name] = topic
    state.note_number(record.topic_number, number)
    if not topic.index.is_whole:
        topic.unknown_count = record.subscription_count - topic.declared_count
        _look_whether_whole(state, topic)


def apply_subscription(state: TopicState, record: SubscriptionRecord, number: int) -> None:
    """Declare a durable subscription, or say again what it is."""
    subscription = state.queues.get(record.number)
    if subscription is None:
        topic = topic_of(state, record.topic_number)
        if record.first_sequence > topic.next_sequence:
            # So that what stands before it is known to come late.
            topic.go_on_from(record.first_sequence, state.term)
        subscription = _planned(state, record.number) or LastingSubscription(record.number, topic)
        subscription.index.begin = record.first_sequence
        subscription.index.slot = record.slot
        _join(state, topic, subscription)
    assert isinstance(subscription, LastingSubscription), "its number is no queue's"
    topic = subscription.topic
    if not subscription.is_declared:
        _learn(state, topic, subscription, record)
    subscription.is_declared = True
    subscription.home = number
    subscription.client_id, subscription.name = record.client_id, record.name
    subscription.selector, subscription.has_no_local = record.selector, record.has_no_local
    subscription.see(0, record.dispatch_mark)
    subscription.detached_at = record.detached_at
    subscription.owner = record.owner
    _note_key(state, subscription)
    state.note_number(record.number, number)


def _note_key(state: TopicState, subscription: LastingSubscription) -> None:
    state.subscriptions[subscription.key] = subscription
    if whole := subscription.whole_number:
        state.parts.setdefault(whole, {})[subscription.number] = subscription


def _forget_key(state: TopicState, subscription: LastingSubscription) -> None:
    if state.subscriptions.get(subscription.key) is subscription:
        del state.subscriptions[subscription.key]
    if whole := subscription.whole_number:
        parts = state.parts.get(whole, {})
        parts.pop(subscription.number, None)
        if not parts:
            state.parts.pop(whole, None)


def _planned(state: TopicState, number: int) -> LastingSubscription | None:
    planned = None if state.planning is None else state.planning.planned(number)
    assert planned is None or isinstance(planned, LastingSubscription), "it was planned as one"
    return planned


def _join(state: TopicState, topic: LastingTopic, subscription: LastingSubscription) -> None:
    number, index = subscription.number, subscription.index
    index.join()
    state.queues[number] = topic.subscriptions[number] = subscription
    topic.index.takers[number] = index


def _learn(
    state: TopicState,
    topic: LastingTopic,
    subscription: LastingSubscription,
    record: SubscriptionRecord,
) -> None:
    """Let a subscription be done with what was said of it while only its number was known."""
    index = subscription.index
    before = topic.index.live_count, topic.index.live_bytes
    index.slot = record.slot
    topic.index.by_slot[record.slot] = index
    index.detach_through(record.first_sequence - 1)
    place, bit = record.slot >> 3, 1 << (record.slot & 7)
    skipped = [
        sequence
        for sequence, slots in topic.index.skips.items()
        if place < len(slots) and slots[place] & bit
    ]
    index.remove(skipped)
    count_lost(state, topic, before)


def apply_detached(state: TopicState, record: DetachedRecord, _number: int) -> None:
    """Note since when nobody takes a subscription's messages."""
    subscription = state.queues.get(record.number)
    if isinstance(subscription, LastingSubscription):
        subscription.detached_at = record.at_ms


def apply_counted(state: TopicState, record: CountedRecord, _number: int) -> None:
    """Say again what came of some messages."""
    subscription = subscription_of(state, record)
    if subscription is None:
        return
    returned = Returned(record.attempts, record.failures, record.due_ms)
    for sequence in record.sequences:
        subscription.index.put_returned(sequence, returned)


def topic_of(state: TopicState, number: int) -> LastingTopic:
    """Give the topic of a number, nameless if nothing was said of it yet."""
    known = state.queues.get(number)
    if isinstance(known, LastingTopic):
        return known
    planned = None if state.planning is None else state.planning.planned(number)
    topic = planned if isinstance(planned, LastingTopic) else LastingTopic(number, "")
    if known is not None:
        # Messages were met, and nothing yet that tells what they are on.
        assert not known.is_declared, "its number is no queue's"
        topic.index.take_over_from(known.index)
        topic.go_on_from(known.next_sequence, known.numbered_term)
        topic.enqueued_total = known.enqueued_total
    state.queues[number] = topic
    return topic


def subscription_of(state: TopicState, record: OfQueue) -> LastingSubscription | None:
    """
    Give the subscription of a record, nameless if it was not told yet what it is.

    None: it has ended, as the topic is whole and does not know it.
    """
    known = state.queues.get(record.queue_number)
    if known is None:
        topic = topic_of(state, record.topic_number)
        if topic.index.is_whole:
            return None
        known = LastingSubscription(record.queue_number, topic)
        _join(state, topic, known)
    assert isinstance(known, LastingSubscription), "its number is no queue's"
    return known


def apply_settled(state: TopicState, record: SubscriptionAcknowledgeRecord, _number: int) -> None:
    """Let a subscription be done with messages."""
    subscription = subscription_of(state, record)
    if subscription is not None:
        settle(state, subscription, record.sequences)


def settle(state: TopicState, subscription: LastingSubscription, sequences: list[int]) -> None:
    """Let a subscription be done with messages."""
    topic = subscription.topic
    before = topic.index.live_count, topic.index.live_bytes
    gone = subscription.index.remove(sequences)
    subscription.acknowledged_total += len(gone)
    if subscription.listener is not None:
        subscription.listener.gone(gone)
    count_lost(state, topic, before)


def trim(state: TopicState, subscription: LastingSubscription, through: int) -> None:
    """Let a subscription be done with all up to a sequence."""
    topic, index = subscription.topic, subscription.index
    if through >= topic.next_sequence:
        # Told of what this node learns of only further on.
        topic.go_on_from(through + 1, state.term)
    before = topic.index.live_count, topic.index.live_bytes
    count = index.live_count
    state.discards.add(index.detach_through(through))
    subscription.acknowledged_total += count - index.live_count
    count_lost(state, topic, before)
    if subscription.listener is not None:
        subscription.listener.purged()


def skip(state: TopicState, number: int, sequence: int, slots: bytes) -> None:
    """Note that the subscriptions of these slots do not need a message that was just put."""
    known = state.queues[number]
    if known.is_declared and not isinstance(known, LastingTopic):
        return  # Nobody but its consumers needs what is on a queue.
    topic = topic_of(state, number)
    before = topic.index.live_count, topic.index.live_bytes
    topic.index.skip(sequence, slots)
    count_lost(state, topic, before)


def delete(state: TopicState, record: DeleteQueueRecord, known: LastingQueue | None) -> None:
    """End a topic or subscription that is no more in `queues`, or was never known here."""
    if isinstance(known, LastingSubscription):
        _delete_subscription(state, known)
    elif isinstance(known, LastingTopic):
        _delete_topic(state, known)
    elif record.topic_number:
        topic = state.queues.get(record.topic_number)
        if isinstance(topic, LastingTopic):
            _know_one_more(state, topic)


def _delete_subscription(state: TopicState, subscription: LastingSubscription) -> None:
    """End a subscription, which is no more in `queues`; nobody else loses anything by it."""
    topic = subscription.topic
    before = topic.index.live_count, topic.index.live_bytes
    topic.index.by_slot.pop(subscription.index.slot, None)
    del topic.index.takers[subscription.number], topic.subscriptions[subscription.number]
    subscription.index.leave()
    count_lost(state, topic, before)
    _forget_key(state, subscription)
    if not subscription.is_declared:
        _know_one_more(state, topic)
    subscription.end()


def _delete_topic(state: TopicState, topic: LastingTopic) -> None:
    """End a topic, which is no more in `queues`, and all of its subscriptions."""
    for subscription in list(topic.subscriptions.values()):
        del state.queues[subscription.number]
        _forget_key(state, subscription)
        subscription.end()
    state.forgotten(topic.index.live_count, topic.index.live_bytes)
    state.discards.add(topic.index.chunks)
    if state.topics.get(topic.name) is topic:
        del state.topics[topic.name]
    topic.end()
    # Each of them has its topic, which has them: neither would go.
    for gone in (topic.subscriptions, topic.index.takers, topic.index.by_slot):
        gone.clear()


def _know_one_more(state: TopicState, topic: LastingTopic) -> None:
    """Note that one of those that were not known has ended."""
    if topic.unknown_count:
        topic.unknown_count -= 1
        _look_whether_whole(state, topic)


def _look_whether_whole(state: TopicState, topic: LastingTopic) -> None:
    if not topic.unknown_count:
        before = topic.index.live_count, topic.index.live_bytes
        topic.index.become_whole()
        count_lost(state, topic, before)


def count_lost(state: TopicState, topic: LastingTopic, before: tuple[int, int]) -> None:
    """Count what nobody needs any more since so much lived, and tell the leader's half."""
    index = topic.index
    if index.died:
        state.lost(before[0] - index.live_count, before[1] - index.live_bytes)
        tell_gone(topic, index.take_died())


def tell_gone(topic: LastingTopic, sequences: Iterable[int]) -> None:
    """Tell the leader's half of a topic what nobody needs any more."""
    gone = list(sequences)
    topic.acknowledged_total += len(gone)
    if topic.listener is not None:
        topic.listener.gone(gone)


def name_all(state: TopicState) -> None:
    """Note what each that is declared is called: they were put here, and not by `apply`."""
    for queue in state.queues.values():
        if not queue.is_declared:
            continue
        if isinstance(queue, LastingSubscription):
            _note_key(state, queue)
        elif isinstance(queue, LastingTopic):
            state.topics[queue.name] = queue
        else:
            state.by_name[queue.name] = queue

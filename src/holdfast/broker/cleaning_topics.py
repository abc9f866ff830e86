"""
What cleaning has to know of topics: who needs a message, and what of all of it is written again.

A copy of a topic's message says which of the subscriptions do not need it once all that is on its
way is applied; what came back to one is said behind it. A topic and its subscriptions are written
again together, the topic last, with how many they are: who begins with what is left knows then
that it has heard of all.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final, NamedTuple

from holdfast.broker.broker import Broker
from holdfast.broker.lasting.chunk import CHUNK_SHIFT, Chunk
from holdfast.broker.lasting.returns import NEVER, Returned
from holdfast.broker.lasting.topic_index import SLOT_MASK, bitmap_of, with_bits
from holdfast.broker.lasting.topics import LastingSubscription, LastingTopic
from holdfast.broker.serving.durable import DurableQueue, StoredTopic, restored
from holdfast.broker.serving.queue import Queue
from holdfast.model.facts import MessageFacts, Place
from holdfast.model.records import MessageRecord, Record
from holdfast.model.topic_records import CountedRecord, TopicRecord

_SUBSCRIPTIONS_PER_PIECE: Final = 64


class Needs(NamedTuple):
    """Who needs what of one chunk of a topic: sorted once, as there may be ten thousand."""

    chunk_number: int
    change_count: int
    """It holds while the topic's index has changed so often."""
    whole: dict[int, LastingSubscription]
    """By number: those that have not begun it, and need all of it."""
    begun: list[tuple[LastingSubscription, Chunk]]
    """Those that have flags of their own for it, with these."""
    some: list[LastingSubscription]
    """Those that begin within it, and have none."""
    skips: bytes
    """A bit for the slot of each of the others."""


def _needs_of(topic: LastingTopic, sequence: int) -> Needs:
    """Give who needs what of the chunk of a message."""
    number = sequence >> CHUNK_SHIFT
    known = topic.needs
    if (
        isinstance(known, Needs)
        and known.chunk_number == number
        and known.change_count == topic.index.change_count
    ):
        return known
    chunk = topic.index.chunk(number)
    assert chunk is not None, "only called for what lives"
    first, end = (number << CHUNK_SHIFT) + chunk.start, (number + 1) << CHUNK_SHIFT
    whole: dict[int, LastingSubscription] = {}
    begun: list[tuple[LastingSubscription, Chunk]] = []
    some: list[LastingSubscription] = []
    slots: list[int] = []
    for subscription in topic.subscriptions.values():
        index = subscription.index
        own = index.chunks.get(number)
        if own is not None:
            begun.append((subscription, own))
        elif index.begin >= end or number in index.finished:
            slots.append(index.slot)
        elif index.begin > first:
            some.append(subscription)
        else:
            whole[subscription.number] = subscription
    needs = Needs(number, topic.index.change_count, whole, begun, some, bitmap_of(slots))
    topic.needs = needs
    return needs


def _losing(
    broker: Broker, topic: LastingTopic, sequence: int, leaving: Mapping[int, set[int]]
) -> set[int]:
    """Give the numbers of subscriptions that will not need a message once all is applied."""
    losing = {number for number, sequences in leaving.items() if sequence in sequences}
    served = broker.destinations.leadership.half_of(topic)
    if isinstance(served, StoredTopic):
        losing.update(
            queue.number
            for queue in served.purging
            if queue.is_deleted or sequence <= queue.purging_through
        )
    return losing


def needing(
    broker: Broker, topic: LastingTopic, sequence: int, leaving: Mapping[int, set[int]]
) -> Iterator[LastingSubscription]:
    """Give the subscriptions that need a message, and go on doing so."""
    if not topic.index.is_live(sequence):
        return
    needs = _needs_of(topic, sequence)
    losing = _losing(broker, topic, sequence, leaving)
    for number, subscription in needs.whole.items():
        if number not in losing:
            yield subscription
    slot = sequence & SLOT_MASK
    for subscription, own in needs.begun:
        is_needed = slot >= len(own.live) or own.live[slot]
        if is_needed and subscription.number not in losing:
            yield subscription
    for subscription in needs.some:
        if sequence >= subscription.index.begin and subscription.number not in losing:
            yield subscription


def skips_to_be(
    broker: Broker, topic: LastingTopic, sequence: int, leaving: Mapping[int, set[int]]
) -> bytes:
    """Give who does not need a message that lives, or will not, as a bit for each slot."""
    needs = _needs_of(topic, sequence)
    losing = _losing(broker, topic, sequence, leaving)
    queues = broker.state.queues
    slots = [
        subscription.index.slot
        for subscription in map(queues.get, losing)
        if isinstance(subscription, LastingSubscription) and subscription.topic is topic
    ]
    slot = sequence & SLOT_MASK
    chunk = topic.index.chunk(needs.chunk_number)
    assert chunk is not None, "it lives"
    if not chunk.done_at(slot):
        return with_bits(needs.skips, slots) if slots else needs.skips
    slots += [
        it.index.slot for it, own in needs.begun if slot < len(own.live) and not own.live[slot]
    ]
    slots += [it.index.slot for it in needs.some if sequence < it.index.begin]
    return with_bits(needs.skips, slots) if slots else needs.skips


def _came_back(
    topic: LastingTopic, sequence: int, returning: Mapping[Place, list[tuple[int, bool]]]
) -> Iterator[LastingSubscription]:
    """Give the subscriptions that may need a message that lives, and may have given it back."""
    needs = _needs_of(topic, sequence)
    slot = sequence & SLOT_MASK
    coming = {place.queue_number for place in returning if place.sequence == sequence}
    for subscription, own in needs.begun:
        may_have = own.returns is not None or subscription.number in coming
        if may_have and (slot >= len(own.live) or own.live[slot]):
            yield subscription
    for number in coming:
        other = topic.subscriptions.get(number)
        if other is not None and needs.chunk_number not in other.index.chunks:
            yield other


def widen(broker: Broker, wanted: dict[int, set[int]]) -> dict[int, set[int]]:
    """Give messages by queue number with those of topics as all their subscriptions', too."""
    wider = dict(wanted)
    for number, sequences in wanted.items():
        topic = broker.state.queues.get(number)
        if isinstance(topic, LastingTopic):
            wider.update(dict.fromkeys(topic.subscriptions, sequences))
    return wider


def copy_on_topic(
    broker: Broker,
    copy: MessageRecord,
    leaving: Mapping[int, set[int]],
    returning: Mapping[Place, list[tuple[int, bool]]],
) -> Iterator[Record]:
    """Give a copy of a topic's message with who does not need it, and what came of it before."""
    topic = broker.state.queues[copy.queue_number]
    assert isinstance(topic, LastingTopic), "only called for these"
    sequence = copy.sequence
    skips = skips_to_be(broker, topic, sequence, leaving)
    facts = replace(copy.facts or MessageFacts(), skips=skips)
    copy.facts = None if facts == MessageFacts() else facts
    yield copy
    losing = _losing(broker, topic, sequence, leaving)
    for subscription in _came_back(topic, sequence, returning):
        if subscription.number in losing or not subscription.index.is_live(sequence):
            continue
        returned = subscription.index.returned(sequence)
        for due_ms, failed in returning.get(Place(subscription.number, sequence), ()):
            returned = returned.again(due_ms, failed=failed)
        if returned != NEVER:
            yield _counted(subscription, sequence, returned)


def _counted(subscription: LastingSubscription, sequence: int, returned: Returned) -> CountedRecord:
    return CountedRecord(
        subscription.number,
        subscription.topic.number,
        [sequence],
        attempts=returned.attempts,
        failures=returned.failures,
        due_ms=returned.due_ms,
    )


def homeless_topics(broker: Broker, through_record: int) -> Iterator[list[Record]]:
    """Give, for each topic, in pieces, what carries on it and its subscriptions if any goes."""
    for topic in list(broker.state.topics.values()):
        homes = [topic.home, *(it.home for it in topic.subscriptions.values() if it.is_declared)]
        if min(homes) <= through_record:
            yield from _carried(broker, topic)
        else:
            yield []


def _carried(broker: Broker, topic: LastingTopic) -> Iterator[list[Record]]:
    """Give some subscriptions at a time, each as it is then, and last the topic."""
    queues, leadership = broker.state.queues, broker.destinations.leadership
    records: list[Record] = []
    for count, subscription in enumerate(list(topic.subscriptions.values()), 1):
        serving = leadership.half_of(subscription)
        if queues.get(subscription.number) is not subscription or not subscription.is_declared:
            pass  # It has ended since the piece before, or nobody was told what it is.
        elif serving is None:
            records += restored(subscription)
        elif not serving.is_deleted:
            assert isinstance(serving, DurableQueue), "it is served as one"
            records += restored(subscription, serving)
        if not count % _SUBSCRIPTIONS_PER_PIECE:
            yield records
            records = []
    served = leadership.half_of(topic)
    if queues.get(topic.number) is topic and not (served is not None and served.is_deleted):
        records.append(_restored_topic(broker, topic, served))
    yield records


def _restored_topic(broker: Broker, topic: LastingTopic, served: Queue | None) -> TopicRecord:
    """Give a topic with how many subscriptions there are where this stands."""
    leadership = broker.destinations.leadership
    declared = [each for each in topic.subscriptions.values() if each.is_declared]
    halves = [leadership.half_of(each) for each in declared]
    count = sum(half is None or not half.is_deleted for half in halves)
    # Those whose declaration is on its way stand before this record.
    coming = [
        planned.lasting
        for planned in leadership.plans.values()
        if isinstance(planned.lasting, LastingSubscription) and not planned.is_deleted
    ]
    count += sum(each.topic is topic for each in coming)
    following = leadership.first_number(topic) if served is None else served.assigned_sequence
    return TopicRecord(topic.number, topic.name, following, count)

"""
What is written again of topics; that it is enough for who begins late is in `test_topics`.
"""

from __future__ import annotations

from holdfast.broker.broker import Broker
from holdfast.broker.cleaning import OnTheWay, homeless, live_copies, lives_at
from holdfast.broker.cleaning_topics import needing, skips_to_be, widen
from holdfast.broker.lasting.topic_index import bitmap_of, bits_of
from holdfast.broker.settings import BrokerSettings
from holdfast.model.facts import MessageFacts, Place
from holdfast.model.records import (
    MessageRecord,
    ReturnCause,
    ReturnedRecord,
    SubscriptionAcknowledgeRecord,
)
from holdfast.model.topic_records import CountedRecord, SubscriptionRecord, TopicRecord

TOPIC, FIRST, SECOND = 2, 3, 4


def broker_with(*records) -> Broker:
    """A topic with two subscriptions and messages 1 to 3, in records 4 to 6."""
    broker = Broker(BrokerSettings())
    who = [SubscriptionRecord(FIRST + slot, TOPIC, slot, "c", f"s{slot}") for slot in (0, 1)]
    messages = [MessageRecord(TOPIC, each, b"h:1\n", b"b", 5) for each in (1, 2, 3)]
    broker.state.apply(1, [TopicRecord(TOPIC, "t"), *who, *messages, *records], 1)
    return broker


def copies(broker, sequence, leaving, returning=None) -> list:
    """What is written again of one of the messages."""
    record = MessageRecord(TOPIC, sequence, b"h:1\n", b"b", 5)
    record.facts = MessageFacts(skips=b"\xff")
    under_way = OnTheWay(leaving, returning or {}, {})
    return list(live_copies(broker, record, 3 + sequence, 9, under_way))


def test_a_copy_says_who_does_not_need_it_once_all_under_way_is_applied() -> None:
    """
    Also who is just done with it; nothing of what the record itself said counts any more.
    """
    broker = broker_with(SubscriptionAcknowledgeRecord(SECOND, [2], TOPIC))
    (copy,) = copies(broker, 1, {})
    assert (copy.sequence, copy.rewritten, copy.facts) == (1, True, None)
    (copy,) = copies(broker, 1, {FIRST: {1}})
    assert copy.facts == MessageFacts(skips=b"\x01")
    (copy,) = copies(broker, 2, {})
    assert copy.facts == MessageFacts(skips=b"\x02")
    assert not copies(broker, 2, {FIRST: {2}})
    assert not copies(broker, 1, {FIRST: {1}, SECOND: {1}})
    assert lives_at(broker, TOPIC, 1, 4, {SECOND: {1}})
    assert not lives_at(broker, TOPIC, 1, 5, {})


def test_what_came_back_to_one_is_said_behind_the_copy() -> None:
    """
    With what is on its way: of two subscriptions each has its own count.
    """
    broker = broker_with(ReturnedRecord(SECOND, ReturnCause.REJECTED, [3], 70, TOPIC))
    copy, counted = copies(broker, 3, {}, {Place(SECOND, 3): [(80, False)]})
    assert copy.facts is None
    assert isinstance(counted, CountedRecord)
    assert (counted.queue_number, counted.topic_number, counted.sequences) == (SECOND, TOPIC, [3])
    assert (counted.attempts, counted.failures, counted.due_ms) == (2, 1, 80)
    assert len(copies(broker, 3, {SECOND: {3}})) == 1


def test_messages_of_a_topic_are_asked_of_each_subscription() -> None:
    """
    Those of a queue of the queue alone.
    """
    broker = broker_with()
    assert widen(broker, {TOPIC: {1}, 9: {5}}) == {TOPIC: {1}, FIRST: {1}, SECOND: {1}, 9: {5}}


def test_a_topic_is_carried_on_whole_the_topic_last() -> None:
    """
    Where any of it goes: who begins behind it knows by the count that it has heard of all.
    """
    broker = broker_with(SubscriptionAcknowledgeRecord(FIRST, [1, 2], TOPIC))
    first, second, topic = [
        it for some in homeless(broker, 2, 0) for it in some if hasattr(it, "name")
    ]
    assert (first.number, first.first_sequence, second.first_sequence) == (FIRST, 3, 1)
    assert (topic.topic_number, topic.subscription_count, topic.next_sequence) == (TOPIC, 2, 4)
    kinds = [type(it) for some in homeless(broker, 0, 0) for it in some]
    assert TopicRecord not in kinds
    assert SubscriptionRecord not in kinds


def test_who_skips_is_what_each_says_by_itself() -> None:
    """
    Whoever is away, came later, is in the middle of a chunk or done with it, or ends: the chunks'
    sorting of them says the same as to ask each, before and after more is settled.
    """
    broker = broker_with()
    later = [
        SubscriptionRecord(5, TOPIC, 2, "c", "within", first_sequence=100),
        SubscriptionRecord(6, TOPIC, 3, "c", "behind", first_sequence=600),
        SubscriptionRecord(7, TOPIC, 4, "c", "ends"),
        SubscriptionRecord(8, TOPIC, 5, "c", "purged"),
    ]
    messages = [MessageRecord(TOPIC, each, b"h:1\n", b"b", 5) for each in range(4, 1_201)]
    broker.state.apply(7, [*later, *messages], 2)
    broker.lead()
    broker.durables.remove(broker.durables.find(("c", "ends")))
    broker.durables.find(("c", "purged")).purge_through(300)
    topic = broker.state.topics["t"]
    leaving = {FIRST: {50, 700}}

    def expected(sequence: int) -> bytes:
        slots = []
        for each in topic.subscriptions.values():
            half = broker.destinations.leadership.half_of(each)
            ends = half is not None and (half.is_deleted or sequence <= half.purging_through)
            loses = sequence in leaving.get(each.number, ())
            if ends or loses or not each.index.is_live(sequence):
                slots.append(each.index.slot)
        return bitmap_of(slots)

    def check() -> None:
        for sequence in (1, 50, 99, 100, 300, 301, 511, 512, 599, 600, 700, 1_023, 1_024, 1_200):
            if topic.index.is_live(sequence):
                assert skips_to_be(broker, topic, sequence, leaving) == expected(sequence)
                needers = {it.index.slot for it in needing(broker, topic, sequence, leaving)}
                skipping = bits_of(expected(sequence))
                assert needers.isdisjoint(skipping)
                assert len(needers) + len(skipping) == len(topic.subscriptions)

    check()
    broker.state.apply(2_000, [SubscriptionAcknowledgeRecord(SECOND, [50, 512, 600], TOPIC)], 3)
    check()
    whole = SubscriptionAcknowledgeRecord(SECOND, list(range(1, 1_100)), TOPIC)
    broker.state.apply(2_001, [whole], 4)
    check()


def test_a_topic_of_many_subscriptions_is_carried_on_in_pieces() -> None:
    """
    What ends between two of them is not written again behind its end, and not counted.
    """
    broker = broker_with()
    more = [SubscriptionRecord(10 + it, TOPIC, 2 + it, "c", f"m{it}") for it in range(200)]
    broker.state.apply(7, more, 2)
    broker.lead()
    pieces = homeless(broker, 6, 0)
    written = [it for it in next(pieces) if isinstance(it, SubscriptionRecord)]
    assert not written  # That is the counters'.
    written = list(next(pieces))
    assert 0 < len(written) <= 65
    broker.durables.remove(broker.durables.find(("c", "m199")))
    broker.durables.remove(broker.durables.find(("c", "m0")))
    rest = [it for some in pieces for it in some]
    assert 209 not in {it.number for it in rest if isinstance(it, SubscriptionRecord)}
    assert type(rest[-1]) is TopicRecord
    assert rest[-1].subscription_count == 200

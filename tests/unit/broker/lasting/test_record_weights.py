"""
What a record takes to apply beside its own size, for every kind of record that there is.
"""

from __future__ import annotations

from typing import get_args

import pytest

from holdfast.broker.lasting.record_weights import weight_of, weight_of_all
from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.lasting.topic_index import bitmap_of
from holdfast.broker.settings import BrokerSettings
from holdfast.model.access_records import AuditRecord, GrantRecord, UserRecord
from holdfast.model.facts import Attributes, Cause, MessageFacts, Place
from holdfast.model.records import (
    AcknowledgeRecord,
    CleanedRecord,
    CountersRecord,
    DeadLetterRecord,
    DeleteQueueRecord,
    DispatchMarkRecord,
    FiredRecord,
    ForgetProducerRecord,
    FormatRecord,
    HoldRecord,
    MessageRecord,
    MoveRecord,
    PolicyRecord,
    ProducerRecord,
    PurgeRecord,
    QueueRecord,
    Record,
    ReturnCause,
    ReturnedRecord,
    Run,
    SubscriptionAcknowledgeRecord,
)
from holdfast.model.topic_records import (
    CountedRecord,
    DetachedRecord,
    SubscriptionRecord,
    TopicRecord,
)

TOPIC, QUEUE, LATE_TOPIC = 1, 2, 3
FIRST = 10
"""The number of the topic's first subscription."""
SUBSCRIPTIONS = 20
CHUNKS = 4
MESSAGES = CHUNKS * 512 + 99
"""Of sequences from 1: the last chunk has 100."""

AS_A_MESSAGE = {
    FiredRecord,
    QueueRecord,
    DispatchMarkRecord,
    DetachedRecord,
    ProducerRecord,
    ForgetProducerRecord,
    CountersRecord,
    CleanedRecord,
    FormatRecord,
    HoldRecord,
    PolicyRecord,
    UserRecord,
    GrantRecord,
    AuditRecord,
}
"""Those that touch one thing each."""


def message(
    sequence: int, number: int = TOPIC, *, rewritten: bool = False, **facts
) -> MessageRecord:
    record = MessageRecord(number, sequence, b"", b"", 0)
    record.facts = MessageFacts(**facts) if facts else None
    record.rewritten = rewritten
    return record


def subscription(place: int, topic: int = TOPIC, first_sequence: int = 1) -> SubscriptionRecord:
    return SubscriptionRecord(
        FIRST + place, topic, place, "c", f"s{place}", first_sequence=first_sequence
    )


def made() -> BrokerState:
    """
    A topic with its messages, of which one subscription has begun each chunk, and a queue.

    The other topic is not whole: only some messages and one subscription of three were met.
    """
    state = BrokerState(BrokerSettings())
    records: list[Record] = [TopicRecord(TOPIC, "t"), QueueRecord(QUEUE, "q")]
    records += [subscription(place) for place in range(SUBSCRIPTIONS)]
    records += [message(sequence) for sequence in range(1, MESSAGES + 1)]
    records += [message(sequence, QUEUE) for sequence in range(1, 1001)]
    every = list(range(1, MESSAGES, 300))
    records.append(SubscriptionAcknowledgeRecord(FIRST + 1, every, TOPIC))
    skips = bitmap_of([0])
    records += [message(sequence, LATE_TOPIC, skips=skips) for sequence in range(600, 1100)]
    records.append(subscription(90, LATE_TOPIC))
    state.apply(1, records, 1)
    return state


WEIGHTS: dict[str, tuple[Record, int]] = {
    "a plain message": (message(MESSAGES + 1), 0),
    "who does not get it": (message(MESSAGES + 1, skips=bitmap_of([0, 7, 19])), 9),
    "further places": (message(2000, QUEUE, places=(Place(5, 1), Place(6, 1))), 16),
    "it expires, on a queue": (message(2000, QUEUE, attributes=Attributes(expires_ms=9)), 0),
    "it expires, for each of a topic": (
        message(MESSAGES + 1, attributes=Attributes(expires_ms=9)),
        SUBSCRIPTIONS // 2,
    ),
    "a copy, all known": (message(5, rewritten=True), 0),
    "a copy that comes late": (message(5, LATE_TOPIC, rewritten=True), 2),
    "acknowledged": (AcknowledgeRecord(QUEUE, [1, 2, 3]), 3),
    "dead letters": (DeadLetterRecord(QUEUE, [1, 2, 3]), 3),
    "acknowledged by a subscription": (SubscriptionAcknowledgeRecord(FIRST, [1, 2], TOPIC), 6),
    "acknowledged by one not met yet": (SubscriptionAcknowledgeRecord(77, [1, 2], LATE_TOPIC), 22),
    "acknowledged by one that ended": (SubscriptionAcknowledgeRecord(77, [1, 2], TOPIC), 6),
    "came back": (ReturnedRecord(QUEUE, ReturnCause.LOST, [1, 2]), 16),
    "came back to one not met yet": (
        ReturnedRecord(77, ReturnCause.LOST, [1], 0, LATE_TOPIC),
        24,
    ),
    "counted": (CountedRecord(FIRST, TOPIC, [1, 2, 3], attempts=2), 12),
    "moved to a queue": (MoveRecord(FIRST, QUEUE, Cause.MOVED, [Run(1, 1001, 9)]), 72),
    "moved to a topic": (
        MoveRecord(QUEUE, TOPIC, Cause.FIRED, [Run(1, MESSAGES + 1, 2)]),
        16 + SUBSCRIPTIONS,
    ),
    "a queue's purge": (PurgeRecord(QUEUE, 1000), 0),
    "a queue's purge of some": (PurgeRecord(QUEUE, 900), 5 * 512 + 2),
    # The chunk in which it begins is looked through, too.
    "a purge of chunks": (PurgeRecord(FIRST, CHUNKS * 512 - 1, TOPIC), 512 + 3 * 10 + 10 + 300),
    "a purge of begun chunks": (PurgeRecord(FIRST + 1, 1023, TOPIC), 2 * 512 + 10 + 3 * 512),
    "a purge of one not met yet": (PurgeRecord(77, 9, LATE_TOPIC), 2 * 16),
    "a queue's end": (DeleteQueueRecord(QUEUE), 0),
    "a subscription's end": (DeleteQueueRecord(FIRST, TOPIC), 512 + 3 * 10 + 10 + 300),
    "a topic's end": (DeleteQueueRecord(TOPIC), SUBSCRIPTIONS),
    "the end of one not met yet": (DeleteQueueRecord(77, LATE_TOPIC), 2 * 150),
    "one more, beside what is there": (subscription(50, first_sequence=MESSAGES + 1), 0),
    "one said again": (subscription(1), 0),
    "one of those not met yet": (subscription(91, LATE_TOPIC), 2 * 8 + 3 * 500),
    "a topic said again": (TopicRecord(TOPIC, "t"), 0),
    "a topic that may be whole now": (TopicRecord(LATE_TOPIC, "u", 1100, 1), 2 * 150),
}


@pytest.mark.parametrize("name", WEIGHTS)
def test_a_record_weighs_what_it_touches(name: str) -> None:
    """
    One acknowledgement counts for one.
    """
    record, weight = WEIGHTS[name]
    state = made()
    assert weight_of(record, state.queues) == weight
    state.apply(100_000, [record], 2)  # It is one that can be applied.


def test_every_kind_of_record_is_thought_of() -> None:
    """
    What weighs more than its size is in the table; of all others it is said that they do not.
    """
    weighed = {type(record) for record, weight in WEIGHTS.values() if weight}
    assert weighed | AS_A_MESSAGE == set(get_args(Record))
    assert not weighed & AS_A_MESSAGE


def test_a_new_subscription_of_a_large_topic_looks_through_its_chunks() -> None:
    """
    A hundred thousand messages in chunks of their own, one each.
    """
    state = BrokerState(BrokerSettings())
    far = [message(number * 512) for number in range(1, 1001)]
    state.apply(1, [TopicRecord(TOPIC, "t"), subscription(0), *far], 1)
    assert weight_of(subscription(1, first_sequence=1 << 20), state.queues) == 1000 // 8


def test_plain_messages_are_not_asked() -> None:
    """
    A sum is of all others.
    """
    asked: list[int] = []

    class Queues(dict):
        def get(self, number: int, default: object = None) -> object:
            asked.append(number)
            return default

    plain: list[Record] = [message(number) for number in range(500)]
    assert weight_of_all(plain, Queues()) == 0
    assert not asked
    both = [*plain, SubscriptionAcknowledgeRecord(9, [1], TOPIC), AcknowledgeRecord(1, [5, 6])]
    assert weight_of_all(both, Queues()) == 5
    assert asked

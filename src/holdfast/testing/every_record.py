"""
A record of each kind, and how to compare what a store gives back with it: field by field.

Invariants:
    Every kind of record is there, and every fact that a message may have.
"""

from __future__ import annotations

from typing import Final

from holdfast.model.access_records import AuditRecord, GrantRecord, UserRecord
from holdfast.model.facts import (
    Attributes,
    BodyKind,
    Cause,
    Encoding,
    Form,
    Hops,
    MessageFacts,
    Origin,
    Place,
)
from holdfast.model.owners import Owner
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
    HoldLoss,
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

QUEUE: Final = 7
"""The number of the queue that these records speak of."""


def one_of_each() -> list[Record]:
    """Make a record of each kind, none of whose fields has the value that it has by itself."""
    sent = MessageRecord(QUEUE, 5, b"a:b\n", b"\x00body\xff", 10, "producer", 9)
    copy = MessageRecord(QUEUE, 4, b"", b"copy", 4)
    copy.rewritten, copy.redelivery_count, copy.stored_at = True, 3, 1_700_000_000_000_000
    copy.facts = MessageFacts(
        attributes=Attributes(1_800_000_000_000, 0xCAFE, 7, 2),
        due_ms=1_750_000_000_000,
        places=(Place(8, 80), Place(9, 90)),
        skips=b"\x05\x80",
        form=Form(Encoding.AMQP, BodyKind.MAP),
        hops=Hops((0xABCDEF01, 1), Place(3, 33)),
        origin=Origin(Cause.REJECTED, "or:d\u00e9rs", "ID:abcdef01-1-7"),
    )
    hold_times = {"expiry_seconds": 60, "renewed_at": 1_700_000_000_000_001}
    return [
        FormatRecord(4),
        CountersRecord(12),
        QueueRecord(QUEUE, "orders", 3, 2),
        sent,
        copy,
        AcknowledgeRecord(QUEUE, [1, 2, 4]),
        DeadLetterRecord(QUEUE, [5, 1 << 40]),
        DispatchMarkRecord(QUEUE, 1_000),
        DispatchMarkRecord(QUEUE, 1 << 41, (1 << 40) + 1),
        ReturnedRecord(QUEUE, ReturnCause.LOST, [5, 6, 4, 1 << 40], 1_750_000_000_000),
        PurgeRecord(QUEUE, 6),
        ProducerRecord("other", 77, 1_700_000_000_000_002),
        ForgetProducerRecord("producer"),
        HoldRecord("plain", 3, 1 << 40),
        HoldRecord("timed", 4, 1 << 41, 2, loss=HoldLoss.SPACE, **hold_times),
        PolicyRecord("queue://or:d\u00e9rs.>", '{"queuePrefetch":7}', 3),
        MoveRecord(
            QUEUE,
            8,
            Cause.REJECTED,
            [Run(1 << 40, 81, 1), Run(7, 82, 2)],
            queue_name="or:d\u00e9rs",
            reason="no \u20ac",
            moved_at=1_750_000_000_001,
            is_copy=True,
            clears_expiry=True,
            expires_ms=1_750_000_000_002,
        ),
        FiredRecord(QUEUE, 1 << 40, 1_750_000_000_003, 999),
        CleanedRecord(1),
        DeleteQueueRecord(QUEUE),
        *_of_topics(),
        UserRecord("zo\u00eb", '{"roles":["s\u00e4les"]}', 1_700_000_000_000_004),
        GrantRecord("s\u00e4les", "queue://or:d\u00e9rs.>", 5),
        AuditRecord(1_700_000_000_005, "zo\u00eb", "::1", "grant", "s\u00e4les", "done"),
    ]


def _of_topics() -> list[Record]:
    """What is said of a stored topic, of a subscription, and of its messages."""
    topic, number = 12, 13
    returned = ReturnedRecord(number, ReturnCause.REJECTED, [7], 5, topic)
    return [
        TopicRecord(topic, "prïces", 9, 4),
        SubscriptionRecord(
            *(number, topic, 300, "cliënt", "nâme"),
            selector="a = 'é'",
            has_no_local=True,
            first_sequence=5,
            dispatch_mark=8,
            detached_at=1_700_000_000_000,
            owner=Owner("ännchen", 1_700_000_000_002),
        ),
        SubscriptionAcknowledgeRecord(number, [5, 7], topic),
        returned,
        CountedRecord(number, topic, [7, 8], attempts=3, failures=2, due_ms=1_750_000_000_000),
        MoveRecord(number, QUEUE, Cause.REJECTED, [Run(9, 1, 1)], topic_number=topic),
        PurgeRecord(number, 6, topic),
        DetachedRecord(number, 1_700_000_000_001),
        DeleteQueueRecord(number, topic),
    ]


def told_by(record: Record) -> tuple[str, dict[str, object]]:
    """Give all that a record says, to be compared."""
    values = {name: getattr(record, name) for name in type(record).__slots__}
    for name, value in values.items():
        if name in {"headers", "body"} and value is not None:
            values[name] = bytes(value)
        elif name == "sequences":
            values[name] = list(value)
    return type(record).__name__, values

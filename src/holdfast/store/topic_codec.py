"""
What the records of stored topics and durable subscriptions have behind their heads.

Layout of a topic: number (u32), next sequence (u64), how many subscriptions there are (u32), name.
Of a subscription: number and topic (u32 each), slot (u16), flags (u8: 1 wants nothing of its own
client's), first sequence, mark, detached at in milliseconds (u64 each), lengths of client-id and
name (u16 each), client-id, name, selector. Of who is detached: number (u32), when (u64). Of what
was counted: subscription and topic (u32 each), attempts and failures (u8 each), due in milliseconds
(u64), runs. What is said of a subscription's messages by a queue's record has the number of the
topic (u32) in front.

Invariants:
    decode(encode(record)) gives the same record.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final, cast

from holdfast.model.owners import NOBODY, OWNER, Owner, owner_bytes
from holdfast.model.records import (
    AcknowledgeRecord,
    DeleteQueueRecord,
    MoveRecord,
    PurgeRecord,
    Record,
    ReturnedRecord,
    SubscriptionAcknowledgeRecord,
)
from holdfast.model.topic_records import (
    CountedRecord,
    DetachedRecord,
    SubscriptionRecord,
    TopicRecord,
)
from holdfast.store.runs import decode_runs, encode_runs

FLAG_OF_TOPIC: Final = 1
"""Of what is said of messages: a subscription's, and the number of its topic stands first."""

_TOPIC_NUMBER: Final = struct.Struct("<I")
_TOPIC: Final = struct.Struct("<IQI")
_SUBSCRIPTION: Final = struct.Struct("<IIHBQQQHH")
_DETACHED: Final = struct.Struct("<IQ")
_COUNTED: Final = struct.Struct("<IIBBQ")
_COUNTED_MAX: Final = 65_536
"""So many messages one record counts at most."""
_NO_LOCAL: Final = 1
_OWNED: Final = 2

OfQueue = (
    SubscriptionAcknowledgeRecord | PurgeRecord | DeleteQueueRecord | ReturnedRecord | MoveRecord
)


def topic_of(record: OfQueue) -> tuple[int, bytes]:
    """Give the flags of what is said of a queue's messages, and what stands before it."""
    number = record.topic_number
    return (FLAG_OF_TOPIC, _TOPIC_NUMBER.pack(number)) if number else (0, b"")


def encode_topic(record: TopicRecord) -> bytes:
    """Give the payload of its record."""
    state = (record.topic_number, record.next_sequence, record.subscription_count)
    return _TOPIC.pack(*state) + record.name.encode()


def decode_topic(payload: bytes) -> TopicRecord:
    """
    Give a topic by the payload of its record.

    Raises:
        struct.error, UnicodeDecodeError: It makes no sense.
    """
    number, following, count = _TOPIC.unpack_from(payload)
    return TopicRecord(number, payload[_TOPIC.size :].decode(), following, count)


def encode_subscription(record: SubscriptionRecord) -> bytes:
    """Give the payload of its record."""
    client_id, name = record.client_id.encode(), record.name.encode()
    state = _SUBSCRIPTION.pack(
        record.number,
        record.topic_number,
        record.slot,
        record.has_no_local * _NO_LOCAL | bool(record.owner.name) * _OWNED,
        record.first_sequence,
        record.dispatch_mark,
        record.detached_at,
        len(client_id),
        len(name),
    )
    owner = owner_bytes(record.owner)
    return b"".join((state, client_id, name, owner, record.selector.encode()))


def decode_subscription(payload: bytes) -> SubscriptionRecord:
    """
    Give a subscription by the payload of its record.

    Raises:
        ValueError, struct.error, UnicodeDecodeError: It makes no sense.
    """
    fields = _SUBSCRIPTION.unpack_from(payload)
    number, topic_number, slot, what, first, mark, detached_at, client_length, length = fields
    name_start = _SUBSCRIPTION.size + client_length
    end = name_start + length
    if end > len(payload):
        raise ValueError("its names are cut off")
    if what & ~(_NO_LOCAL | _OWNED):
        raise ValueError(f"it has flags {what:#04x}, which are not known")
    owner, selector_start = NOBODY, end
    if what & _OWNED:
        life, owner_length = OWNER.unpack_from(payload, end)
        owner_start = end + OWNER.size
        selector_start = owner_start + owner_length
        if not owner_length or selector_start > len(payload):
            raise ValueError("the name of whose it is is cut off")
        owner = Owner(payload[owner_start:selector_start].decode(), life)
    return SubscriptionRecord(
        number,
        topic_number,
        slot,
        payload[_SUBSCRIPTION.size : name_start].decode(),
        payload[name_start:end].decode(),
        selector=payload[selector_start:].decode(),
        has_no_local=bool(what & _NO_LOCAL),
        first_sequence=first,
        dispatch_mark=mark,
        detached_at=detached_at,
        owner=owner,
    )


def encode_detached(record: DetachedRecord) -> bytes:
    """Give the payload of its record."""
    return _DETACHED.pack(record.number, record.at_ms)


def decode_detached(payload: bytes) -> DetachedRecord:
    """
    Give who is detached by the payload of its record.

    Raises:
        struct.error: It makes no sense.
    """
    return DetachedRecord(*_DETACHED.unpack(payload))


def encode_counted(record: CountedRecord) -> bytes:
    """Give the payload of its record."""
    numbers = (record.queue_number, record.topic_number)
    counts = (record.attempts, record.failures, record.due_ms)
    return _COUNTED.pack(*numbers, *counts) + encode_runs(record.sequences)


def decode_counted(payload: bytes) -> CountedRecord:
    """
    Give what was counted by the payload of its record.

    Raises:
        ValueError, struct.error: It makes no sense.
    """
    number, topic_number, attempts, failures, due_ms = _COUNTED.unpack_from(payload)
    sequences = decode_runs(payload[_COUNTED.size :], _COUNTED_MAX)
    counts = {"attempts": attempts, "failures": failures, "due_ms": due_ms}
    return CountedRecord(number, topic_number, sequences, **counts)


def decode_of_topic(decoder: Callable[[bytes], Any], payload: bytes) -> Record:
    """Give a record that names its topic first."""
    (topic_number,) = _TOPIC_NUMBER.unpack_from(payload)
    record: Any = decoder(payload[_TOPIC_NUMBER.size :])
    if type(record) is AcknowledgeRecord:
        return SubscriptionAcknowledgeRecord(record.queue_number, record.sequences, topic_number)
    record.topic_number = topic_number
    return cast("Record", record)

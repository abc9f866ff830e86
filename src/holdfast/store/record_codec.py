"""
Records to bytes and back: what stands inside the body of a log entry.

A record is framed by the journal (type, flags, length); here is what the payload of each type looks
like. The broker and the offline tools read the log through this one module. All integers are little
endian. The format is described in docs/reference/journal-format.md.

Invariants:
    decode(encode(records)) gives the same records, field by field.
    A type or flag that is not known is an error, never skipped: skipping could lose a message.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final

from holdfast.errors import CorruptRecordError
from holdfast.journal.record import RECORD_HEADER, iterate_records
from holdfast.model.records import (
    CLEANED_TYPE,
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
    SubscriptionAcknowledgeRecord,
)
from holdfast.model.topic_records import (
    CountedRecord,
    DetachedRecord,
    SubscriptionRecord,
    TopicRecord,
)
from holdfast.store import access_codec, topic_codec
from holdfast.store.fact_blocks import FACT_FLAGS, decode_facts, encode_facts
from holdfast.store.hold_codec import FLAG_TIMED, decode_hold, decode_timed_hold, encode_hold
from holdfast.store.move_codec import decode_move, encode_move
from holdfast.store.policy_codec import decode_policy, encode_policy
from holdfast.store.runs import decode_runs, encode_runs
from holdfast.store.topic_codec import FLAG_OF_TOPIC, decode_of_topic, topic_of

MESSAGE: Final = 16
ACKNOWLEDGE: Final = 17
QUEUE: Final = 18
DISPATCH_MARK: Final = 19
PURGE: Final = 20
DELETE_QUEUE: Final = 21
PRODUCER: Final = 22
FORGET_PRODUCER: Final = 23
COUNTERS: Final = 24
CLEANED: Final = CLEANED_TYPE
DEAD_LETTER: Final = 26
HOLD: Final = 27
FORMAT: Final = 28
POLICY: Final = 29
RETURNED: Final = 30
MOVE: Final = 31
FIRED: Final = 32
TOPIC: Final = 33
SUBSCRIPTION: Final = 34
DETACHED: Final = 35
COUNTED: Final = 36

TYPE_NAMES: Final = {
    MESSAGE: "message",
    ACKNOWLEDGE: "acknowledge",
    QUEUE: "queue",
    DISPATCH_MARK: "dispatch-mark",
    PURGE: "purge",
    DELETE_QUEUE: "delete-queue",
    PRODUCER: "producer",
    FORGET_PRODUCER: "forget-producer",
    COUNTERS: "counters",
    CLEANED: "cleaned",
    DEAD_LETTER: "dead-letter",
    HOLD: "hold",
    FORMAT: "format",
    POLICY: "policy",
    RETURNED: "returned",
    MOVE: "move",
    FIRED: "fired",
    TOPIC: "topic",
    SUBSCRIPTION: "subscription",
    DETACHED: "detached",
    COUNTED: "counted",
    **access_codec.NAMES,
}

FLAG_REWRITTEN: Final = 1
FLAG_PRODUCER: Final = 2
FLAG_FROM: Final = 1
"""Of a dispatch mark: it says where it begins."""
PLAIN_FLAGS: Final = FLAG_REWRITTEN | FLAG_PRODUCER
"""Those of a message without facts."""
MESSAGE_FLAGS: Final = PLAIN_FLAGS | FACT_FLAGS
"""All that a message may have."""

_MESSAGE_PAYLOAD = struct.Struct("<IQHHIQ")
"""queue number, sequence, redelivery count, producer id length, headers length, stored at."""
_MESSAGE_WHOLE = struct.Struct("<BHBIIQHHIQ")
"""The record header and the message payload in one: one call on the hot path."""
_SEQUENCE = struct.Struct("<Q")
_PRODUCER_STATE = struct.Struct("<QQ")
_QUEUE_STATE = struct.Struct("<IQQ")
_NUMBER_AND_SEQUENCE = struct.Struct("<IQ")
_RETURNED_STATE = struct.Struct("<IBQ")
"""queue number, why, when they are due; runs of sequences follow."""
_FIRED_STATE = struct.Struct("<IQQH")
"""queue number, sequence, when it is due again, how often after that."""
_NUMBER_AND_RANGE = struct.Struct("<IQQ")
"""queue number, last and first sequence."""
_NUMBER = struct.Struct("<I")

SEQUENCES_MAX: Final = 65_536
"""So many messages are in one record of those that are told by runs."""


def encode_records(records: list[Record]) -> list[bytes]:
    """
    Give the parts which, joined, are the body of an entry with these records.

    Bodies and headers are handed through, not copied: the join that seals the entry copies once.
    """
    parts: list[bytes] = []
    append = parts.append
    pack = _MESSAGE_WHOLE.pack
    payload_size = _MESSAGE_PAYLOAD.size
    for record in records:
        if (
            type(record) is MessageRecord
            and record.producer_id is None
            and record.facts is None
            and not record.rewritten
        ):
            headers = record.headers
            assert headers is not None and record.body is not None
            append(
                pack(
                    MESSAGE,
                    0,
                    0,
                    payload_size + record.size,
                    record.queue_number,
                    record.sequence,
                    0,
                    0,
                    len(headers),
                    record.stored_at,
                )
            )
            append(headers)
            append(record.body)
        else:
            _ENCODERS[type(record)](record, append)
    return parts


def decode_records(body: memoryview | bytes, *, with_content: bool = True) -> Iterator[Record]:
    """
    Give the records of an entry's body in order.

    Args:
        with_content: False leaves headers and body of messages out (None), which is what a
            follower needs to keep its index.

    Raises:
        CorruptRecordError: A record makes no sense; the sentence says which and why.
    """
    for kind, flags, start, end in iterate_records(body):
        if kind == MESSAGE:
            yield _decode_message(body, flags, start, end, with_content=with_content)
            continue
        decoder = _DECODERS.get(kind)
        if decoder is None:
            raise CorruptRecordError(
                f"record of unknown type {kind} at byte {start:,} of its entry"
            )
        if flags == FLAG_TIMED and kind == HOLD:
            decoder = decode_timed_hold
        elif flags == FLAG_FROM and kind == DISPATCH_MARK:
            decoder = _decode_dispatch_mark_from
        elif flags == FLAG_OF_TOPIC and kind in OF_TOPIC:
            decoder = partial(decode_of_topic, decoder)
        elif flags:
            raise _unknown_flags(TYPE_NAMES[kind], flags, start)
        try:
            yield decoder(bytes(body[start:end]))
        except (struct.error, UnicodeDecodeError, ValueError) as error:
            raise CorruptRecordError(
                f"{TYPE_NAMES[kind]} record at byte {start:,} of its entry: {error}"
            ) from error


def decode_message(body: memoryview | bytes, flags: int, start: int, end: int) -> MessageRecord:
    """Give the one message record whose payload stands at `start` to `end`, with its content."""
    return _decode_message(body, flags, start, end, with_content=True)


def _decode_message(
    body: memoryview | bytes, flags: int, start: int, end: int, *, with_content: bool
) -> MessageRecord:
    fixed = start + _MESSAGE_PAYLOAD.size
    if fixed > end:
        raise _cut_off(start)
    number, sequence, redeliveries, id_length, headers_length, stored_at = (
        _MESSAGE_PAYLOAD.unpack_from(body, start)
    )
    producer_id, producer_sequence, facts = None, 0, None
    if flags:  # Most have none: they take the straight way.
        if flags & ~MESSAGE_FLAGS:
            raise _unknown_flags(TYPE_NAMES[MESSAGE], flags & ~MESSAGE_FLAGS, start)
        try:
            if flags & FLAG_PRODUCER:
                producer_id, producer_sequence, fixed = _producer(body, fixed, id_length, end)
            if flags > PLAIN_FLAGS:
                facts, fixed = decode_facts(body, flags, fixed, end)
        except (struct.error, ValueError) as error:
            raise CorruptRecordError(
                f"message record at byte {start:,} of its entry: {error}"
            ) from error
    content = fixed + headers_length
    if content > end:
        raise _cut_off(start)
    record = MessageRecord(
        number,
        sequence,
        bytes(body[fixed:content]) if with_content else None,
        bytes(body[content:end]) if with_content else None,
        end - fixed,
        producer_id,
        producer_sequence,
    )
    record.stored_at = stored_at
    if flags:
        record.facts = facts
        if flags & FLAG_REWRITTEN:
            record.rewritten = True
            record.redelivery_count = redeliveries
    return record


def _producer(
    body: memoryview | bytes, start: int, id_length: int, end: int
) -> tuple[str, int, int]:
    """Give a producer's id and sequence, and the byte after them."""
    id_start = start + _SEQUENCE.size
    id_end = id_start + id_length
    if id_end > end:
        raise ValueError("its producer is cut off")
    (sequence,) = _SEQUENCE.unpack_from(body, start)
    return str(body[id_start:id_end], "utf-8"), sequence, id_end


def _cut_off(start: int) -> CorruptRecordError:
    return CorruptRecordError(f"message record at byte {start:,} of its entry is cut off")


def _unknown_flags(name: str, flags: int, start: int) -> CorruptRecordError:
    return CorruptRecordError(
        f"{name} record at byte {start:,} of its entry has flags {flags:#06x}, which are not known"
        f" to this version"
    )


_Append = Callable[[bytes], None]


def _encode_message(record: MessageRecord, append: _Append) -> None:
    assert record.headers is not None and record.body is not None
    flags = FLAG_REWRITTEN if record.rewritten else 0
    producer = b""
    tail = b""
    if record.producer_id is not None:
        flags |= FLAG_PRODUCER
        producer = record.producer_id.encode()
        tail = _SEQUENCE.pack(record.producer_sequence) + producer
    if record.facts is not None:
        bits, blocks = encode_facts(record.facts)
        flags |= bits
        tail += blocks
    append(
        _MESSAGE_WHOLE.pack(
            MESSAGE,
            flags,
            0,
            _MESSAGE_PAYLOAD.size + len(tail) + record.size,
            record.queue_number,
            record.sequence,
            record.redelivery_count,
            len(producer),
            len(record.headers),
            record.stored_at,
        )
    )
    if tail:
        append(tail)
    append(record.headers)
    append(record.body)


def _encode_acknowledge(record: AcknowledgeRecord | DeadLetterRecord, append: _Append) -> None:
    kind = ACKNOWLEDGE if type(record) is AcknowledgeRecord else DEAD_LETTER
    sequences = array("Q", record.sequences).tobytes()
    append(RECORD_HEADER.pack(kind, 0, 0, _NUMBER.size + len(sequences)))
    append(_NUMBER.pack(record.queue_number))
    append(sequences)


def _encode_subscription_acknowledge(
    record: SubscriptionAcknowledgeRecord, append: _Append
) -> None:
    sequences = array("Q", record.sequences).tobytes()
    payload = _NUMBER.pack(record.queue_number) + sequences
    _framed(ACKNOWLEDGE, payload, append, *topic_of(record))


def _encode_hold(record: HoldRecord, append: _Append) -> None:
    flags, payload = encode_hold(record)
    append(RECORD_HEADER.pack(HOLD, flags, 0, len(payload)))
    append(payload)


def _encode_queue(record: QueueRecord, append: _Append) -> None:
    state = _QUEUE_STATE.pack(record.queue_number, record.next_sequence, record.dispatch_mark)
    _framed(QUEUE, state + record.name.encode(), append)


def _encode_dispatch_mark(record: DispatchMarkRecord, append: _Append) -> None:
    payload = _NUMBER_AND_SEQUENCE.pack(record.queue_number, record.mark)
    if record.first:
        payload += _SEQUENCE.pack(record.first)
        append(RECORD_HEADER.pack(DISPATCH_MARK, FLAG_FROM, 0, len(payload)))
        append(payload)
        return
    _framed(DISPATCH_MARK, payload, append)


def _decode_dispatch_mark_from(payload: bytes) -> DispatchMarkRecord:
    return DispatchMarkRecord(*_NUMBER_AND_RANGE.unpack(payload))


def _encode_purge(record: PurgeRecord, append: _Append) -> None:
    payload = _NUMBER_AND_SEQUENCE.pack(record.queue_number, record.through_sequence)
    _framed(PURGE, payload, append, *topic_of(record))


def _encode_delete_queue(record: DeleteQueueRecord, append: _Append) -> None:
    _framed(DELETE_QUEUE, _NUMBER.pack(record.queue_number), append, *topic_of(record))


def _encode_producer(record: ProducerRecord, append: _Append) -> None:
    state = _PRODUCER_STATE.pack(record.sequence, record.used_at)
    _framed(PRODUCER, state + record.producer_id.encode(), append)


def _encode_forget_producer(record: ForgetProducerRecord, append: _Append) -> None:
    _framed(FORGET_PRODUCER, record.producer_id.encode(), append)


def _encode_counters(record: CountersRecord, append: _Append) -> None:
    _framed(COUNTERS, _NUMBER.pack(record.next_queue_number), append)


def _encode_cleaned(record: CleanedRecord, append: _Append) -> None:
    _framed(CLEANED, _SEQUENCE.pack(record.through_index), append)


def _encode_format(record: FormatRecord, append: _Append) -> None:
    _framed(FORMAT, _NUMBER.pack(record.level), append)


def _encode_policy(record: PolicyRecord, append: _Append) -> None:
    _framed(POLICY, encode_policy(record), append)


def _encode_returned(record: ReturnedRecord, append: _Append) -> None:
    state = _RETURNED_STATE.pack(record.queue_number, record.cause, record.due_ms)
    _framed(RETURNED, state + encode_runs(record.sequences), append, *topic_of(record))


def _encode_move(record: MoveRecord, append: _Append) -> None:
    _framed(MOVE, encode_move(record), append, *topic_of(record))


def _encode_fired(record: FiredRecord, append: _Append) -> None:
    state = (record.queue_number, record.sequence, record.due_ms, record.repeats)
    _framed(FIRED, _FIRED_STATE.pack(*state), append)


def _as(kind: int, encode: Callable[[Any], bytes]) -> Callable[[Any, _Append], None]:
    return lambda record, append: _framed(kind, encode(record), append)


def _framed(
    kind: int, payload: bytes, append: _Append, flags: int = 0, before: bytes = b""
) -> None:
    append(RECORD_HEADER.pack(kind, flags, 0, len(before) + len(payload)))
    append(before + payload)


_ENCODERS: Final[dict[type, Callable[..., None]]] = {
    MessageRecord: _encode_message,
    AcknowledgeRecord: _encode_acknowledge,
    SubscriptionAcknowledgeRecord: _encode_subscription_acknowledge,
    QueueRecord: _encode_queue,
    DispatchMarkRecord: _encode_dispatch_mark,
    PurgeRecord: _encode_purge,
    DeleteQueueRecord: _encode_delete_queue,
    ProducerRecord: _encode_producer,
    ForgetProducerRecord: _encode_forget_producer,
    CountersRecord: _encode_counters,
    CleanedRecord: _encode_cleaned,
    DeadLetterRecord: _encode_acknowledge,
    HoldRecord: _encode_hold,
    FormatRecord: _encode_format,
    PolicyRecord: _encode_policy,
    ReturnedRecord: _encode_returned,
    MoveRecord: _encode_move,
    FiredRecord: _encode_fired,
    TopicRecord: _as(TOPIC, topic_codec.encode_topic),
    SubscriptionRecord: _as(SUBSCRIPTION, topic_codec.encode_subscription),
    DetachedRecord: _as(DETACHED, topic_codec.encode_detached),
    CountedRecord: _as(COUNTED, topic_codec.encode_counted),
    **{of: _as(kind, encode) for of, (kind, encode) in access_codec.ENCODERS.items()},
}


def _decode_acknowledge(payload: bytes) -> AcknowledgeRecord:
    sequences = array("Q")
    sequences.frombytes(payload[_NUMBER.size :])
    return AcknowledgeRecord(_NUMBER.unpack_from(payload)[0], sequences.tolist())


def _decode_dead_letter(payload: bytes) -> DeadLetterRecord:
    settled = _decode_acknowledge(payload)
    return DeadLetterRecord(settled.queue_number, settled.sequences)


def _decode_queue(payload: bytes) -> QueueRecord:
    number, next_sequence, mark = _QUEUE_STATE.unpack_from(payload)
    return QueueRecord(number, payload[_QUEUE_STATE.size :].decode(), next_sequence, mark)


def _decode_producer(payload: bytes) -> ProducerRecord:
    sequence, used_at = _PRODUCER_STATE.unpack_from(payload)
    return ProducerRecord(payload[_PRODUCER_STATE.size :].decode(), sequence, used_at)


def _decode_returned(payload: bytes) -> ReturnedRecord:
    number, cause, due_ms = _RETURNED_STATE.unpack_from(payload)
    sequences = decode_runs(payload[_RETURNED_STATE.size :], SEQUENCES_MAX)
    return ReturnedRecord(number, ReturnCause(cause), sequences, due_ms)


_DECODERS: Final[dict[int, Callable[[bytes], Record]]] = {
    ACKNOWLEDGE: _decode_acknowledge,
    QUEUE: _decode_queue,
    DISPATCH_MARK: lambda payload: DispatchMarkRecord(*_NUMBER_AND_SEQUENCE.unpack(payload)),
    PURGE: lambda payload: PurgeRecord(*_NUMBER_AND_SEQUENCE.unpack(payload)),
    DELETE_QUEUE: lambda payload: DeleteQueueRecord(_NUMBER.unpack(payload)[0]),
    PRODUCER: _decode_producer,
    FORGET_PRODUCER: lambda payload: ForgetProducerRecord(payload.decode()),
    COUNTERS: lambda payload: CountersRecord(_NUMBER.unpack(payload)[0]),
    CLEANED: lambda payload: CleanedRecord(_SEQUENCE.unpack(payload)[0]),
    DEAD_LETTER: _decode_dead_letter,
    HOLD: decode_hold,
    FORMAT: lambda payload: FormatRecord(_NUMBER.unpack(payload)[0]),
    POLICY: decode_policy,
    RETURNED: _decode_returned,
    MOVE: decode_move,
    FIRED: lambda payload: FiredRecord(*_FIRED_STATE.unpack(payload)),
    TOPIC: topic_codec.decode_topic,
    SUBSCRIPTION: topic_codec.decode_subscription,
    DETACHED: topic_codec.decode_detached,
    COUNTED: topic_codec.decode_counted,
    **access_codec.DECODERS,
}

OF_TOPIC: Final = {ACKNOWLEDGE, PURGE, DELETE_QUEUE, RETURNED, MOVE}
"""What may speak of a subscription's messages."""

"""
Records as bytes: golden bytes of each kind, and what is refused. Round trips are in tests/property.
"""

from __future__ import annotations

import struct

import pytest

from holdfast.errors import CorruptRecordError
from holdfast.journal.record import RECORD_HEADER
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
from holdfast.store import access_codec
from holdfast.store.record_codec import (
    FLAG_PRODUCER,
    MESSAGE,
    TYPE_NAMES,
    decode_message,
    decode_records,
    encode_records,
)


def produced() -> MessageRecord:
    record = MessageRecord(7, 9, b"a:b\n", b"body", 8, "p\u00e9", 5)
    record.stored_at = 77
    return record


def rewritten() -> MessageRecord:
    record = produced()
    record.rewritten = True
    record.redelivery_count = 3
    return record


def u32(value: int) -> bytes:
    return value.to_bytes(4, "little")


def u64(value: int) -> bytes:
    return value.to_bytes(8, "little")


def known_of() -> MessageRecord:
    record = produced()
    record.facts = MessageFacts(
        attributes=Attributes(1, 2, 3, 4),
        due_ms=5,
        places=(Place(6, 7), Place(8, 9)),
        skips=b"\x05",
        form=Form(Encoding.AMQP, BodyKind.MAP),
        hops=Hops((10, 11), Place(12, 13)),
        origin=Origin(Cause.REJECTED, "q\u00e9", "ID"),
    )
    return record


FACT_BYTES = (
    *(u64(1), u32(2), b"\x03\x04\0\0"),
    u64(5),
    *(b"\x02\0", u32(6), u64(7), u32(8), u64(9)),
    b"\x01\0\x05",
    b"\x23",
    *(b"\x02", u32(10), u32(11), u32(12), u64(13)),
    b"\x01\x03\0\x02\0q\xc3\xa9ID",
)


GOLDEN = [
    (
        MessageRecord(7, 9, b"a:b\n", b"body", 8),
        (16, 0, u32(7) + u64(9) + b"\0\0\0\0" + u32(4) + u64(0) + b"a:b\nbody"),
    ),
    (
        produced(),
        (
            *(16, 2),
            u32(7) + u64(9) + b"\0\0\x03\0" + u32(4) + u64(77) + u64(5) + b"p\xc3\xa9a:b\nbody",
        ),
    ),
    (
        rewritten(),
        (
            *(16, 3),
            u32(7) + u64(9) + b"\x03\0\x03\0" + u32(4) + u64(77) + u64(5) + b"p\xc3\xa9a:b\nbody",
        ),
    ),
    (
        known_of(),
        (
            *(16, 0x1FE),
            u32(7)
            + u64(9)
            + b"\0\0\x03\0"
            + u32(4)
            + u64(77)
            + u64(5)
            + b"p\xc3\xa9"
            + b"".join(FACT_BYTES)
            + b"a:b\nbody",
        ),
    ),
    (AcknowledgeRecord(7, [1, 9]), (17, 0, u32(7) + u64(1) + u64(9))),
    (QueueRecord(7, "n\u00e9", 8, 9), (18, 0, u32(7) + u64(8) + u64(9) + b"n\xc3\xa9")),
    (DispatchMarkRecord(7, 9), (19, 0, u32(7) + u64(9))),
    (PurgeRecord(7, 9), (20, 0, u32(7) + u64(9))),
    (DeleteQueueRecord(7), (21, 0, u32(7))),
    (ProducerRecord("p", 5, 6), (22, 0, u64(5) + u64(6) + b"p")),
    (ForgetProducerRecord("p"), (23, 0, b"p")),
    (CountersRecord(7), (24, 0, u32(7))),
    (CleanedRecord(9), (25, 0, u64(9))),
    (DeadLetterRecord(7, [3]), (26, 0, u32(7) + u64(3))),
    (HoldRecord("a", 1, 2, 3), (27, 0, u64(1) + u64(2) + u64(3) + b"a")),
    (
        HoldRecord("a", 1, 2, 3, expiry_seconds=4, renewed_at=5, loss=HoldLoss.SPACE),
        (27, 1, u64(1) + u64(2) + u64(3) + u32(4) + b"\x02" + u64(5) + b"a"),
    ),
    (FormatRecord(2), (28, 0, u32(2))),
    (
        PolicyRecord("queue://\u00e9", '{"queuePrefetch":7}', 3),
        (29, 0, u64(3) + b"\x0a\0" + b"queue://\xc3\xa9" + b'{"queuePrefetch":7}'),
    ),
    (
        ReturnedRecord(7, ReturnCause.LOST, [4, 5, 9], 6),
        (30, 0, u32(7) + b"\x04" + u64(6) + u64(4) + u32(2) + u64(9) + u32(1)),
    ),
    (
        MoveRecord(7, 8, Cause.RETRIED, [Run(5, 9, 2), Run(11, 11, 1)], queue_name="q"),
        (
            *(31, 0),
            u32(7)
            + u32(8)
            + b"\4\0"
            + u64(0)
            + b"\1\0\0\0q"
            + u64(5)
            + u64(9)
            + u32(2)
            + u64(11)
            + u64(11)
            + u32(1),
        ),
    ),
    (SubscriptionAcknowledgeRecord(7, [1], 9), (17, 1, u32(9) + u32(7) + u64(1))),
    (PurgeRecord(7, 3, 9), (20, 1, u32(9) + u32(7) + u64(3))),
    (DeleteQueueRecord(7, 9), (21, 1, u32(9) + u32(7))),
    (
        ReturnedRecord(7, ReturnCause.LOST, [4], 6, 9),
        (30, 1, u32(9) + u32(7) + b"\x04" + u64(6) + u64(4) + u32(1)),
    ),
    (
        MoveRecord(7, 8, Cause.RETRIED, [Run(5, 9, 2)], topic_number=9),
        (31, 1, u32(9) + u32(7) + u32(8) + b"\4\0" + u64(0) + bytes(4) + u64(5) + u64(9) + u32(2)),
    ),
    (TopicRecord(7, "n\u00e9", 8, 3), (33, 0, u32(7) + u64(8) + u32(3) + b"n\xc3\xa9")),
    (
        SubscriptionRecord(
            *(7, 9, 513, "c", "n\u00e9"),
            selector="a",
            has_no_local=True,
            first_sequence=4,
            dispatch_mark=5,
            detached_at=6,
        ),
        (
            *(34, 0),
            u32(7) + u32(9) + b"\x01\x02\x01" + u64(4) + u64(5) + u64(6) + b"\1\0\3\0cn\xc3\xa9a",
        ),
    ),
    (
        SubscriptionRecord(7, 9, 1, "c", "n", selector="a", owner=Owner("\u00e9", 6)),
        (
            *(34, 0),
            u32(7) + u32(9) + b"\1\0\2" + u64(1) + 2 * u64(0) + b"\1\0\1\0cn"
            b"" + u64(6) + b"\2\0\xc3\xa9a",
        ),
    ),
    (DetachedRecord(7, 9), (35, 0, u32(7) + u64(9))),
    (
        CountedRecord(7, 9, [4, 5], attempts=3, failures=2, due_ms=6),
        (36, 0, u32(7) + u32(9) + b"\3\2" + u64(6) + u64(4) + u32(2)),
    ),
    (
        MoveRecord(*(7, 8, Cause.EXPIRED, [Run(5, 9, 1)]), clears_expiry=True, expires_ms=1_000),
        (
            *(31, 0),
            u32(7) + u32(8) + b"\10\6" + u64(0) + bytes(4) + u64(1_000) + u64(5) + u64(9) + u32(1),
        ),
    ),
    (
        MoveRecord(
            *(7, 0, Cause.REMOVED, [Run(5, 0, 1)]),
            reason="\u00e9",
            moved_at=6,
            is_copy=True,
            clears_expiry=True,
        ),
        (
            *(31, 0),
            u32(7) + u32(0) + b"\5\3" + u64(6) + b"\0\0\2\0\xc3\xa9" + u64(5) + u64(0) + u32(1),
        ),
    ),
    (
        FiredRecord(7, 5, 1_000, 0xFFFF),
        (*(32, 0), u32(7) + u64(5) + u64(1_000) + b"\xff\xff"),
    ),
]


MOVE_HEAD = u32(7) + u32(8) + b"\2\0" + u64(0) + bytes(4)


def fields(record: object) -> dict[str, object]:
    return {name: getattr(record, name) for name in type(record).__slots__}  # type: ignore[attr-defined]


def framed(kind: int, flags: int, payload: bytes) -> bytes:
    return RECORD_HEADER.pack(kind, flags, 0, len(payload)) + payload


@pytest.mark.parametrize(("record", "expected"), GOLDEN, ids=lambda v: type(v).__name__)
def test_the_format_is_what_is_documented(record, expected) -> None:
    """
    These bytes are on disks and in archives: they may never change.
    """
    encoded = b"".join(encode_records([record]))
    assert encoded == framed(*expected)
    (decoded,) = decode_records(encoded)
    assert type(decoded) is type(record)
    assert fields(decoded) == fields(record)


def test_every_kind_has_its_golden_bytes() -> None:
    """
    A new kind needs a line above; those of users and grants stand in `test_access_codec`.
    """
    assert {kind for _, (kind, _, _) in GOLDEN} == set(TYPE_NAMES) - set(access_codec.NAMES)


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        (u64(3), "unpack"),
        (u64(3) + b"\x0b\0queue://q", "its pattern is cut off"),
        (u64(3) + b"\0\0{}", "it has no pattern"),
        (u64(0) + b"\0\0", "it has no pattern"),
        (u64(0) + b"\x03\0a.b[1]", "no object in JSON"),
        (u64(0) + b"\x03\0a.b{", "no object in JSON"),
        (u64(0) + b"\x03\0a.b" + b"[" * 100_000, "no object in JSON"),
    ],
)
def test_a_policy_that_makes_no_sense_is_told(payload, why) -> None:
    """
    Whoever reads a log must be able to count upon what stands in a policy.
    """
    with pytest.raises(CorruptRecordError, match=why):
        list(decode_records(framed(29, 0, payload)))


def test_bodies_are_handed_through() -> None:
    """
    The join that seals the entry is the only copy.
    """
    body = b"x" * 1000
    assert any(part is body for part in encode_records([MessageRecord(1, 1, b"", body, 1000)]))


def test_content_can_be_left_out() -> None:
    """
    A follower needs the index only; sizes stay right.
    """
    encoded = b"".join(encode_records([produced(), rewritten()]))
    for record in decode_records(memoryview(encoded), with_content=False):
        assert isinstance(record, MessageRecord)
        assert (record.headers, record.body, record.size) == (None, None, 8)
        assert (record.producer_id, record.producer_sequence) == ("p\u00e9", 5)


def test_one_message_can_be_read_by_its_place() -> None:
    """
    A body beyond the memory limit is read back so.
    """
    encoded = b"".join(encode_records([produced()]))
    record = decode_message(memoryview(encoded), FLAG_PRODUCER, RECORD_HEADER.size, len(encoded))
    assert fields(record) == fields(produced())


MESSAGE_FIXED = struct.Struct("<IQHHIQ")


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (framed(99, 0, b""), "unknown type 99"),
        (framed(0, 0, b""), "unknown type 0"),
        (framed(21, 2, u32(1)), "delete-queue record at byte 8 of its entry has flags 0x0002"),
        (framed(21, 1, u32(1)), "delete-queue record at byte 8 of its entry: unpack"),
        (framed(21, 1, b""), "delete-queue record at byte 8 of its entry: unpack"),
        (framed(26, 1, u32(1) * 4), "dead-letter record at byte 8 of its entry has flags 0x0001"),
        (framed(19, 2, u32(1) + u64(2)), "dispatch-mark record at byte 8 of its entry has flags"),
        (framed(30, 3, u32(1) * 9), "returned record at byte 8 of its entry has flags 0x0003"),
        (
            framed(MESSAGE, 0x200, MESSAGE_FIXED.pack(1, 1, 0, 0, 0, 0)),
            "message record at byte 8 of its entry has flags 0x0200",
        ),
        (framed(MESSAGE, 0x8003, MESSAGE_FIXED.pack(1, 1, 0, 0, 0, 0)), "has flags 0x8000"),
        (framed(MESSAGE, 0, b"short"), "cut off"),
        (framed(MESSAGE, 0, MESSAGE_FIXED.pack(1, 1, 0, 0, 9, 0)), "cut off"),
        (framed(MESSAGE, 2, MESSAGE_FIXED.pack(1, 1, 0, 0, 0, 0)), "cut off"),
        (framed(MESSAGE, 2, MESSAGE_FIXED.pack(1, 1, 0, 9, 0, 0) + u64(1) + b"p"), "cut off"),
        (framed(MESSAGE, 2, MESSAGE_FIXED.pack(1, 1, 0, 1, 0, 0) + u64(1) + b"\xff"), "utf-8"),
        (framed(17, 0, u32(1) + b"x"), "acknowledge record"),
        (framed(17, 0, b""), "acknowledge record"),
        (framed(18, 0, u32(1)), "queue record"),
        (framed(18, 0, bytes(20) + b"\xff"), "queue record"),
        (framed(21, 0, u32(1) + b"x"), "delete-queue record"),
        (framed(22, 0, u64(1)), "producer record"),
        (framed(23, 0, b"\xff"), "forget-producer record"),
        (framed(25, 0, b""), "cleaned record"),
        (framed(27, 0, b""), "hold record"),
        (framed(28, 0, b"\x02"), "format record"),
    ],
)
def test_nonsense_is_named(body, why) -> None:
    """
    Never skipped, never another exception: the sentence says which record and why.
    """
    with pytest.raises(CorruptRecordError, match=why):
        list(decode_records(body))
    with pytest.raises(CorruptRecordError, match=why):
        list(decode_records(memoryview(body + framed(21, 0, u32(1))), with_content=False))


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        (MOVE_HEAD[:-1], "unpack"),
        (MOVE_HEAD, "it moves no messages"),
        (MOVE_HEAD + u64(1) + u64(1) + u32(0), "it moves no messages"),
        (MOVE_HEAD + u64(1) + u64(1) + u32(1001), "more than 1,000"),
        (MOVE_HEAD + u64(1) + u64(1) + b"\1", "iterative unpacking"),
        (MOVE_HEAD[:8] + b"\xff" + MOVE_HEAD[9:] + u64(1) + u64(1) + u32(1), "255 is not a valid"),
        (MOVE_HEAD[:9] + b"\x08" + MOVE_HEAD[10:] + u64(1) + u64(1) + u32(1), "flags 0x08"),
        (MOVE_HEAD[:-4] + b"\2\0\0\0q", "its texts are cut off"),
    ],
)
def test_a_move_that_makes_no_sense_is_told(payload, why) -> None:
    """
    A node that applies a move it misread would differ from all others.
    """
    with pytest.raises(CorruptRecordError, match=why):
        list(decode_records(framed(31, 0, payload)))

"""
Any records survive their bytes; any bytes give records or a CorruptRecordError, nothing else.
"""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import CorruptRecordError
from holdfast.journal.record import iterate_records
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
from holdfast.model.records import (
    AcknowledgeRecord,
    CleanedRecord,
    CountersRecord,
    DeadLetterRecord,
    DeleteQueueRecord,
    DispatchMarkRecord,
    ForgetProducerRecord,
    FormatRecord,
    HoldLoss,
    HoldRecord,
    MessageRecord,
    PolicyRecord,
    ProducerRecord,
    PurgeRecord,
    QueueRecord,
    Record,
    ReturnCause,
    ReturnedRecord,
)
from holdfast.store.record_codec import MESSAGE, decode_message, decode_records, encode_records

U32 = st.integers(0, (1 << 32) - 1)
U64 = st.integers(0, (1 << 64) - 1)
NAMES = st.text(max_size=30)
U8 = st.integers(0, 255)
U16 = st.integers(0, (1 << 16) - 1)
PLACES = st.builds(Place, U32, U64)
FACTS = {
    "attributes": st.builds(Attributes, U64, U32, U8, U8, U16),
    "due_ms": U64,
    "places": st.lists(PLACES, min_size=1, max_size=5).map(tuple),
    "skips": st.binary(min_size=1, max_size=20),
    "form": st.builds(Form, st.sampled_from(Encoding), st.sampled_from(BodyKind)),
    "hops": st.builds(Hops, st.lists(U32, max_size=5).map(tuple), PLACES),
    "origin": st.builds(Origin, st.sampled_from(Cause), NAMES, NAMES),
}
"""Each fact that a message may have."""
SUBSETS = [
    names for count in range(1, len(FACTS) + 1) for names in itertools.combinations(FACTS, count)
]
"""Every choice of some of them."""


@st.composite
def facts(draw: st.DrawFn) -> MessageFacts:
    names = draw(st.sampled_from(SUBSETS))
    return MessageFacts(**{name: draw(FACTS[name]) for name in names})


@st.composite
def messages(draw: st.DrawFn) -> MessageRecord:
    headers, body = draw(st.binary(max_size=50)), draw(st.binary(max_size=600))
    record = MessageRecord(draw(U32), draw(U64), headers, body, len(headers) + len(body))
    record.stored_at = draw(U64)
    if draw(st.booleans()):
        record.producer_id, record.producer_sequence = draw(NAMES), draw(U64)
    if draw(st.booleans()):
        record.rewritten = True
        record.redelivery_count = draw(st.integers(0, 0xFFFF))
    if draw(st.booleans()):
        record.facts = draw(facts())
    return record


SEQUENCES = st.lists(U64, max_size=10)
RECORDS = st.lists(
    st.one_of(
        messages(),
        st.builds(AcknowledgeRecord, U32, SEQUENCES),
        st.builds(DeadLetterRecord, U32, SEQUENCES),
        st.builds(QueueRecord, U32, NAMES, U64, U64),
        st.builds(DispatchMarkRecord, U32, U64),
        st.builds(PurgeRecord, U32, U64),
        st.builds(DeleteQueueRecord, U32),
        st.builds(ProducerRecord, NAMES, U64, U64),
        st.builds(ForgetProducerRecord, NAMES),
        st.builds(CountersRecord, U32),
        st.builds(CleanedRecord, U64),
        st.builds(FormatRecord, U32),
        st.builds(PolicyRecord, NAMES.filter(bool), st.sampled_from(["", "{}", '{"a":1}']), U64),
        st.builds(UserRecord, NAMES.filter(bool), st.sampled_from(["", "{}", '{"a":1}']), U64),
        st.builds(GrantRecord, NAMES.filter(bool), NAMES.filter(bool), st.integers(0, 7)),
        st.builds(AuditRecord, U64, *5 * (NAMES,)),
        st.builds(ReturnedRecord, U32, st.sampled_from(ReturnCause), SEQUENCES, U64),
        st.builds(HoldRecord, NAMES, U64, U64, U64),
        st.builds(
            HoldRecord,
            NAMES,
            U64,
            U64,
            U64,
            expiry_seconds=U32,
            renewed_at=U64,
            loss=st.sampled_from(HoldLoss),
        ),
    ),
    max_size=8,
)


def fields(record: Record) -> tuple[object, ...]:
    return type(record), *(getattr(record, name) for name in type(record).__slots__)


@given(RECORDS)
def test_records_come_back_field_by_field(records: list[Record]) -> None:
    """
    decode(encode(records)) gives the same records, also read one by one by their places.
    """
    body = b"".join(encode_records(records))
    assert [fields(r) for r in decode_records(body)] == [fields(r) for r in records]
    for record, (kind, flags, start, end) in zip(records, iterate_records(body), strict=True):
        if kind == MESSAGE:
            assert fields(decode_message(memoryview(body), flags, start, end)) == fields(record)


@pytest.mark.parametrize("names", SUBSETS, ids="-".join)
@given(data=st.data())
@settings(max_examples=5)
def test_every_choice_of_facts_comes_back(names: tuple[str, ...], data: st.DataObject) -> None:
    """
    Each fact alone and with any others, beside a producer or not, before headers and body.
    """
    record = data.draw(messages())
    record.facts = MessageFacts(**{name: data.draw(FACTS[name], label=name) for name in names})
    (found,) = decode_records(b"".join(encode_records([record])))
    assert fields(found) == fields(record)


@given(RECORDS)
def test_an_index_needs_no_content(records: list[Record]) -> None:
    """
    Without content everything else is the same, sizes too.
    """
    body = memoryview(b"".join(encode_records(records)))
    for record, bare in zip(records, decode_records(body, with_content=False), strict=True):
        if isinstance(record, MessageRecord):
            record.headers = record.body = None
        assert fields(bare) == fields(record)


@given(
    records=RECORDS,
    changes=st.lists(st.tuples(U32, st.integers(0, 255)), max_size=4),
    cut=U32,
    is_cut=st.booleans(),
)
def test_damage_is_always_a_corrupt_record(
    records: list[Record], changes: list[tuple[int, int]], cut: int, *, is_cut: bool
) -> None:
    """
    Whatever was changed or cut: never another exception.
    """
    body = bytearray(b"".join(encode_records(records)))
    for place, value in changes:
        if body:
            body[place % len(body)] = value
    if is_cut and body:
        del body[cut % len(body) :]
    for with_content in (True, False):
        try:
            list(decode_records(memoryview(bytes(body)), with_content=with_content))
        except CorruptRecordError:
            pass


@given(st.binary(max_size=300))
def test_any_bytes_are_records_or_corrupt(data: bytes) -> None:
    """
    Nothing that stands in a file can be an accident for the reader.
    """
    try:
        records = list(decode_records(data))
    except CorruptRecordError:
        return
    assert [fields(r) for r in decode_records(b"".join(encode_records(records)))] == [
        fields(r) for r in records
    ]


@given(st.lists(messages(), min_size=1, max_size=4), st.integers(0, 3), st.integers(9, 15))
def test_what_a_later_version_may_add_is_named(
    records: list[MessageRecord], place: int, bit: int
) -> None:
    """
    A flag that is not known, on any message: the error tells which record, where, and the flag.
    """
    body = bytearray(b"".join(encode_records(list(records))))
    _, flags, start, _ = list(iterate_records(bytes(body)))[place % len(records)]
    body[start - 7 : start - 5] = (flags | 1 << bit).to_bytes(2, "little")
    why = f"message record at byte {start:,} of its entry has flags {1 << bit:#06x}"
    for with_content in (True, False):
        with pytest.raises(CorruptRecordError, match=why):
            list(decode_records(bytes(body), with_content=with_content))

"""
Records found as arrays are those that the codec finds one by one.
"""

from __future__ import annotations

import itertools
import random
import struct

import numpy as np
import pytest

from holdfast.errors import CorruptRecordError
from holdfast.journal.entry import KIND_CONFIG, KIND_RECORDS
from holdfast.journal.record import iterate_records
from holdfast.model.records import AcknowledgeRecord, CleanedRecord, MessageRecord
from holdfast.spark.log.record_table import MESSAGE_TYPE, MessageRows, RecordTable
from holdfast.store import record_codec
from trials.pipeline.written_log import EACH_FACT, block_of, knowing, message


def random_records(seed: int, count: int) -> list:
    chance = random.Random(seed)
    records = []
    for number in range(1, count + 1):
        kind = chance.randrange(5)
        if kind == 0:
            records.append(AcknowledgeRecord(1, list(range(chance.randrange(9)))))
        elif kind == 1:
            records.append(CleanedRecord(number))
        else:
            body = chance.randbytes(chance.randrange(60))
            headers = b"a:b\n" * chance.randrange(3)
            producer = chance.choice([None, "p", "producer with a long name"])
            record = message(chance.randrange(1, 4), number, body, headers, producer)
            if chance.randrange(3) == 0:
                knowing(record, *chance.sample(list(EACH_FACT), chance.randrange(1, 8)))
            record.rewritten = chance.randrange(4) == 0
            record.redelivery_count = 3 if record.rewritten else 0
            record.stored_at = chance.randrange(10**6)
            records.append(record)
    return records


@pytest.mark.parametrize("seed", range(6))
def test_places_are_those_of_the_codec(seed: int) -> None:
    """Random records of many kinds and lengths, with entries of the cluster's own between."""
    batches = [random_records(seed + n, n * 3) for n in range(1, 6)]
    block = block_of(*batches[:3], (KIND_CONFIG, b"{}"), *batches[3:])
    table = RecordTable(block)
    wanted = []
    for position in range(len(block)):
        start, end = int(block.body_starts[position]), int(block.body_ends[position])
        if int(block.field("kind")[position]) == KIND_RECORDS:
            body = block.buffer[start:end]
            for ordinal, (kind, flags, first, last) in enumerate(iterate_records(body)):
                wanted.append((position, ordinal, kind, flags, start + first - 8, last - first))
    columns = (table.entries, table.ordinals, table.types, table.flags, table.starts, table.lengths)
    assert wanted == list(zip(*(column.tolist() for column in columns), strict=True))


@pytest.mark.parametrize("seed", range(6))
def test_messages_are_those_of_the_codec(seed: int) -> None:
    """Every fixed field, and where headers and body are."""
    records = random_records(seed, 50)
    rows = MessageRows(RecordTable(block_of(records[:20], records[20:])))
    wanted = [record for record in records if isinstance(record, MessageRecord)]
    buffer = rows.table.block.buffer
    assert len(wanted) == len(rows)
    for place, record in enumerate(wanted):
        fixed = rows.fixed[place]
        start, middle = int(rows.header_starts[place]), int(rows.body_starts[place])
        assert (
            record.queue_number,
            record.sequence,
            record.redelivery_count,
            record.stored_at or 1_000_000 + int(rows.entries[place]),
            record.headers,
            record.body,
            record.producer_id is not None,
        ) == (
            fixed["queue_number"],
            fixed["sequence"],
            fixed["redelivery_count"],
            rows.stored_at[place],
            buffer[start:middle],
            buffer[middle : int(rows.body_ends[place])],
            rows.has_producer[place],
        )


@pytest.mark.parametrize("count", range(1, len(EACH_FACT) + 1))
def test_facts_are_those_of_the_codec(count: int) -> None:
    """Every choice of so many kinds, between messages without any; also of rows that were kept."""
    records = []
    for number, names in enumerate(itertools.combinations(EACH_FACT, count), 1):
        producer = "p" if number % 2 else None
        records += [
            knowing(message(1, 2 * number, b"body", b"a:b\n", producer), *names),
            message(1, 2 * number + 1),
        ]
    rows = MessageRows(RecordTable(block_of(records)))
    assert {n: it.facts for n, it in enumerate(records) if it.facts} == rows.facts()
    rows.keep(rows.field("sequence") % 4 < 2)
    kept = [it for it in records if it.sequence % 4 < 2]
    assert {n: it.facts for n, it in enumerate(kept) if it.facts} == rows.facts()


def test_without_facts_nothing_is_looked_for() -> None:
    """Most logs have none: they cost what they did."""
    rows = MessageRows(RecordTable(block_of([message(1, 1, producer="p"), message(1, 2)])))
    assert not rows.has_facts
    assert {} == rows.facts()
    assert rows.header_starts is rows.fact_starts


def test_the_layout_is_the_codecs() -> None:
    """A change of the format must change both."""
    assert MESSAGE_TYPE.itemsize == record_codec._MESSAGE_WHOLE.size
    packed = record_codec._MESSAGE_WHOLE.pack(16, 2, 0, 28, 5, 6, 7, 8, 9, 10)
    assert (16, 2, 0, 28, 5, 6, 7, 8, 9, 10) == np.frombuffer(packed, MESSAGE_TYPE)[0].item()


def test_records_of_one_length_are_found_in_one_go() -> None:
    """The same places, whether walked or compared; one that differs in length is noticed."""
    same = [message(1, n, bytes(20)) for n in range(1, 41)]
    table = RecordTable(block_of(same))
    assert [28 + 8 + 20] * 39 == np.diff(table.starts).tolist()
    table = RecordTable(block_of([*same, message(1, 41, bytes(19)), message(1, 42, bytes(21))]))
    assert 42 == len(table)


@pytest.mark.parametrize(
    ("body", "count", "sentence"),
    [
        (struct.pack("<BHBI", 99, 0, 0, 0), 1, "unknown type 99"),
        (struct.pack("<BHBI", 25, 0, 7, 0), 1, "reserved"),
        (struct.pack("<BHBI", 16, 0, 0, 4) + b"abcd", 1, "cut off"),
        (
            struct.pack("<BHBI", 16, 0x200, 0, 28) + bytes(28),
            1,
            "flags 0x0200",
        ),
        (struct.pack("<BHBI", 16, 0, 0, 99) + bytes(28), 1, "wants 99 bytes"),
        (struct.pack("<BHBI", 25, 0, 0, 8) + bytes(8), 2, "holds 1 records, it says 2"),
        (struct.pack("<BHBI", 25, 4, 0, 8) + bytes(8), 1, "flags 0x0004"),
        (struct.pack("<BHBI", 27, 2, 0, 28) + bytes(28), 1, "flags 0x0002"),
        (b"abc", 1, "cut short"),
    ],
)
def test_nonsense_is_an_error_that_names_the_entry(body: bytes, count: int, sentence: str) -> None:
    """The entry's checksum is good: the program that wrote it was wrong, and that is told."""
    block = block_of((KIND_RECORDS, body))
    block._headers = block._headers.copy()
    block._headers["record_count"] = count
    with pytest.raises(CorruptRecordError, match=rf"entry 1(:| holds).*{sentence}|{sentence}"):
        MessageRows(RecordTable(block))


def test_a_text_among_facts_that_is_none_is_an_error_that_names_the_entry() -> None:
    """Where it ends makes sense, so only who reads it finds that out."""
    known = knowing(message(1, 1, b"body"), "origin")
    body = b"".join(record_codec.encode_records([known])).replace(b"or:ders", b"or:d\xffrs")
    block = block_of((KIND_RECORDS, body))
    block._headers = block._headers.copy()
    block._headers["record_count"] = 1
    rows = MessageRows(RecordTable(block))
    with pytest.raises(CorruptRecordError, match=r"^entry 1: message record at byte 8 .*utf-8"):
        rows.facts()


def test_a_message_on_several_queues_is_spread_over_them() -> None:
    """A row for each, side by side; from each the others are its other places."""
    table = RecordTable(block_of([message(1, 4), knowing(message(1, 5), "places"), message(2, 6)]))
    rows = MessageRows(table)
    assert rows.spread()
    queues, sequences = rows.field("queue_number").tolist(), rows.field("sequence").tolist()
    assert [(1, 4), (1, 5), (8, 80), (9, 90), (2, 6)] == list(zip(queues, sequences, strict=True))
    assert [0, 1, 1, 1, 2] == rows.ordinals.tolist()
    assert {1: ((8, 80), (9, 90)), 2: ((1, 5), (9, 90)), 3: ((1, 5), (8, 80))} == {
        row: facts.places for row, facts in rows.facts().items()
    }
    rows.keep(rows.field("queue_number") == 9)
    assert [((1, 5), (8, 80))] == [facts.places for facts in rows.facts().values()]
    assert not MessageRows(RecordTable(block_of([message(1, 4)]))).spread()

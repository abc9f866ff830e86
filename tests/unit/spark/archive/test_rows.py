"""Entries as archive rows, and rows as entries: byte for byte, proven by the chain."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from holdfast.errors import CorruptArchiveError, CorruptRecordError
from holdfast.journal.entry import (
    FIRST_CHAIN,
    KIND_CONFIG,
    KIND_NOOP,
    KIND_RECORDS,
    Entry,
    seal_entry,
)
from holdfast.model.facts import MessageFacts
from holdfast.model.records import (
    AcknowledgeRecord,
    CleanedRecord,
    CountersRecord,
    DeadLetterRecord,
    DeleteQueueRecord,
    DispatchMarkRecord,
    ForgetProducerRecord,
    HoldRecord,
    MessageRecord,
    ProducerRecord,
    PurgeRecord,
    QueueRecord,
    Record,
)
from holdfast.spark.archive.rows import (
    RECORDS,
    RangeFacts,
    archived_facts,
    block_rows,
    entries_of,
)
from holdfast.spark.log.entry_block import EntryBlock, cut_entries
from holdfast.store.record_codec import encode_records
from holdfast.testing.written_log import EACH_FACT, knowing

SECOND = 1_000_000


class LogMaker:
    """Seals entries one behind the other, as a leader does."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def add(self, *records: Record, kind: int = KIND_RECORDS, body: bytes = b"") -> Entry:
        last = self.entries[-1] if self.entries else None
        entry = seal_entry(
            index=last.index + 1 if last else 1,
            term=1,
            kind=kind,
            timestamp=(last.timestamp if last else 1_700_000_000 * SECOND) + SECOND,
            first_record=last.next_record if last else 1,
            record_count=len(records),
            parts=encode_records(list(records)) if records else [body],
            previous_chain=last.chain if last else FIRST_CHAIN,
        )
        self.entries.append(entry)
        return entry

    def block(self) -> EntryBlock:
        return cut_entries(b"".join(entry.raw for entry in self.entries), 1)


def message(
    sequence: int,
    body: bytes = b"body",
    *,
    producer: str | None = None,
    number: int = 0,
    rewritten: int | None = None,
) -> MessageRecord:
    headers = b"content-type:text/plain\n"
    record = MessageRecord(1, sequence, headers, body, len(headers) + len(body), producer, number)
    record.stored_at = 1_700_000_000 * SECOND + sequence
    if rewritten is not None:
        record.rewritten, record.redelivery_count = True, rewritten
    return record


@pytest.fixture
def log() -> LogMaker:
    """One of everything that a log can hold."""
    log = LogMaker()
    log.add(kind=KIND_CONFIG, body=b'{"members":[]}')
    log.add(kind=KIND_NOOP)
    log.add(QueueRecord(1, "orders", 1, 4096), message(1), message(2, b"x" * 5000))
    log.add(message(3, b"", producer="p-ä", number=7), message(4, rewritten=3))
    log.add(AcknowledgeRecord(1, [1, 2]), DeadLetterRecord(1, [3]), DispatchMarkRecord(1, 9000))
    log.add(ProducerRecord("p-2", 5, 99), ForgetProducerRecord("p-3"), CountersRecord(8))
    log.add(PurgeRecord(1, 4), DeleteQueueRecord(1), HoldRecord("archive", 3, 1 << 30, 2))
    log.add(CleanedRecord(2), message(5, producer="p-2", number=6, rewritten=1))
    return log


def test_rows_give_the_same_entries_again(log: LogMaker) -> None:
    """
    Every kind of record comes back byte for byte, so a restored log is the log.
    """
    rows = block_rows(log.block(), RangeFacts())

    assert log.entries == list(entries_of([rows], FIRST_CHAIN, path="x"))
    assert RECORDS == rows.schema


def test_facts_come_back(log: LogMaker) -> None:
    """
    Beside messages that have none, as bytes of their own: nothing of an entry may be lost.
    """
    log.add(*(knowing(message(n), name) for n, name in enumerate(EACH_FACT, 6)), message(99))
    log.add(knowing(message(100), *EACH_FACT))
    rows = block_rows(log.block(), RangeFacts())
    assert log.entries == list(entries_of([rows], FIRST_CHAIN, path="x"))
    of_messages = rows.filter(pc.equal(rows.column("kind"), "message"))
    facts = archived_facts(of_messages)
    assert facts.keys() == {5, 6, 7, 8, 9, 10, 11, 13}
    assert facts[13] == MessageFacts(**EACH_FACT)
    without = block_rows(log.block(), RangeFacts(), with_content=False)
    assert without.column("record").null_count == without.num_rows


@pytest.mark.parametrize("packed", [b"", b"\0\0", b"\0\x02", b"\x08\0\1", b"\x40\0\0\0"])
def test_archived_facts_that_make_no_sense_are_refused(packed: bytes) -> None:
    """
    None, unknown ones, cut off, too many: never another error.
    """
    column = pa.array([None, packed], pa.binary())
    with pytest.raises(CorruptRecordError, match="the facts of a message"):
        archived_facts(pa.RecordBatch.from_arrays([column], ["record"]))


def test_a_cut_between_batches_does_not_matter(log: LogMaker) -> None:
    """
    An entry whose rows are split over two batches is one entry.
    """
    rows = block_rows(log.block(), RangeFacts())

    pieces = [rows.slice(start, 1) for start in range(rows.num_rows)]

    assert log.entries == list(entries_of(pieces, FIRST_CHAIN, path="x"))


def test_messages_only(log: LogMaker) -> None:
    """
    A block with nothing but messages takes the short way and gives the same.
    """
    only = LogMaker()
    for first in range(1, 90, 30):
        only.add(*(message(n, b"%d" % n) for n in range(first, first + 30)))

    rows = block_rows(only.block(), RangeFacts())

    assert only.entries == list(entries_of([rows], FIRST_CHAIN, path="x"))


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("body", b"other"),
        ("sequence", 77),
        ("header_lines", b"a:b\n"),
        ("redelivery_count", 9),
        ("stored_at", 5),
        ("term", 2),
        ("record", b"\x13\0\0\0\x0c\0\0\0" + bytes(12)),
    ],
)
def test_an_edited_value_is_named_with_its_entry(log: LogMaker, column: str, value: object) -> None:
    """
    Whatever is edited, the chain hash shows it, and the error says in which entry.
    """
    rows = block_rows(log.block(), RangeFacts())
    place = RECORDS.get_field_index(column)
    values = rows.column(place).to_pylist()
    row = next(r for r, old in enumerate(values) if old is not None and r > 2)
    values[row] = value
    columns = rows.columns
    columns[place] = pa.array(values, RECORDS.field(column).type)
    edited = pa.RecordBatch.from_arrays(columns, schema=RECORDS)

    with pytest.raises(CorruptArchiveError) as caught:
        list(entries_of([edited], FIRST_CHAIN, path="file.parquet"))

    assert rows.column("index").to_pylist()[row] == caught.value.index
    assert "file.parquet" in str(caught.value)


def test_a_removed_row_is_named(log: LogMaker) -> None:
    """
    A row that is gone leaves a hole in its entry's ordinals.
    """
    rows = block_rows(log.block(), RangeFacts())
    row = rows.column("sequence").to_pylist().index(2)
    table = pa.concat_tables(
        [pa.Table.from_batches([rows.slice(0, row)]), pa.Table.from_batches([rows.slice(row + 1)])]
    )

    with pytest.raises(CorruptArchiveError, match="entry 3"):
        list(entries_of(table.to_batches(), FIRST_CHAIN, path="x"))


def test_facts_are_gathered_in_passing(log: LogMaker) -> None:
    """
    What the manifest needs is known without a second pass.
    """
    facts = RangeFacts()

    rows = block_rows(log.block(), facts)

    assert {1: "orders"} == facts.declared
    assert (5, rows.num_rows, 2, 8) == (
        facts.messages,
        facts.rows,
        facts.cleaned_through,
        facts.complete_from,
    )
    assert set() == facts.unknown


def test_a_queue_without_a_name_is_told() -> None:
    """
    A message whose queue is declared elsewhere has no destination, and the job hears of it.
    """
    log = LogMaker()
    log.add(message(1))
    facts = RangeFacts()

    rows = block_rows(log.block(), facts)

    assert ([None], {1}) == (rows.column("destination").to_pylist(), facts.unknown)


def test_a_first_entry_with_unknown_past_keeps_its_chain(log: LogMaker) -> None:
    """
    Where nobody knows the chain before, the first entry is taken at its word and the rest proven.
    """
    later = log.entries[3:]
    block = cut_entries(b"".join(entry.raw for entry in later), 4)

    rebuilt = list(entries_of([block_rows(block, RangeFacts())], None, path="x"))

    assert later == rebuilt

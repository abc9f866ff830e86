"""Rows as entries: byte for byte, proven by the chain."""

from __future__ import annotations

import pyarrow as pa
import pytest

from holdfast.errors import CorruptArchiveError, CorruptRecordError
from holdfast.journal.entry import FIRST_CHAIN
from holdfast.spark.archive.entries import archived_facts, entries_of
from holdfast.spark.archive.rows import RECORDS, RangeFacts, block_rows
from holdfast.spark.log.entry_block import cut_entries


@pytest.mark.parametrize("packed", [b"", b"\0\0", b"\0\x02", b"\x08\0\1", b"\x40\0\0\0"])
def test_archived_facts_that_make_no_sense_are_refused(packed: bytes) -> None:
    """
    None, unknown ones, cut off, too many: never another error.
    """
    column = pa.array([None, packed], pa.binary())
    with pytest.raises(CorruptRecordError, match="the facts of a message"):
        archived_facts(pa.RecordBatch.from_arrays([column], ["record"]))


def test_a_cut_between_batches_does_not_matter(log) -> None:
    """
    An entry whose rows are split over two batches is one entry.
    """
    rows = block_rows(log.block(), RangeFacts())

    pieces = [rows.slice(start, 1) for start in range(rows.num_rows)]

    assert log.entries == list(entries_of(pieces, FIRST_CHAIN, path="x"))


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
def test_an_edited_value_is_named_with_its_entry(log, column: str, value: object) -> None:
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


def test_a_removed_row_is_named(log) -> None:
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


def test_a_first_entry_with_unknown_past_keeps_its_chain(log) -> None:
    """
    Where nobody knows the chain before, the first entry is taken at its word and the rest proven.
    """
    later = log.entries[3:]
    block = cut_entries(b"".join(entry.raw for entry in later), 4)

    rebuilt = list(entries_of([block_rows(block, RangeFacts())], None, path="x"))

    assert later == rebuilt

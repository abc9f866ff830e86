"""
The view `messages` straight from an archive's files: columns to columns, no entry is rebuilt.

An archive's rows have the values that the view wants, so they are chosen and renamed, and what the
query does not ask for is not read. That a file is the one that was archived is proven by its digest
before a row of it is given; that its rows give the log again, byte for byte, is what audit and the
view `entries` prove.

Invariants:
    The rows are those that the entries of the same range give, in the same order.
    A file whose bytes are not those of its manifest gives an error, never a row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.spark.archive.entries import archived_facts
from holdfast.spark.archive.source import FilePart
from holdfast.spark.archive.store import Archive
from holdfast.spark.columns.facts import FACT_COLUMNS, fact_column, with_origins, with_priorities
from holdfast.spark.columns.headers import HEADER_COLUMNS, HeaderReader
from holdfast.spark.columns.messages import message_ids, queue_column
from holdfast.spark.columns.schema import PROBLEM, arrow_schema
from holdfast.spark.log.entry_block import Integers
from holdfast.spark.log.naming import Naming
from holdfast.spark.log.row_filter import INDEX_MAX, RowFilter

_ALWAYS: Final = ("index", "kind")
_MADE_OF: Final[dict[str, tuple[str, ...]]] = {
    "stored_at": ("stored_at", "entry_time"),
    "destination": ("queue_number",),
    "message_id": ("queue_number", "sequence"),
    "producer_sequence": ("producer_sequence", "producer_id"),
    PROBLEM: (),
    **dict.fromkeys(FACT_COLUMNS, ("record",)),
    **dict.fromkeys((*HEADER_COLUMNS, "header_block"), ("header_lines", "record")),
}
"""What a column of the view is made of, where that is not the column of its name."""


def archived_messages(
    archive: Archive,
    part: FilePart,
    columns: tuple[str, ...],
    naming: Naming,
    headers: HeaderReader,
    wanted: RowFilter,
) -> Iterator[pa.RecordBatch]:
    """
    Give the messages in these entries of a file that `wanted` lets through.

    Raises:
        CorruptArchiveError: The file is missing, or not what was archived.
        CorruptRecordError: The headers of a message make no sense.
    """
    first, last = part.first_index, part.last_index
    for batch in archive.proven_batches(part.file, _needed(columns, wanted), first, last):
        rows = _only(batch, pc.equal(batch.column("kind"), "message"))
        rows = _only(rows, _between(rows.column("index"), first, last))
        if not wanted.is_for_all:
            rows = _only(rows, _is_wanted(rows, naming, wanted))
        if rows.num_rows:
            yield _view(rows, columns, naming, headers)


def _needed(columns: tuple[str, ...], wanted: RowFilter) -> list[str]:
    """The columns of the files that the answer is made of."""
    found = {*_ALWAYS}
    for name in columns:
        found.update(_MADE_OF.get(name, (name,)))
    if not wanted.is_for_all:
        found |= {"queue_number", "sequence", "stored_at", "entry_time"}
    return sorted(found)


def _is_wanted(rows: pa.RecordBatch, naming: Naming, wanted: RowFilter) -> pa.Array:
    """The same choice as `RowFilter.keep_messages`."""
    mask = _between(rows.column("sequence"), wanted.sequence_min, wanted.sequence_max)
    if wanted.time_min > 0 or wanted.time_max < INDEX_MAX:
        times = _stored_at(rows, naming).cast(pa.int64())
        mask = pc.and_(mask, _between(times, wanted.time_min, wanted.time_max))
    if wanted.destinations is not None:
        mask = pc.and_(mask, pa.array(wanted.of_destinations(_numbers(rows), naming)))
    return mask


def _between(values: pa.Array, low: int, high: int) -> pa.Array:
    return pc.and_(pc.greater_equal(values, low), pc.less_equal(values, high))


def _only(rows: pa.RecordBatch, mask: Any) -> pa.RecordBatch:
    """The rows for which `mask` is true; where that is all nothing is copied."""
    return rows if mask.true_count == rows.num_rows else rows.filter(mask)


def _view(
    rows: pa.RecordBatch, columns: tuple[str, ...], naming: Naming, headers: HeaderReader
) -> pa.RecordBatch:
    """These rows, all of them messages, with the columns of the view."""
    found: dict[str, pa.Array] = {}
    facts = archived_facts(rows) if "record" in rows.schema.names else {}
    from_headers = HEADER_COLUMNS.intersection(columns)
    if from_headers or "header_block" in columns:
        blocks = with_origins(rows.column("header_lines"), facts)
        found |= headers.columns(blocks, set(from_headers))
        found["header_block"] = blocks
    if "priority" in found:
        found["priority"] = with_priorities(found["priority"], facts)
    for name in FACT_COLUMNS.intersection(columns):
        found[name] = fact_column(name, facts, rows.num_rows)
    for name in columns:
        if name not in found:
            made = _MADE.get(name)
            found[name] = rows.column(name) if made is None else made(rows, naming)
    schema = arrow_schema("messages", columns)
    return pa.RecordBatch.from_arrays([found[name] for name in columns], schema=schema)


def _numbers(rows: pa.RecordBatch) -> Integers:
    """The queues' numbers; an archive has null for 0."""
    filled = pc.fill_null(rows.column("queue_number"), 0)
    numbers: Integers = np.asarray(filled)
    return numbers


def _stored_at(rows: pa.RecordBatch, _: Naming) -> pa.Array:
    """The oldest records do not say when they were stored: then it was with their entry."""
    return pc.coalesce(rows.column("stored_at"), rows.column("entry_time"))


def _message_id(rows: pa.RecordBatch, naming: Naming) -> pa.Array:
    return message_ids(pa.array(_numbers(rows)), rows.column("sequence"), naming)


def _producer_sequence(rows: pa.RecordBatch, _: Naming) -> pa.Array:
    """An archive has null for 0, which is the number of those that have none, too."""
    numbers = pc.fill_null(rows.column("producer_sequence"), 0)
    return pc.if_else(rows.column("producer_id").is_valid(), numbers, pa.scalar(None, pa.int64()))


_MADE: Final[dict[str, Callable[[pa.RecordBatch, Naming], pa.Array]]] = {
    "stored_at": _stored_at,
    "destination": lambda rows, naming: queue_column(_numbers(rows), naming),
    "queue_number": lambda rows, _: pa.array(_numbers(rows)),
    "message_id": _message_id,
    "producer_sequence": _producer_sequence,
    PROBLEM: lambda rows, _: pa.nulls(rows.num_rows, pa.string()),
}

"""
Log entries to Arrow batches: the views `messages` and `entries`; `events` has its own module.

The one place where the bytes of the log become columns, for Spark and for any other program. It
reads by the same layouts as the broker (`journal.entry`, `journal.record`, `store.record_codec`),
but a block at a time: every column is cut in one go, bodies and headers only if they are wanted.

Invariants:
    Rows stand in the order of the log.
    What makes no sense is an error that names the entry, never a missing row.

Pure: no Spark, no disk, no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.journal.entry import CHAIN_BYTES, HEADER_BYTES
from holdfast.spark.columns.arrow_cut import cut_binary, integers, with_nulls
from holdfast.spark.columns.facts import FACT_COLUMNS, fact_column, with_origins, with_priorities
from holdfast.spark.columns.headers import HEADER_COLUMNS, HeaderReader
from holdfast.spark.columns.schema import PROBLEM, TIMESTAMP, View, arrow_schema, arrow_type
from holdfast.spark.log.entry_block import EntryBlock, Integers
from holdfast.spark.log.naming import CLUSTER_DIGITS, Naming
from holdfast.spark.log.record_table import MESSAGE_TYPE, MessageRows, RecordTable
from holdfast.spark.log.row_filter import RowFilter
from holdfast.store.record_codec import FLAG_REWRITTEN

ROWS_MAX: Final = 65_536
"""Rows in one batch at most."""

_OF_FACTS: Final = FACT_COLUMNS | HEADER_COLUMNS | {"header_block"}
"""The columns that facts have a part in."""

KIND_NAMES: Final = ("records", "noop", "config")


def message_batch(
    block: EntryBlock,
    columns: tuple[str, ...],
    naming: Naming,
    headers: HeaderReader,
    wanted: RowFilter | None = None,
) -> pa.RecordBatch:
    """
    Return one row per message of the block.

    Declarations of queues inside the block are learned on the way.

    Raises:
        CorruptRecordError: A record makes no sense; the sentence names entry and byte.
    """
    table = RecordTable(block)
    naming.learn(table)
    rows = MessageRows(table)
    if wanted is not None:
        wanted.keep_messages(rows, naming)
    return cut_messages(rows, columns, naming, headers)


def cut_messages(
    rows: MessageRows,
    columns: tuple[str, ...],
    naming: Naming,
    headers: HeaderReader,
    *,
    view: View = "messages",
    extra: dict[str, pa.Array] | None = None,
) -> pa.RecordBatch:
    """
    Return the columns of these rows.

    Args:
        extra: Columns that are known already.

    Raises:
        CorruptRecordError: The headers of a message make no sense.
    """
    found = dict(extra or {})
    facts = rows.facts() if _OF_FACTS.intersection(columns) else {}
    from_headers = HEADER_COLUMNS.intersection(columns)
    if from_headers:
        blocks = with_origins(_header_blocks(rows), facts)
        found |= headers.columns(blocks, set(from_headers))
    if "priority" in found:
        found["priority"] = with_priorities(found["priority"], facts)
    if "header_block" in columns:
        found["header_block"] = with_origins(_header_blocks(rows), facts)
    for name in FACT_COLUMNS.intersection(columns):
        found[name] = fact_column(name, facts, len(rows))
    for name in columns:
        if name == PROBLEM:
            found[name] = pa.nulls(len(rows), pa.string())
        elif name not in found:
            found[name] = _MESSAGE_COLUMNS[name](rows, naming)
    return pa.RecordBatch.from_arrays(
        [found[name] for name in columns], schema=arrow_schema(view, columns)
    )


def entry_batch(block: EntryBlock, columns: tuple[str, ...]) -> pa.RecordBatch:
    """Return one row per entry of the block."""
    return pa.RecordBatch.from_arrays(
        [_entry_column(block, name) for name in columns], schema=arrow_schema("entries", columns)
    )


def problem_batch(view: View, columns: tuple[str, ...], index: int, problem: str) -> pa.RecordBatch:
    """Return the one row that says what is wrong at entry `index`; all else in it is null."""
    known = {"index": index, PROBLEM: problem}
    return pa.RecordBatch.from_arrays(
        [pa.array([known.get(name)], arrow_type(view, name)) for name in columns],
        schema=arrow_schema(view, columns),
    )


def in_pieces(batch: pa.RecordBatch, rows_max: int = ROWS_MAX) -> Iterator[pa.RecordBatch]:
    """Give the batch in pieces of at most `rows_max` rows; nothing is copied, none is empty."""
    for start in range(0, batch.num_rows, rows_max):
        yield batch.slice(start, rows_max)


def queue_column(
    numbers: Integers, naming: Naming, valid: npt.NDArray[np.bool_] | None = None
) -> pa.Array:
    """Return the names of these queue numbers; null where `valid` is false or it is unknown."""
    encoded = integers(numbers, pa.int64(), valid).dictionary_encode()
    found = naming.of(encoded.dictionary.to_pylist())
    return pa.array(found, pa.string()).take(encoded.indices)


def _header_blocks(rows: MessageRows) -> pa.BinaryArray:
    return cut_binary(rows.table.block.buffer, rows.header_starts, rows.body_starts)


def message_ids(numbers: pa.Array, sequences: pa.Array, naming: Naming) -> pa.Array:
    """Return the ids that consumers see; null where the cluster is not known."""
    if not naming.cluster_id:
        return pa.nulls(len(numbers), pa.string())
    cluster = naming.cluster_id[:CLUSTER_DIGITS]
    encoded = numbers.dictionary_encode()
    prefixes = [f"ID:{cluster}-{number}-" for number in encoded.dictionary.to_pylist()]
    prefix = pa.array(prefixes, pa.string()).take(encoded.indices)
    return pc.binary_join_element_wise(prefix, sequences.cast(pa.string()), "")


def _message_ids(rows: MessageRows, naming: Naming) -> pa.Array:
    numbers = integers(rows.field("queue_number"), pa.int64())
    return message_ids(numbers, integers(rows.field("sequence"), pa.int64()), naming)


def _producer_ids(rows: MessageRows, naming: Naming) -> pa.Array:
    start = rows.starts + MESSAGE_TYPE.itemsize + 8
    end = np.where(rows.has_producer, rows.fact_starts, start)
    if not rows.has_producer.any():
        return pa.nulls(len(rows), pa.string())
    start = np.where(rows.has_producer, start, 0)
    end = np.where(rows.has_producer, end, 0)
    found = cut_binary(rows.table.block.buffer, start, end).cast(pa.string())
    return with_nulls(found, rows.has_producer)


def _producer_sequences(rows: MessageRows, naming: Naming) -> pa.Array:
    values = np.zeros(len(rows), dtype=np.int64)
    has = rows.has_producer
    if has.any():
        buffer = rows.table.block.buffer
        everywhere: npt.NDArray[np.uint64] = np.ndarray(
            (len(buffer) - 7,), dtype="<u8", buffer=buffer, strides=(1,)
        )
        values[has] = everywhere[rows.starts[has] + MESSAGE_TYPE.itemsize]
    return integers(values, pa.int64(), has)


def _of_entry(name: str) -> Callable[[MessageRows, Naming], pa.Array]:
    return lambda rows, _: integers(rows.table.block.field(name)[rows.entries], pa.int64())


_MESSAGE_COLUMNS: Final[dict[str, Callable[[MessageRows, Naming], pa.Array]]] = {
    "index": lambda rows, _: integers(rows.entries + rows.table.block.first_index, pa.int64()),
    "ordinal": lambda rows, _: integers(rows.ordinals, pa.int32()),
    "term": _of_entry("term"),
    "stored_at": lambda rows, _: integers(rows.stored_at, TIMESTAMP),
    "destination": lambda rows, it: queue_column(rows.field("queue_number"), it),
    "queue_number": lambda rows, _: integers(rows.field("queue_number"), pa.int64()),
    "sequence": lambda rows, _: integers(rows.field("sequence"), pa.int64()),
    "message_id": _message_ids,
    "producer_id": _producer_ids,
    "producer_sequence": _producer_sequences,
    "rewritten": lambda rows, _: pa.array((rows.fixed["flags"] & FLAG_REWRITTEN) != 0),
    "body": lambda rows, _: cut_binary(rows.table.block.buffer, rows.body_starts, rows.body_ends),
    "body_size": lambda rows, _: integers(rows.body_ends - rows.body_starts, pa.int64()),
    "record_number": lambda rows, _: integers(
        rows.table.block.field("first_record")[rows.entries] + rows.ordinals, pa.int64()
    ),
}


def _entry_column(block: EntryBlock, name: str) -> pa.Array:
    if name == PROBLEM:
        return pa.nulls(len(block), pa.string())
    if name == "index":
        return integers(block.indexes, pa.int64())
    if name == "time":
        return integers(block.field("timestamp"), TIMESTAMP)
    if name == "kind":
        return pa.array([KIND_NAMES[kind] for kind in block.field("kind").tolist()], pa.string())
    if name == "chain":
        places = block.starts + HEADER_BYTES - CHAIN_BYTES
        return cut_binary(block.buffer, places, places + CHAIN_BYTES)
    if name == "raw":
        return cut_binary(block.buffer, block.starts, block.ends)
    source = {"body_bytes": "body_length"}.get(name, name)
    return integers(block.field(source), arrow_type("entries", name))

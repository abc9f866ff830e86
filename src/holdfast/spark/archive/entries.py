"""
The rows of an archive to the log entries that they were, byte for byte.

An entry is sealed anew from its rows, and its chain value compared with the one archived: whatever
of a row is missing, changed or too many shows there, or before.

Pure: Arrow in memory, no files, no Spark.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import pyarrow as pa
from google_crc32c import value as crc32c

from holdfast.errors import CorruptArchiveError, CorruptRecordError
from holdfast.journal.entry import CHAIN_BYTES, FIRST_CHAIN, HEADER_BYTES, Entry, seal_entry
from holdfast.model.facts import MessageFacts
from holdfast.model.records import MessageRecord
from holdfast.spark.archive.rows import ENTRY_ROW
from holdfast.store.fact_blocks import unpack_facts
from holdfast.store.record_codec import encode_records

_REBUILT_FROM: Final = (
    "index",
    "ordinal",
    "record_number",
    "term",
    "entry_kind",
    "entry_time",
    "chain",
    "kind",
    "queue_number",
    "sequence",
    "stored_at",
    "producer_id",
    "producer_sequence",
    "redelivery_count",
    "rewritten",
    "header_lines",
    "body",
    "record",
)
"""The columns that an entry is built from; the others are derived from them."""


def entries_of(
    batches: Iterable[pa.RecordBatch], previous_chain: bytes | None, *, path: str
) -> Iterator[Entry]:
    """
    Give the entries whose rows these are, each proven by its chain value.

    Args:
        previous_chain: The chain before the first of them; None if nobody knows it, and then the
            first entry is taken at its word.
        path: What to call the rows in an error.

    Raises:
        CorruptArchiveError: A row is missing, changed or too many; it names the entry.
    """
    try:
        yield from _entries(batches, previous_chain, path)
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        # Values that no row of ours has, as where nulls stand for numbers.
        raise CorruptArchiveError(f"its rows make no entry: {error}", path=path) from error


def _entries(
    batches: Iterable[pa.RecordBatch], previous_chain: bytes | None, path: str
) -> Iterator[Entry]:
    rows: list[Mapping[str, Any]] = []
    for batch in batches:
        for row in _plain_rows(batch):
            if rows and row["index"] != rows[0]["index"]:
                entry = _entry(rows, previous_chain, path)
                previous_chain = entry.chain
                yield entry
                rows = []
            rows.append(row)
    if rows:
        yield _entry(rows, previous_chain, path)


def _plain_rows(batch: pa.RecordBatch) -> Iterator[Mapping[str, Any]]:
    columns = []
    for name in _REBUILT_FROM:
        column = batch.column(name)
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.int64())
        columns.append(column.to_pylist())
    for values in zip(*columns, strict=True):
        yield dict(zip(_REBUILT_FROM, values, strict=True))


def _entry(rows: list[Mapping[str, Any]], previous_chain: bytes | None, path: str) -> Entry:
    """Seal the entry of these rows anew and compare its chain value with the one archived."""
    first = rows[0]
    index, chain = first["index"], first["chain"]
    is_empty = first["ordinal"] == ENTRY_ROW
    wanted = [ENTRY_ROW] if is_empty else list(range(len(rows)))
    if [row["ordinal"] for row in rows] != wanted:
        raise CorruptArchiveError("a row is missing or too many", path=path, index=index)
    if not all(map(_agrees, rows, range(len(rows)), [first] * len(rows))):
        raise CorruptArchiveError("its rows do not agree", path=path, index=index)
    try:
        parts = [part for row in rows for part in _parts(row)]
        entry = seal_entry(
            index=index,
            term=first["term"],
            kind=first["entry_kind"],
            timestamp=first["entry_time"],
            first_record=first["record_number"],
            record_count=0 if is_empty else len(rows),
            parts=parts,
            previous_chain=FIRST_CHAIN if previous_chain is None else previous_chain,
        )
    except (
        TypeError,
        ValueError,
        AssertionError,
        ArithmeticError,
        CorruptRecordError,
        struct.error,
    ) as error:
        reason = f"its rows make no entry: {error}"
        raise CorruptArchiveError(reason, path=path, index=index) from error
    if previous_chain is None:
        return _with_chain(entry, chain)
    if entry.chain != chain:
        reason = "its rows are not what was archived: the chain hash differs"
        raise CorruptArchiveError(reason, path=path, index=index)
    return entry


def _agrees(row: Mapping[str, Any], place: int, first: Mapping[str, Any]) -> bool:
    """Whether a row says of its entry what the first row says, and of itself nothing impossible."""
    return (
        all(row[name] == first[name] for name in ("term", "entry_kind", "entry_time", "chain"))
        and row["record_number"] == first["record_number"] + place
        and (row["rewritten"] or not row["redelivery_count"])
    )


def _parts(row: Mapping[str, Any]) -> list[bytes]:
    if row["kind"] != "message":
        return [row["record"]]
    headers, body = row["header_lines"], row["body"]
    record = MessageRecord(
        row["queue_number"] or 0,
        row["sequence"] or 0,
        headers,
        body,
        len(headers) + len(body),
        row["producer_id"],
        row["producer_sequence"] or 0,
    )
    record.stored_at = row["stored_at"] or 0
    record.rewritten = row["rewritten"]
    record.redelivery_count = row["redelivery_count"] or 0
    if row["record"] is not None:
        record.facts = unpack_facts(row["record"])
    return encode_records([record])


def archived_facts(rows: pa.RecordBatch) -> dict[int, MessageFacts]:
    """
    Give the facts of those of these rows, all of them messages, that have any.

    Raises:
        CorruptRecordError: They make no sense.
    """
    column = rows.column("record")
    if column.null_count == len(column):
        return {}
    try:
        return {
            row: unpack_facts(packed)
            for row, packed in enumerate(column.to_pylist())
            if packed is not None
        }
    except (ValueError, struct.error) as error:
        raise CorruptRecordError(f"the facts of a message: {error}") from error


def _with_chain(entry: Entry, chain: bytes) -> Entry:
    """The same entry with the chain value it had, where what came before is not known."""
    header = bytearray(entry.raw[:HEADER_BYTES])
    header[-CHAIN_BYTES:] = chain
    header[8:12] = bytes(4)
    checksum: int = crc32c(bytes(header))
    header[8:12] = checksum.to_bytes(4, "little")
    raw = bytes(header) + entry.raw[HEADER_BYTES:]
    return Entry(
        entry.index,
        entry.term,
        entry.kind,
        entry.timestamp,
        entry.first_record,
        entry.record_count,
        chain,
        raw,
        entry.body_length,
    )

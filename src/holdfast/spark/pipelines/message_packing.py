"""
Live messages packed into the bodies of log entries, by workers, each its own data files.

Contents never pass through Java: a worker is told which records of a file live, reads them from the
file itself, and leaves bodies ready to be sealed in a scratch folder. The driver reads them back in
the order of the archive.

Layout of a scratch file, repeated: u32 records, u32 bytes, the body.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.errors import ArchiveError
from holdfast.model.records import MessageRecord, Record
from holdfast.spark.archive.manifests import ArchivedFile
from holdfast.spark.archive.places import Place
from holdfast.spark.archive.store import Archive
from holdfast.spark.archive.store_answers import asked_again
from holdfast.spark.source.partitions import tasks_for
from holdfast.spark.worker_memory import keep_loaded
from holdfast.store.fact_blocks import unpack_facts
from holdfast.store.record_codec import encode_records

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ENTRY_BYTES: Final = 1024 * 1024
"""Messages are packed into entries of about this size."""
TASKS_MAX: Final = 256
_FRAME: Final = struct.Struct("<II")
_PARTS: Final = "file string, path string, messages long"

_COLUMNS: Final = (
    "queue_number",
    "sequence",
    "header_lines",
    "body",
    "producer_id",
    "producer_sequence",
    "redelivery_count",
    "stored_at",
    "entry_time",
    "record",
)


def pack_files(
    archive: Archive, files: list[ArchivedFile], living: DataFrame, scratch: Place
) -> list[str]:
    """
    Pack what lives of each file; gives the scratch files in the order of the archive.

    `living` has record_number and file, the name of the data file.
    """
    by_name = {file.path.rpartition("/")[2]: file for file in files}

    def task(rows: pa.Table) -> pa.Table:  # Spark looks at these types
        return _pack_file(rows, archive=archive, files=by_name, scratch=scratch)

    cores = living.sparkSession.sparkContext.defaultParallelism
    count = min(tasks_for(files, cores), TASKS_MAX)
    places = living.select("file", "record_number").repartition(count, "file")
    rows = places.groupBy("file").applyInArrow(task, _PARTS).collect()
    rows.sort(key=lambda row: by_name[row["file"]].first_index)
    return [row["path"] for row in rows]


def unpacked(scratch: Place, paths: list[str]) -> Iterator[tuple[bytes, int]]:
    """
    Give the bodies in these scratch files with their counts; each file is removed once read.

    Raises:
        ArchiveError: The workers' files cannot be seen from here.
    """
    for path in paths:
        try:
            source = scratch.open_input(path)
        except FileNotFoundError as error:
            raise ArchiveError(
                f"{scratch}/{path} is not there: name with --scratch a path that Spark's workers"
                f" share with this machine"
            ) from error
        with source:
            while head := asked_again(partial(source.read, _FRAME.size)):
                count, size = _FRAME.unpack(head)
                yield asked_again(partial(source.read, size)), count
        scratch.remove(path)


def _pack_file(
    living: pa.Table, *, archive: Archive, files: dict[str, ArchivedFile], scratch: Place
) -> pa.Table:
    """Pack the live records of one file; runs in a worker."""
    keep_loaded()
    name = living.column("file")[0].as_py()
    wanted = living.column("record_number").combine_chunks()
    path = f"{name}-{uuid.uuid4().hex[:8]}.bodies"
    total = 0
    with scratch.write_durable(path) as out:
        for body, count in packed(archive, files[name], wanted):
            out.write(_FRAME.pack(count, len(body)))
            out.write(body)
            total += count
    return pa.table({"file": [name], "path": [path], "messages": [total]})


def packed(archive: Archive, file: ArchivedFile, wanted: pa.Array) -> Iterator[tuple[bytes, int]]:
    """Give the messages with these record numbers as bodies of about `ENTRY_BYTES`."""
    records: list[Record] = []
    size = 0
    for batch in archive.batches(file, ["record_number", "kind", *_COLUMNS]):
        is_message = pc.equal(batch.column("kind"), "message")
        lives = pc.is_in(batch.column("record_number"), value_set=wanted)
        for copy in _copies(batch.filter(pc.and_(is_message, lives))):
            records.append(copy)
            size += copy.size
            if size >= ENTRY_BYTES:
                yield b"".join(encode_records(records)), len(records)
                records, size = [], 0
    if records:
        yield b"".join(encode_records(records)), len(records)


def _copies(batch: pa.RecordBatch) -> Iterator[MessageRecord]:
    """The messages as the cleaner would write them again: same identity, own redelivery count."""
    columns: list[list[Any]] = []
    for name in _COLUMNS:
        column = batch.column(name)
        if pa.types.is_timestamp(column.type):
            column = column.cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
        columns.append(column.to_pylist())
    for number, sequence, headers, body, producer, own, count, stored_at, sealed_at, facts in zip(
        *columns, strict=True
    ):
        copy = MessageRecord(
            number, sequence, headers, body, len(headers) + len(body), producer, own or 0
        )
        copy.rewritten = True
        copy.redelivery_count = count or 0
        copy.stored_at = stored_at or sealed_at
        if facts is not None:
            copy.facts = unpack_facts(facts)
        yield copy

"""
Live messages packed into the bodies of log entries, by workers, each its own data files.

Contents never pass through Java: a worker is told which records of a file live, reads them from the
file itself, and leaves bodies ready to be sealed in a scratch folder. The driver reads them back in
the order of the archive.

A message that stood on several queues comes back once, on those of its places where it lived. One
that was moved comes back where it was moved to, with the way that it came; a copy by itself.

Layout of a scratch file, repeated: u32 records, u32 places, u32 bytes, the body.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterator
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from holdfast.broker.lasting.schedule import put_due
from holdfast.broker.moved import as_moved
from holdfast.errors import ArchiveError
from holdfast.model.facts import MessageFacts
from holdfast.model.facts import Place as Standing
from holdfast.model.records import FiredRecord, MessageRecord, MoveRecord, Record
from holdfast.spark.archive.manifests import ArchivedFile
from holdfast.spark.archive.places import Place
from holdfast.spark.archive.store import Archive
from holdfast.spark.archive.store_answers import asked_again
from holdfast.spark.source.partitions import tasks_for
from holdfast.spark.worker_memory import keep_loaded
from holdfast.store.fact_blocks import unpack_facts
from holdfast.store.record_codec import decode_records, encode_records

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

ENTRY_BYTES: Final = 1024 * 1024
"""Messages are packed into entries of about this size."""
TASKS_MAX: Final = 256
_FRAME: Final = struct.Struct("<III")
PLACE_COLUMNS: Final = ("record_number", "queue_number", "sequence", "move")
"""What says that a message lives on a queue, and of one that was moved there what moved it; of one
that is scheduled, when it is due since it was sent."""
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
    archive: Archive, files: list[ArchivedFile], living: DataFrame, scratch: Place, cluster: str
) -> list[str]:
    """
    Pack what lives of each file; gives the scratch files in the order of the archive.

    `living` has file, the name of the data file, and record_number, queue_number and sequence, a
    row for each place.
    """
    by_name = {file.path.rpartition("/")[2]: file for file in files}

    def task(rows: pa.Table) -> pa.Table:  # Spark looks at these types
        return _pack_file(rows, archive=archive, files=by_name, scratch=scratch, cluster=cluster)

    cores = living.sparkSession.sparkContext.defaultParallelism
    count = min(tasks_for(files, cores), TASKS_MAX)
    places = living.select("file", *PLACE_COLUMNS).repartition(count, "file")
    rows = places.groupBy("file").applyInArrow(task, _PARTS).collect()
    rows.sort(key=lambda row: by_name[row["file"]].first_index)
    return [row["path"] for row in rows]


class Packed(NamedTuple):
    """The body of an entry."""

    body: bytes
    records: int
    places: int
    """On how many queues these messages stand, each message's together."""


def unpacked(scratch: Place, paths: list[str]) -> Iterator[Packed]:
    """
    Give the bodies in these scratch files; each file is removed once read.

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
                records, places, size = _FRAME.unpack(head)
                yield Packed(asked_again(partial(source.read, size)), records, places)
        scratch.remove(path)


def _pack_file(
    living: pa.Table,
    *,
    archive: Archive,
    files: dict[str, ArchivedFile],
    scratch: Place,
    cluster: str,
) -> pa.Table:
    """Pack the live records of one file; runs in a worker."""
    keep_loaded()
    name = living.column("file")[0].as_py()
    path = f"{name}-{uuid.uuid4().hex[:8]}.bodies"
    total = 0
    with scratch.write_durable(path) as out:
        for each in packed(archive, files[name], living.select(PLACE_COLUMNS), cluster):
            out.write(_FRAME.pack(each.records, each.places, len(each.body)))
            out.write(each.body)
            total += each.places
    return pa.table({"file": [name], "path": [path], "messages": [total]})


def packed(
    archive: Archive, file: ArchivedFile, living: pa.Table, cluster: str
) -> Iterator[Packed]:
    """
    Give the messages that live as bodies of about `ENTRY_BYTES`.

    `living` has the columns of `PLACE_COLUMNS`, a row for each place.
    """
    wanted = living.column("record_number").combine_chunks()
    lives = cache(lambda: _by_record(living))
    moves = living.column("move")
    has_moves = moves.null_count < len(moves)
    records: list[Record] = []
    size = places = 0
    for batch in archive.batches(file, ["record_number", "kind", *_COLUMNS]):
        is_message = pc.equal(batch.column("kind"), "message")
        is_wanted = pc.is_in(batch.column("record_number"), value_set=wanted)
        chosen = batch.filter(pc.and_(is_message, is_wanted))
        numbers = chosen.column("record_number").to_pylist()
        for number, copy in zip(numbers, _copies(chosen), strict=True):
            is_plain = not has_moves and (copy.facts is None or not copy.facts.places)
            found = [copy] if is_plain else _standing(copy, lives()[number], cluster)
            records += found
            size += sum(each.size for each in found)
            places += sum(len(each.places) for each in found)
            if size >= ENTRY_BYTES:
                yield Packed(b"".join(encode_records(records)), len(records), places)
                records, size, places = [], 0, 0
    if records:
        yield Packed(b"".join(encode_records(records)), len(records), places)


_Standing = dict[int, list[tuple[Standing, bytes | None]]]


def _by_record(living: pa.Table) -> _Standing:
    """Give where each record's message lives, and what moved it there."""
    found: _Standing = {}
    columns = [living.column(it).to_pylist() for it in PLACE_COLUMNS]
    for number, queue_number, sequence, move in zip(*columns, strict=True):
        found.setdefault(number, []).append((Standing(queue_number, sequence), move))
    return found


def _standing(
    content: MessageRecord, places: list[tuple[Standing, bytes | None]], cluster: str
) -> list[MessageRecord]:
    """Give the records of a message: one where it was sent to, one for each place of a move."""
    found = []
    lives: set[Standing] = set()
    for place, packed_move in places:
        move = None if packed_move is None else next(decode_records(packed_move))
        if isinstance(move, FiredRecord):
            put_due(content, move.due_ms, move.repeats)
            lives.add(place)
        elif move is None:
            lives.add(place)
        else:
            assert isinstance(move, MoveRecord), "it was found as one"
            moved = as_moved(content, move, *place, cluster)
            moved.rewritten = True
            found.append(moved)
    if lives:
        if content.facts is not None and content.facts.places:
            _keep_places(content, [it for it in content.places if it in lives])
        found.insert(0, content)
    return found


def _keep_places(copy: MessageRecord, kept: list[Standing]) -> None:
    """Let it stand on these alone."""
    assert copy.facts is not None
    copy.queue_number, copy.sequence = kept[0]
    only = replace(copy.facts, places=tuple(kept[1:]))
    copy.facts = None if only == MessageFacts() else only


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

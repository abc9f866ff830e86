"""
Log entries to Arrow batches: the view `events`, one row per record.

Messages, of which there are most, are cut as arrays. Of the other records each is decoded by the
codec and its fields are put into their rows; an acknowledgement carries many sequences, so there
are few of them. Entries that the cluster writes for itself have one row without a record number.

Invariants:
    Every record has exactly one row, in the order of the log.

Pure: no Spark, no disk, no clock.
"""

from __future__ import annotations

import json
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from holdfast.journal.entry import KIND_CONFIG, KIND_NOOP
from holdfast.journal.record import RECORD_HEADER_BYTES
from holdfast.model.access_records import AuditRecord, GrantRecord, UserRecord
from holdfast.model.facts import MessageFacts, Place
from holdfast.model.records import (
    AcknowledgeRecord,
    CleanedRecord,
    CountersRecord,
    DeadLetterRecord,
    DispatchMarkRecord,
    FiredRecord,
    FormatRecord,
    HoldRecord,
    MoveRecord,
    PolicyRecord,
    ProducerRecord,
    PurgeRecord,
    QueueRecord,
    Record,
    ReturnedRecord,
)
from holdfast.model.topic_records import (
    CountedRecord,
    DetachedRecord,
    SubscriptionRecord,
    TopicRecord,
)
from holdfast.spark.columns.arrow_cut import cut_binary, integers, with_nulls
from holdfast.spark.columns.facts import FACT_COLUMNS, fact_column
from holdfast.spark.columns.messages import queue_column
from holdfast.spark.columns.schema import SEQUENCES, TIMESTAMP, arrow_schema
from holdfast.spark.log.entry_block import EntryBlock, Integers
from holdfast.spark.log.naming import Naming, declared_name
from holdfast.spark.log.record_table import MESSAGE_TYPE, MessageRows, RecordTable
from holdfast.spark.log.row_filter import INDEX_MAX, RowFilter
from holdfast.store import access_codec
from holdfast.store.access_rows import access_row
from holdfast.store.fact_blocks import PLACES, SKIPS
from holdfast.store.record_codec import (
    ACKNOWLEDGE,
    CLEANED,
    COUNTED,
    COUNTERS,
    DEAD_LETTER,
    DELETE_QUEUE,
    DETACHED,
    DISPATCH_MARK,
    FIRED,
    FLAG_REWRITTEN,
    FORGET_PRODUCER,
    FORMAT,
    HOLD,
    MESSAGE,
    MOVE,
    POLICY,
    PRODUCER,
    PURGE,
    QUEUE,
    RETURNED,
    SUBSCRIPTION,
    TOPIC,
    decode_records,
)
from holdfast.store.topic_rows import TopicRecords, topic_row

EVENT_KINDS: Final = {
    MESSAGE: "enqueue",
    ACKNOWLEDGE: "acknowledge",
    QUEUE: "declare",
    DISPATCH_MARK: "dispatch-mark",
    PURGE: "purge",
    DELETE_QUEUE: "delete",
    PRODUCER: "producer",
    FORGET_PRODUCER: "forget-producer",
    COUNTERS: "counters",
    CLEANED: "cleaned",
    DEAD_LETTER: "dead-letter",
    HOLD: "hold",
    FORMAT: "format",
    POLICY: "policy",
    RETURNED: "returned",
    MOVE: "move",
    FIRED: "fired",
    TOPIC: "declare-topic",
    SUBSCRIPTION: "declare-subscription",
    DETACHED: "detached",
    COUNTED: "counted",
    **access_codec.NAMES,
}
REWRITE: Final = "rewrite"
NOOP: Final = "noop"
CONFIG: Final = "config"

_REWRITE_CODE: Final = 0
_NAMES: Final = [REWRITE] + [EVENT_KINDS.get(code, "") for code in range(1, max(EVENT_KINDS) + 1)]
_PRODUCER_STATE_BYTES: Final = 16

_INTEGERS: Final = (
    "queue_number",
    "first_sequence",
    "last_sequence",
    "count",
    "producer_sequence",
    "stored_at",
    "message_bytes",
    "next_sequence",
    "dispatch_mark",
    "index_to",
)


def event_batch(
    block: EntryBlock,
    columns: tuple[str, ...],
    naming: Naming,
    wanted: RowFilter | None = None,
) -> pa.RecordBatch:
    """
    Return one row per record of the block, and one per entry that has none.

    Declarations of queues inside the block are learned on the way.

    Raises:
        CorruptRecordError: A record makes no sense; the sentence names entry and byte.
    """
    table = RecordTable(block)
    rows = _EventRows(table, naming)
    found = {name: rows.column(name) for name in columns}
    schema = arrow_schema("events", columns)
    batch = pa.RecordBatch.from_arrays([found[name] for name in columns], schema=schema)
    batch = _with_own_entries(block, batch, table)
    return batch if wanted is None else _kept(batch, rows, wanted)


class _Values:
    """One nullable column of numbers, filled here and there."""

    __slots__ = ("valid", "values")

    def __init__(self, count: int) -> None:
        self.values: Integers = np.zeros(count, dtype=np.int64)
        self.valid: npt.NDArray[np.bool_] = np.zeros(count, dtype=np.bool_)

    def put(self, rows: Any, values: Any) -> None:
        self.values[rows] = values
        self.valid[rows] = True


class _EventRows:
    """The records of a block with everything the columns are made of."""

    __slots__ = (
        "details",
        "facts",
        "naming",
        "numbers",
        "producer_ends",
        "producer_starts",
        "sequences",
        "table",
    )

    def __init__(self, table: RecordTable, naming: Naming) -> None:
        count = len(table)
        self.table = table
        self.naming = naming
        self.numbers = {name: _Values(count) for name in _INTEGERS}
        self.producer_starts: Integers = np.zeros(count, dtype=np.int64)
        self.producer_ends: Integers = np.zeros(count, dtype=np.int64)
        self.details: dict[int, str] = {}
        self.facts: dict[int, MessageFacts] = {}
        """Of messages that stand on several queues, or that subscriptions skip; of what was moved,
        where it stands now."""
        self.sequences: dict[int, list[int]] = {}
        self._take_messages()
        self._take_others()

    def _take_messages(self) -> None:
        rows = np.flatnonzero(self.table.is_message)
        messages = MessageRows(self.table)
        put = self.numbers
        sequences = messages.field("sequence")
        put["queue_number"].put(rows, messages.field("queue_number"))
        put["first_sequence"].put(rows, sequences)
        put["last_sequence"].put(rows, sequences)
        put["count"].put(rows, 1)
        put["stored_at"].put(rows, messages.stored_at)
        put["message_bytes"].put(rows, messages.body_ends - messages.header_starts)
        self.facts = {int(rows[row]): it for row, it in messages.facts(PLACES | SKIPS).items()}
        has = messages.has_producer
        if has.any():
            starts = messages.starts[has] + MESSAGE_TYPE.itemsize
            buffer = self.table.block.buffer
            everywhere: npt.NDArray[np.uint64] = np.ndarray(
                (len(buffer) - 7,), dtype="<u8", buffer=buffer, strides=(1,)
            )
            put["producer_sequence"].put(rows[has], everywhere[starts])
            self.producer_starts[rows[has]] = starts + 8
            self.producer_ends[rows[has]] = messages.fact_starts[has]

    def _take_others(self) -> None:
        table = self.table
        buffer = table.block.buffer
        rows = np.flatnonzero(~table.is_message)
        starts = table.starts[rows].tolist()
        ends = (table.starts[rows] + RECORD_HEADER_BYTES + table.lengths[rows]).tolist()
        for row, start, end in zip(rows.tolist(), starts, ends, strict=True):
            # decode_records checks what the broker checks.
            for record in decode_records(buffer[start:end]):
                self._take(row, record)
        offset = RECORD_HEADER_BYTES
        types = table.types[rows]
        for kind, before in ((PRODUCER, _PRODUCER_STATE_BYTES), (FORGET_PRODUCER, 0)):
            chosen = rows[types == kind]
            begin = table.starts[chosen] + offset
            self.producer_starts[chosen] = begin + before
            self.producer_ends[chosen] = begin + table.lengths[chosen]

    def _take(self, row: int, record: Record) -> None:
        number = getattr(record, "queue_number", None)
        if number is not None:
            self._put(row, queue_number=number)
        match record:
            case AcknowledgeRecord() | DeadLetterRecord() | ReturnedRecord():
                found = record.sequences
                self.sequences[row] = found
                self._put(row, count=len(found))
                if found:
                    self._put(row, first_sequence=min(found), last_sequence=max(found))
                if isinstance(record, ReturnedRecord):
                    cause = record.cause.name.lower()
                    self.details[row] = json.dumps(
                        {"cause": cause, "due_ms": record.due_ms or None}
                    )
            case MoveRecord():
                self._take_move(row, record)
            case TopicRecord() | SubscriptionRecord() | DetachedRecord() | CountedRecord():
                self._take_topic(row, record)
            case FiredRecord():
                self._put(row, count=1)
                self._put(row, first_sequence=record.sequence, last_sequence=record.sequence)
                self.details[row] = json.dumps({"due_ms": record.due_ms, "repeats": record.repeats})
            case QueueRecord():
                self.naming.names[record.queue_number] = record.name
                self._put(row, next_sequence=record.next_sequence)
                self._put(row, dispatch_mark=record.dispatch_mark)
            case DispatchMarkRecord():
                self._put(row, dispatch_mark=record.mark)
            case PurgeRecord():
                self._put(row, first_sequence=1, last_sequence=record.through_sequence)
            case ProducerRecord():
                self._put(row, producer_sequence=record.sequence)
                self.details[row] = json.dumps({"used_at": record.used_at})
            case CleanedRecord():
                self._put(row, index_to=record.through_index)
            case HoldRecord():
                self._put(row, index_to=record.index)
                fields = {
                    "name": record.name,
                    "bytes_max": record.bytes_max,
                    "lost_through": record.lost_through,
                }
                self.details[row] = json.dumps(fields)
            case FormatRecord():
                self.details[row] = json.dumps({"level": record.level})
            case PolicyRecord():
                fields = {
                    "pattern": record.pattern,
                    "revision": record.revision,
                    "values": json.loads(record.values) if record.values else None,
                }
                self.details[row] = json.dumps(fields)
            case UserRecord() | GrantRecord() | AuditRecord():
                self.details[row] = json.dumps(access_row(record)[1])
            case CountersRecord():
                self.details[row] = json.dumps({"next_queue_number": record.next_queue_number})
            case _:
                pass  # delete and forget-producer have nothing more to tell

    def _take_topic(self, row: int, record: TopicRecords) -> None:
        """Note what is said of a topic or subscription, in `detail` what has no column."""
        _, fields = topic_row(record)
        if isinstance(record, TopicRecord | SubscriptionRecord):
            number, name = declared_name(record, self.naming.names)
            self.naming.names[number] = name
            self._put(row, queue_number=number)
        if isinstance(record, TopicRecord):
            self._put(row, next_sequence=record.next_sequence)
        elif isinstance(record, SubscriptionRecord):
            self._put(row, first_sequence=record.first_sequence)
            self._put(row, dispatch_mark=record.dispatch_mark)
        elif isinstance(record, DetachedRecord):
            self._put(row, queue_number=record.number)
        else:
            found = self.sequences[row] = fields.pop("sequences")
            self._put(row, count=len(found), first_sequence=min(found), last_sequence=max(found))
        self.details[row] = json.dumps(fields)

    def _take_move(self, row: int, record: MoveRecord) -> None:
        found = record.sequences
        self.sequences[row] = found
        self._put(row, count=len(found), first_sequence=min(found), last_sequence=max(found))
        places = tuple(Place(record.target_number, it) for it in record.target_sequences)
        if places:
            self.facts[row] = MessageFacts(places=places)
        fields = {
            "cause": record.cause.name.lower(),
            "queue": record.queue_name,
            "copy": record.is_copy,
            "reason": record.reason or None,
        }
        self.details[row] = json.dumps(fields)

    def _put(self, row: int, **values: int) -> None:
        for name, value in values.items():
            self.numbers[name].put(row, value)

    def column(self, name: str) -> pa.Array:
        """Return one column of the view."""
        table = self.table
        block = table.block
        count = len(table)
        if name in self.numbers:
            found = self.numbers[name]
            kind = TIMESTAMP if name == "stored_at" else pa.int64()
            return integers(found.values, kind, found.valid)
        if name == "index":
            return integers(table.entries + block.first_index, pa.int64())
        if name == "ordinal":
            return integers(table.ordinals, pa.int32())
        if name == "record_number":
            first = block.field("first_record")[table.entries]
            return integers(first + table.ordinals, pa.int64())
        if name == "term":
            return integers(block.field("term")[table.entries], pa.int64())
        if name == "time":
            return integers(block.field("timestamp")[table.entries], TIMESTAMP)
        if name == "kind":
            return self._kinds()
        if name == "destination":
            numbers = self.numbers["queue_number"]
            return queue_column(numbers.values, self.naming, numbers.valid)
        if name == "sequences":
            return self._sequences()
        if name == "producer_id":
            ids = cut_binary(block.buffer, self.producer_starts, self.producer_ends)
            return with_nulls(ids.cast(pa.string()), self.producer_ends > 0)
        if name in FACT_COLUMNS:
            return fact_column(name, self.facts, count)
        if name == "detail" and self.details:
            return pa.array([self.details.get(row) for row in range(count)], pa.string())
        return pa.nulls(count, pa.string())  # detail without any; problem

    def _kinds(self) -> pa.Array:
        table = self.table
        is_copy = table.is_message & ((table.flags & FLAG_REWRITTEN) != 0)
        codes = np.where(is_copy, _REWRITE_CODE, table.types).astype(np.int32)
        return pa.array(_NAMES, pa.string()).take(pa.array(codes))

    def _sequences(self) -> pa.Array:
        count = len(self.table)
        if not self.sequences:
            return pa.nulls(count, SEQUENCES)
        lengths = np.zeros(count + 1, dtype=np.int32)
        valid = np.zeros(count, dtype=np.bool_)
        values: list[int] = []
        for row, found in sorted(self.sequences.items()):
            lengths[row + 1] = len(found)
            valid[row] = True
            values += found
        bits = pa.py_buffer(np.packbits(valid, bitorder="little"))
        offsets = pa.py_buffer(np.cumsum(lengths, dtype=np.int32))
        return pa.Array.from_buffers(
            SEQUENCES, count, [bits, offsets], children=[pa.array(values, pa.int64())]
        )


def _own_entries(block: EntryBlock) -> Integers:
    kinds = block.field("kind")
    return np.flatnonzero((kinds == KIND_NOOP) | (kinds == KIND_CONFIG))


def _with_own_entries(
    block: EntryBlock, batch: pa.RecordBatch, table: RecordTable
) -> pa.RecordBatch:
    """Put the rows of the cluster's own entries where they belong."""
    own = _own_entries(block)
    if not len(own):
        return batch
    kinds = block.field("kind")
    rows: list[dict[str, Any]] = []
    for position in own.tolist():
        is_config = kinds[position] == KIND_CONFIG
        body = block.buffer[block.body_starts[position] : block.body_ends[position]]
        row = {
            "index": block.first_index + position,
            "ordinal": 0,
            "term": int(block.field("term")[position]),
            "time": int(block.field("timestamp")[position]),
            "kind": CONFIG if is_config else NOOP,
            "detail": body.decode("utf-8", "replace") if is_config else None,
        }
        rows.append(row)
    arrays = [pa.array([row.get(field.name) for row in rows], field.type) for field in batch.schema]
    extra = pa.RecordBatch.from_arrays(arrays, schema=batch.schema)
    order = np.argsort(np.concatenate([table.entries, own]), kind="stable")
    joined = pa.Table.from_batches([batch, extra]).combine_chunks()
    return joined.take(pa.array(order)).combine_chunks().to_batches()[0]


def _kept(batch: pa.RecordBatch, rows: _EventRows, wanted: RowFilter) -> pa.RecordBatch:
    """Leave out what the filter leaves out; the cluster's own entries have no destination."""
    if wanted.destinations is None and wanted.time_min <= 0 and wanted.time_max == INDEX_MAX:
        return batch
    block = rows.table.block
    own = _own_entries(block)
    entries = np.concatenate([rows.table.entries, own])
    times = block.field("timestamp")[entries]
    mask = (times >= wanted.time_min) & (times <= wanted.time_max)
    if wanted.destinations is not None:
        numbers = rows.numbers["queue_number"]
        of_queue = wanted.of_destinations(numbers.values, rows.naming) & numbers.valid
        mask &= np.concatenate([of_queue, np.zeros(len(own), dtype=np.bool_)])
    return batch.filter(pa.array(mask[np.argsort(entries, kind="stable")]))

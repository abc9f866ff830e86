"""
Log entries to the rows that an archive keeps; `entries.py` makes them entries again.

One row per record, in the order of the log. A message's fields stand in columns of their own, and
in `record` its facts if it has any; any other record keeps its bytes there beside the columns that
a query wants. What the entry's
header says (index, term, time, chain) is repeated in every row of it: columns compress that away.
So any unbroken run of rows gives its entries again, and the chain hash proves that not a byte
differs. That is what audit and restore rest on.

Invariants:
    entries_of(rows(entries)) gives the same entries, `raw` included.
    A number that does not apply is null; null reads back as 0.

Pure: Arrow in memory, no files, no Spark.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from holdfast.journal.entry import CHAIN_BYTES, HEADER_BYTES, KIND_CONFIG, KIND_NOOP, KIND_RECORDS
from holdfast.journal.record import RECORD_HEADER_BYTES
from holdfast.model.records import (
    AcknowledgeRecord,
    CleanedRecord,
    CountersRecord,
    DeadLetterRecord,
    DispatchMarkRecord,
    FiredRecord,
    ForgetProducerRecord,
    HoldRecord,
    MoveRecord,
    ProducerRecord,
    PurgeRecord,
    QueueRecord,
    Record,
    ReturnedRecord,
)
from holdfast.model.topic_records import CountedRecord, SubscriptionRecord, TopicRecord
from holdfast.spark.columns.arrow_cut import cut_binary, integers, with_nulls
from holdfast.spark.columns.schema import TIMESTAMP
from holdfast.spark.log.entry_block import EntryBlock
from holdfast.spark.log.fact_places import structures
from holdfast.spark.log.naming import declared_name
from holdfast.spark.log.record_table import MESSAGE_TYPE, MessageRows, RecordTable
from holdfast.store.fact_blocks import FACT_FLAGS, PLACES, SKIPS, pack_facts
from holdfast.store.record_codec import (
    ACKNOWLEDGE,
    COUNTED,
    DEAD_LETTER,
    DELETE_QUEUE,
    DETACHED,
    DISPATCH_MARK,
    FIRED,
    FLAG_REWRITTEN,
    MOVE,
    PURGE,
    QUEUE,
    RETURNED,
    SUBSCRIPTION,
    TOPIC,
    TYPE_NAMES,
    decode_records,
)

RECORDS: Final = pa.schema(
    [
        ("index", pa.int64()),
        ("ordinal", pa.int32()),
        ("record_number", pa.int64()),
        ("term", pa.int64()),
        ("entry_kind", pa.int32()),
        ("entry_time", TIMESTAMP),
        ("chain", pa.binary()),
        ("kind", pa.string()),
        ("queue_number", pa.int64()),
        ("destination", pa.string()),
        ("sequence", pa.int64()),
        ("stored_at", TIMESTAMP),
        ("producer_id", pa.string()),
        ("producer_sequence", pa.int64()),
        ("redelivery_count", pa.int32()),
        ("rewritten", pa.bool_()),
        ("header_lines", pa.binary()),
        ("body", pa.binary()),
        ("body_size", pa.int64()),
        ("sequences", pa.list_(pa.int64())),
        ("through_sequence", pa.int64()),
        ("next_sequence", pa.int64()),
        ("dispatch_mark", pa.int64()),
        ("record", pa.binary()),
    ]
)
"""The columns of an archive's data files."""

CONTENT: Final = ("header_lines", "body", "record")
"""What takes the room; all the rest is for questions that read no message."""

NO_RECORDS: Final = {KIND_NOOP: "noop", KIND_CONFIG: "config", KIND_RECORDS: "empty"}
"""What the one row of an entry without records is called."""
ENTRY_ROW: Final = -1
"""The ordinal of that row."""

_HAS_QUEUE: Final = np.array(
    [
        *(ACKNOWLEDGE, DEAD_LETTER, QUEUE, DISPATCH_MARK, PURGE, DELETE_QUEUE, RETURNED, MOVE),
        *(FIRED, TOPIC, SUBSCRIPTION, DETACHED, COUNTED),
    ]
)
"""The types of record whose payload begins with the number of a queue, topic or subscription; where
it is flagged as said of a subscription the topic's stands before it."""
_TOPIC_BYTES: Final = 4
_WANTED: Final = np.array([MOVE, TOPIC, SUBSCRIPTION])
"""The types of record whose bytes are wanted also without contents."""
_NUMBER: Final = np.dtype([("number", "<u4")])
_SEQUENCE: Final = np.dtype([("number", "<u8")])

Numbers = npt.NDArray[np.int64]


@dataclass(slots=True)
class RangeFacts:
    """What is found in passing while rows are made."""

    names: dict[int, str] = field(default_factory=dict)
    """Queue names by number, as far as they are known; grows."""
    declared: dict[int, str] = field(default_factory=dict)
    unknown: set[int] = field(default_factory=set)
    """Queues whose name was not known when a row of theirs was made."""
    messages: int = 0
    rows: int = 0
    cleaned_through: int = 0
    complete_from: int = 0


def block_rows(
    block: EntryBlock, facts: RangeFacts, *, with_content: bool = True
) -> pa.RecordBatch:
    """
    Give the rows of a block of entries; without content the columns of `CONTENT` are null, all but
    the facts of messages that stand on several queues, or that not all subscriptions of a topic
    want, and the records that move messages and declare topics and subscriptions.

    Raises:
        CorruptRecordError: A record makes no sense; the sentence names entry and byte.
    """
    rows = _Rows(block)
    events = _read_events(rows, facts)
    facts.messages += len(rows.messages)
    facts.rows += rows.count
    of_entry = rows.entries
    timestamps = block.field("timestamp")[of_entry]
    chains = block.starts + HEADER_BYTES - CHAIN_BYTES
    queue_numbers = rows.queue_numbers()
    messages = rows.messages
    stored_at = rows.of_messages(messages.field("stored_at")) + events["stored_at"]
    sizes = rows.of_messages(messages.body_ends - messages.body_starts)
    is_copy = (messages.fixed["flags"] & FLAG_REWRITTEN) != 0
    numbers = block.field("first_record")[of_entry] + np.maximum(rows.ordinals, 0)
    columns = {
        "index": integers(of_entry + block.first_index, pa.int64()),
        "ordinal": integers(rows.ordinals, pa.int32()),
        "record_number": integers(numbers, pa.int64()),
        "term": integers(block.field("term")[of_entry], pa.int64()),
        "entry_kind": integers(block.field("kind")[of_entry], pa.int32()),
        "entry_time": integers(timestamps, TIMESTAMP),
        "chain": cut_binary(block.buffer, chains, chains + CHAIN_BYTES).take(
            integers(of_entry, pa.int64())
        ),
        "kind": _kinds().take(integers(rows.kinds, pa.int64())),
        "queue_number": integers(queue_numbers, pa.int64(), queue_numbers > 0),
        "destination": _destinations(queue_numbers, facts),
        "sequence": rows.message_numbers("sequence"),
        "stored_at": integers(stored_at, TIMESTAMP, stored_at > 0),
        "producer_id": _producer_ids(rows, events["producer_id"]),
        "producer_sequence": _producer_numbers(rows, events["producer_sequence"]),
        "redelivery_count": integers(
            rows.of_messages(np.where(is_copy, messages.field("redelivery_count"), 0)), pa.int32()
        ),
        "rewritten": with_nulls(
            pa.array(rows.of_messages(is_copy.astype(np.int64)) > 0), rows.is_message
        ),
        "body_size": integers(sizes, pa.int64(), rows.is_message),
        "sequences": _sequences(rows, events["sequences"]),
        "through_sequence": _some(events["through_sequence"]),
        "next_sequence": _some(events["next_sequence"]),
        "dispatch_mark": _some(events["dispatch_mark"]),
    }
    columns |= _content(rows) if with_content else _without_content(rows)
    return pa.RecordBatch.from_arrays([columns[name] for name in RECORDS.names], schema=RECORDS)


class _Rows:
    """Which rows a block has: one per record, and one per entry that has none."""

    def __init__(self, block: EntryBlock) -> None:
        self.block = block
        table = self.table = RecordTable(block)
        counts = np.bincount(table.entries, minlength=len(block))
        self.entries: Numbers = np.repeat(np.arange(len(block)), np.maximum(counts, 1))
        self.count = len(self.entries)
        self.records = np.flatnonzero(counts[self.entries] > 0)
        """The rows that are records."""
        self.empty = np.flatnonzero(counts[self.entries] == 0)
        self.ordinals: Numbers = np.full(self.count, ENTRY_ROW)
        self.ordinals[self.records] = table.ordinals
        self.messages = MessageRows(table)
        self.message_rows = self.records[table.is_message]
        self.is_message = np.zeros(self.count, dtype=np.bool_)
        self.is_message[self.message_rows] = True
        self.kinds: Numbers = np.zeros(self.count, dtype=np.int64)
        self.kinds[self.records] = table.types
        places = np.array([list(NO_RECORDS).index(kind) for kind in (0, 1, 2)])
        self.kinds[self.empty] = 256 + places[block.field("kind")[self.entries[self.empty]]]

    def of_messages(self, values: Numbers) -> Numbers:
        """The values in the rows of messages, 0 in all others."""
        if len(values) == self.count:
            return values
        found = np.zeros(self.count, dtype=np.int64)
        found[self.message_rows] = values
        return found

    def message_numbers(self, name: str) -> pa.Array:
        """One fixed field of messages; null in all other rows."""
        return integers(self.of_messages(self.messages.field(name)), pa.int64(), self.is_message)

    def cut(self, starts: Numbers, ends: Numbers) -> pa.Array:
        """A piece of every message; null in all other rows."""
        buffer = self.block.buffer
        pieces = cut_binary(buffer, self.of_messages(starts), self.of_messages(ends))
        return with_nulls(pieces, self.is_message)

    def cut_others_and_facts(self) -> pa.Array:
        """The framed bytes of what is no message, the facts of what is one and has any."""
        others = self.cut_others()
        return self.with_facts(others.to_pylist()) if self.messages.has_facts else others

    def with_facts(self, values: list[bytes | None], kinds: int = FACT_FLAGS) -> pa.Array:
        """These values, and in the rows of messages that have any of these kinds the facts."""
        for place, known in self.messages.facts(kinds).items():
            values[int(self.message_rows[place])] = pack_facts(known)
        return pa.array(values, pa.binary())

    def cut_others(self) -> pa.Array:
        """The framed bytes of what is no message; the body of an entry without records."""
        table, block = self.table, self.block
        starts, ends = np.zeros(self.count, np.int64), np.zeros(self.count, np.int64)
        starts[self.records] = table.starts
        ends[self.records] = table.starts + RECORD_HEADER_BYTES + table.lengths
        starts[self.empty] = block.body_starts[self.entries[self.empty]]
        ends[self.empty] = block.body_ends[self.entries[self.empty]]
        starts[self.message_rows] = ends[self.message_rows] = 0
        return with_nulls(cut_binary(block.buffer, starts, ends), ~self.is_message)

    def queue_numbers(self) -> Numbers:
        """The queue of each row, 0 where there is none."""
        found = self.of_messages(self.messages.field("queue_number"))
        table = self.table
        having = np.flatnonzero(np.isin(table.types, _HAS_QUEUE))
        if len(having):
            found = found.copy()
            payloads = table.starts[having] + RECORD_HEADER_BYTES
            payloads += _TOPIC_BYTES * table.is_of_topic[having]
            numbers = structures(self.block.buffer, payloads, _NUMBER)["number"]
            found[self.records[having]] = numbers
        return found


def _read_events(rows: _Rows, facts: RangeFacts) -> dict[str, Any]:
    """Decode what is no message, one by one: there are few of them."""
    table, block = rows.table, rows.block
    found: dict[str, Any] = {
        name: np.zeros(rows.count, dtype=np.int64)
        for name in (
            "stored_at",
            "producer_sequence",
            "through_sequence",
            "next_sequence",
            "dispatch_mark",
        )
    }
    found["producer_id"], found["sequences"] = {}, {}
    others = np.flatnonzero(~table.is_message)
    starts = table.starts[others].tolist()
    lengths = table.lengths[others].tolist()
    for which, start, length in zip(others.tolist(), starts, lengths, strict=True):
        row = int(rows.records[which])
        framed = block.buffer[start : start + RECORD_HEADER_BYTES + length]
        record = next(decode_records(framed))
        _note(record, row, found, facts, block.first_index + int(rows.entries[row]))
    return found


def _note(record: Record, row: int, found: dict[str, Any], facts: RangeFacts, index: int) -> None:
    match record:
        case AcknowledgeRecord() | DeadLetterRecord() | ReturnedRecord():
            found["sequences"][row] = record.sequences
        case TopicRecord() | SubscriptionRecord():
            number, name = declared_name(record, facts.names)
            facts.names[number] = facts.declared[number] = name
            _note_topic(record, row, found)
        case CountedRecord():
            found["sequences"][row] = record.sequences
        case FiredRecord():
            found["sequences"][row] = [record.sequence]
        case MoveRecord():
            # What is copied stays: the row names only what leaves its queue.
            if not record.is_copy:
                found["sequences"][row] = record.sequences
        case QueueRecord():
            facts.names[record.queue_number] = facts.declared[record.queue_number] = record.name
            found["next_sequence"][row] = record.next_sequence
            found["dispatch_mark"][row] = record.dispatch_mark
        case DispatchMarkRecord():
            found["dispatch_mark"][row] = record.mark
        case PurgeRecord():
            found["through_sequence"][row] = record.through_sequence
        case ProducerRecord():
            found["producer_id"][row] = record.producer_id
            found["producer_sequence"][row] = record.sequence
            found["stored_at"][row] = record.used_at
        case ForgetProducerRecord():
            found["producer_id"][row] = record.producer_id
        case CountersRecord():
            found["next_sequence"][row] = record.next_queue_number
        case CleanedRecord():
            found["through_sequence"][row] = record.through_index
            if record.through_index > facts.cleaned_through:
                facts.cleaned_through, facts.complete_from = record.through_index, index
        case HoldRecord():
            found["through_sequence"][row] = record.index


def _note_topic(record: TopicRecord | SubscriptionRecord, row: int, found: dict[str, Any]) -> None:
    if isinstance(record, TopicRecord):
        found["next_sequence"][row] = record.next_sequence
        return
    found["through_sequence"][row] = record.first_sequence - 1
    found["dispatch_mark"][row] = record.dispatch_mark


def _content(rows: _Rows) -> dict[str, pa.Array]:
    messages = rows.messages
    return {
        "header_lines": rows.cut(messages.header_starts, messages.body_starts),
        "body": rows.cut(messages.body_starts, messages.body_ends),
        "record": rows.cut_others_and_facts(),
    }


def _without_content(rows: _Rows) -> dict[str, pa.Array]:
    columns = {name: pa.nulls(rows.count, pa.binary()) for name in CONTENT}
    is_wanted = np.isin(rows.table.types, _WANTED)
    values: list[bytes | None] = [None] * rows.count
    if is_wanted.any():
        # What was moved, and where to, is no content; nor is who needs what of a topic.
        framed = rows.cut_others()
        for row in rows.records[is_wanted].tolist():
            values[row] = framed[row].as_py()
    if rows.messages.has_facts:
        columns["record"] = rows.with_facts(values, PLACES | SKIPS)
    elif is_wanted.any():
        columns["record"] = pa.array(values, pa.binary())
    return columns


def _destinations(queue_numbers: Numbers, facts: RangeFacts) -> pa.Array:
    """The name of each row's queue; a queue whose name is not known is noted."""
    names = _names(queue_numbers, facts.names)
    if names.null_count:
        unnamed = (queue_numbers > 0) & np.asarray(names.is_null())
        facts.unknown |= set(np.unique(queue_numbers[unnamed]).tolist())
    return names


def _names(numbers: Numbers, names: dict[int, str]) -> pa.Array:
    """The names of these queues; null for 0 and where it is not known."""
    encoded = integers(numbers, pa.int64(), numbers > 0).dictionary_encode()
    known = [names.get(number) for number in encoded.dictionary.to_pylist()]
    return pa.array(known, pa.string()).take(encoded.indices)


@cache
def _kinds() -> pa.Array:
    """
    What a row's `kind` says, by the record's type; behind them the entries without records.

    Made when it is wanted: pyarrow loads pandas for its first array of Python's objects, and who
    only plans a query makes none.
    """
    return pa.array([*(TYPE_NAMES.get(code, "") for code in range(256)), *NO_RECORDS.values()])


def _some(values: Numbers) -> pa.Array:
    """The numbers, null where there is none."""
    return integers(values, pa.int64(), values > 0)


def _sequences(rows: _Rows, found: dict[int, list[int]]) -> pa.Array:
    if not found:
        return pa.nulls(rows.count, pa.list_(pa.int64()))
    return pa.array([found.get(row) for row in range(rows.count)], pa.list_(pa.int64()))


def _producer_ids(rows: _Rows, events: dict[int, str]) -> pa.Array:
    messages = rows.messages
    has = messages.has_producer
    if not has.any() and not events:
        return pa.nulls(rows.count, pa.string())
    starts = np.where(has, messages.starts + MESSAGE_TYPE.itemsize + _SEQUENCE.itemsize, 0)
    ends = np.where(has, messages.fact_starts, 0)
    having = rows.of_messages(has.astype(np.int64)) > 0
    buffer = rows.block.buffer
    ids = cut_binary(buffer, rows.of_messages(starts), rows.of_messages(ends)).cast(pa.string())
    ids = with_nulls(ids, having)
    if not events:
        return ids
    found = ids.to_pylist()
    for row, name in events.items():
        found[row] = name
    return pa.array(found, pa.string())


def _producer_numbers(rows: _Rows, events: Numbers) -> pa.Array:
    messages = rows.messages
    numbers = np.zeros(len(messages), dtype=np.int64)
    has = messages.has_producer
    if has.any():
        places = messages.starts[has] + MESSAGE_TYPE.itemsize
        numbers[has] = structures(rows.block.buffer, places, _SEQUENCE)["number"]
    return _some(rows.of_messages(numbers) + events)

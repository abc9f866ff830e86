"""
Entries and records as rows: for `store dump`, one row per record.

A row is a dictionary with the same first keys for every kind, so that a line of JSON can be picked
apart by programs; `row_text` makes a line for people of it. Names of queues are not in every
record, so they are gathered from the log first.
"""

from __future__ import annotations

import base64
import dataclasses
import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from enum import IntEnum
from typing import Any

from holdfast.copying.reading import LostEntries
from holdfast.errors import CorruptRecordError, RemoteProtocolError
from holdfast.journal.damage import Damage
from holdfast.journal.entry import KIND_CONFIG, KIND_NOOP, Entry
from holdfast.journal.record import iterate_records
from holdfast.model.access_records import AuditRecord, GrantRecord, UserRecord
from holdfast.model.facts import MessageFacts
from holdfast.model.records import (
    AcknowledgeRecord,
    CleanedRecord,
    CountersRecord,
    DeadLetterRecord,
    DeleteQueueRecord,
    DispatchMarkRecord,
    FiredRecord,
    ForgetProducerRecord,
    FormatRecord,
    HoldRecord,
    MessageRecord,
    MoveRecord,
    PolicyRecord,
    ProducerRecord,
    PurgeRecord,
    QueueRecord,
    Record,
    ReturnedRecord,
)
from holdfast.model.schedules import FOREVER
from holdfast.model.topic_records import (
    CountedRecord,
    DetachedRecord,
    SubscriptionRecord,
    TopicRecord,
)
from holdfast.protocols.stomp.codec import unescape
from holdfast.store.access_rows import access_row
from holdfast.store.record_codec import QUEUE, decode_records
from holdfast.store.topic_rows import topic_row

Row = dict[str, Any]

ROW_HEADER = f"{'entry':>10} {'term':>5} {'time':<27} {'record':>12} {'type':<15} what"

_COMMON = ("index", "term", "time", "record", "type", "queue")


def queue_names(entries: Iterable[Entry | Damage | LostEntries]) -> dict[int, str]:
    """The names of all queues that these entries declare, by number."""
    names: dict[int, str] = {}
    for entry in entries:
        if not isinstance(entry, Entry) or not entry.record_count:
            continue
        try:
            kinds = {kind for kind, _, _, _ in iterate_records(entry.body)}
            if QUEUE not in kinds:
                continue
            for record in decode_records(entry.body, with_content=False):
                if isinstance(record, QueueRecord):
                    names[record.queue_number] = record.name
        except CorruptRecordError:
            continue
    return names


def rows_of(
    entry: Entry, names: dict[int, str], *, queue: str | None = None, with_bodies: bool = False
) -> Iterator[Row]:
    """
    The rows of one entry: one per record, or one for an entry of the cluster's own.

    Args:
        queue: Only records of this queue.

    Raises:
        CorruptRecordError: A record inside the entry makes no sense.
    """
    common: Row = {"index": entry.index, "term": entry.term, "time": _time(entry.timestamp)}
    if entry.kind == KIND_NOOP and queue is None:
        yield common | {"record": None, "type": "noop", "queue": None}
    elif entry.kind == KIND_CONFIG and queue is None:
        yield common | {"record": None, "type": "config", "queue": None} | _config(entry)
    if entry.kind in (KIND_NOOP, KIND_CONFIG):
        return
    records = decode_records(entry.body, with_content=True)
    for number, record in enumerate(records, start=entry.first_record):
        name = _queue_name(record, names)
        if queue is None or name == queue:
            kind, fields = _describe(record, with_bodies=with_bodies)
            yield common | {"record": number, "type": kind, "queue": name} | fields


def row_text(row: Row) -> str:
    """The row as one line for people."""
    what = [] if row["queue"] is None else [str(row["queue"])]
    for key, value in row.items():
        if key in _COMMON or value is None or value is False:
            continue
        what.append(key if value is True else f"{key}={_short(value)}")
    number = "" if row["record"] is None else f"{row['record']:,}"
    return (
        f"{row['index']:>10,} {row['term']:>5} {row['time']:<27} {number:>12} {row['type']:<15}"
        f" {' '.join(what)}"
    ).rstrip()


def _short(value: object) -> str:
    if isinstance(value, list):
        return ",".join(map(str, value[:8])) + (f",… ({len(value):,})" if len(value) > 8 else "")
    if isinstance(value, dict):
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else str(value)


def _time(microseconds: int) -> str:
    return f"{datetime.fromtimestamp(microseconds / 1e6, UTC):%Y-%m-%dT%H:%M:%S.%f}Z"


def _config(entry: Entry) -> Row:
    try:
        fields: Row = json.loads(bytes(entry.body))
        members = [f"{member['name']}={member['address']}" for member in fields["members"]]
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptRecordError(
            f"entry {entry.index:,} is a CONFIG entry that makes no sense: {error}"
        ) from error
    return {"generation": fields.get("generation"), "members": members}


def _queue_name(record: Record, names: dict[int, str]) -> str | None:
    number = getattr(record, "queue_number", None)
    return None if number is None else names.get(number, f"#{number}")


def _describe(record: Record, *, with_bodies: bool) -> tuple[str, Row]:
    """The record's kind and its own fields."""
    match record:
        case MessageRecord():
            return "message", _message(record, with_bodies=with_bodies)
        case AcknowledgeRecord():
            return "acknowledge", {"sequences": list(record.sequences)}
        case DeadLetterRecord():
            return "dead-letter", {"sequences": list(record.sequences)}
        case HoldRecord():
            lost = record.lost_through
            return "hold", {"name": record.name, "from_index": record.index, "lost_through": lost}
        case QueueRecord():
            mark = record.dispatch_mark
            return "queue", {"next_sequence": record.next_sequence, "dispatch_mark": mark}
        case DispatchMarkRecord():
            begin = {"first_sequence": record.first} if record.first else {}
            return "dispatch-mark", {"dispatch_mark": record.mark, **begin}
        case PurgeRecord():
            return "purge", {"through_sequence": record.through_sequence}
        case DeleteQueueRecord():
            return "delete-queue", {}
        case ProducerRecord():
            return "producer", {"producer": record.producer_id, "sequence": record.sequence}
        case ForgetProducerRecord():
            return "forget-producer", {"producer": record.producer_id}
        case CountersRecord():
            return "counters", {"next_queue_number": record.next_queue_number}
        case CleanedRecord():
            return "cleaned", {"through_index": record.through_index}
        case FormatRecord():
            return "format", {"level": record.level}
        case PolicyRecord():
            return "policy", policy_fields(record)
        case ReturnedRecord():
            return "returned", returned_fields(record) | {"sequences": list(record.sequences)}
        case MoveRecord():
            return "move", move_fields(record)
        case FiredRecord():
            return "fired", fired_fields(record) | {"sequence": record.sequence}
        case TopicRecord() | SubscriptionRecord() | DetachedRecord() | CountedRecord():
            return topic_row(record)
        case UserRecord() | GrantRecord() | AuditRecord():
            return access_row(record)


def returned_fields(record: ReturnedRecord) -> Row:
    """Say why messages came back, and until when they rest; null: they do not."""
    return {"cause": record.cause.name.lower(), "due_ms": record.due_ms or None}


def fired_fields(record: FiredRecord) -> Row:
    """Say when what was scheduled is sent again, and how often after that; null: without end."""
    repeats = None if record.repeats == FOREVER else record.repeats
    return {"due_ms": record.due_ms, "repeats": repeats}


def move_fields(record: MoveRecord) -> Row:
    """Say what goes where, and why; the target of what is nowhere any more has the number 0."""
    fields: Row = {
        "target_number": record.target_number,
        "cause": record.cause.name.lower(),
        "sequences": record.sequences,
        "target_sequences": record.target_sequences,
        "moved_at": _time(record.moved_at * 1000),
    }
    if record.reason:
        fields["reason"] = record.reason
    return fields | {"copy": True} if record.is_copy else fields


def policy_fields(record: PolicyRecord) -> Row:
    """Say of what a policy is, whose word it is, and what it says; null: nothing any more."""
    values = json.loads(record.values) if record.values else None
    return {"pattern": record.pattern, "revision": record.revision or None, "values": values}


def _message(record: MessageRecord, *, with_bodies: bool) -> Row:
    assert record.headers is not None and record.body is not None
    row: Row = {"sequence": record.sequence, "body_bytes": len(record.body)}
    if record.producer_id is not None:
        row |= {"producer": record.producer_id, "producer_sequence": record.producer_sequence}
    if record.rewritten:
        row["rewritten"] = True
    if record.stored_at:
        row |= {"stored_at": _time(record.stored_at)}
    if record.facts is not None:
        row["facts"] = _facts(record.facts)
    row["headers"] = _headers(record.headers)
    if with_bodies:
        try:
            row["body"] = record.body.decode()
        except UnicodeDecodeError:
            row["body_base64"] = base64.b64encode(record.body).decode()
    return row


def _facts(facts: MessageFacts) -> Row:
    """What is set; what JSON has no form for in words or hexadecimal."""
    found: Row = {
        each.name: value
        for each in dataclasses.fields(facts)
        if (value := getattr(facts, each.name)) not in (None, (), b"")
    }
    for name, value in found.items():
        if isinstance(value, tuple) and hasattr(value, "_asdict"):
            found[name] = {key: _plain(part) for key, part in value._asdict().items()}
        else:
            found[name] = _plain(value)
    return found


def _plain(value: object) -> object:
    if isinstance(value, IntEnum):
        return value.name.lower()
    return value.hex() if isinstance(value, bytes) else value


def _headers(lines: bytes) -> dict[str, str]:
    headers: dict[str, str] = {}
    for line in lines.decode(errors="replace").split("\n"):
        name, colon, value = line.partition(":")
        if not colon:
            continue
        try:
            headers.setdefault(unescape(name, "1.2"), unescape(value, "1.2"))
        except RemoteProtocolError:
            headers.setdefault(name, value)
    return headers

"""
The columns of each view of the log: names, types, and what they mean.

One table is behind everything: the Arrow batches that the parser makes, the schema that Spark is
told, the check of a user's choice of columns, and docs/reference/spark.md. Times are timestamps in
UTC with microseconds. Integers are signed, as Spark knows no others; the log's numbers fit.

Pure: imports no Spark until a Spark schema is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Final, Literal, get_args

import pyarrow as pa

from holdfast.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

View = Literal["messages", "events", "backlog", "entries"]
VIEWS: Final[tuple[View, ...]] = get_args(View)

TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
STRING_MAP: Final = pa.map_(pa.string(), pa.string())
SEQUENCES: Final = pa.list_(pa.int64())

PROBLEM: Final = "problem"
"""With mode=report each view has this column: null, or what is wrong at this place in the log."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a view; `is_default` says whether it comes without being asked for."""

    name: str
    type: pa.DataType
    meaning: str
    is_default: bool = True


_MESSAGES: Final = (
    Column("index", pa.int64(), "the log entry that holds the message"),
    Column("ordinal", pa.int32(), "which record of the entry it is, from 0"),
    Column("term", pa.int64(), "the term of that entry"),
    Column("stored_at", TIMESTAMP, "when the broker took the message"),
    Column("destination", pa.string(), "the queue; null if the log no longer tells its name"),
    Column("queue_number", pa.int64(), "the queue's number, never used twice"),
    Column("sequence", pa.int64(), "the message's place in its queue, from 1"),
    Column("message_id", pa.string(), "the message-id that consumers see"),
    Column("producer_id", pa.string(), "the producer, if it numbers its messages"),
    Column("producer_sequence", pa.int64(), "the producer's number for the message"),
    Column("persistent", pa.bool_(), "what the producer asked for; all that is in the log is kept"),
    Column("priority", pa.int32(), "0 to 9; 4 if the producer gave none"),
    Column("expires_at", TIMESTAMP, "when it expires, as the broker knows it; null: never"),
    Column("correlation_id", pa.string(), "header correlation-id"),
    Column("reply_to", pa.string(), "header reply-to"),
    Column("group_id", pa.string(), "header JMSXGroupID"),
    Column("rewritten", pa.bool_(), "a copy by the cleaner: the same message, not a new one"),
    Column("headers", STRING_MAP, "all other headers, as the producer sent them"),
    Column("body", pa.binary(), "the body"),
    Column("body_size", pa.int64(), "bytes of the body"),
    Column("record_number", pa.int64(), "the record's place in the store's one order", False),
    Column("header_block", pa.binary(), "the headers as lines of STOMP 1.2", False),
    Column("encoding", pa.string(), "what it is written in; null: STOMP", False),
    Column("body_kind", pa.string(), "none, text, bytes, map, stream, object or other", False),
    Column("group_hash", pa.int64(), "a number for its group's name", False),
    Column("failures", pa.int32(), "returns that were blamed on it", False),
    Column("due_at", TIMESTAMP, "not delivered before", False),
    Column("place_queues", SEQUENCES, "numbers of the other queues on which it stands", False),
    Column("place_sequences", SEQUENCES, "and its sequences there", False),
    Column("skips", pa.binary(), "durable subscriptions that do not get it, a bit each", False),
    Column("hops", SEQUENCES, "clusters that it came through: the first 4 bytes of each", False),
    Column("hop_queue_number", pa.int64(), "its queue in the first of them", False),
    Column("hop_sequence", pa.int64(), "and its sequence there", False),
    Column("cause", pa.string(), "of a dead letter: rejected", False),
    Column("original_destination", pa.string(), "and the queue where that was", False),
    Column("original_message_id", pa.string(), "and its message id there", False),
)

_EVENTS: Final = (
    Column("index", pa.int64(), "the log entry"),
    Column("ordinal", pa.int32(), "which record of the entry it is, from 0"),
    Column("record_number", pa.int64(), "the record's place in the store's one order"),
    Column("term", pa.int64(), "the term of the entry"),
    Column("time", TIMESTAMP, "when the entry was sealed"),
    Column("kind", pa.string(), "what happened: see the table of kinds"),
    Column("destination", pa.string(), "the queue; null if the log no longer tells its name"),
    Column("queue_number", pa.int64(), "the queue's number"),
    Column("first_sequence", pa.int64(), "the lowest sequence that it is about"),
    Column("last_sequence", pa.int64(), "the highest sequence that it is about"),
    Column("sequences", SEQUENCES, "acknowledge, dead-letter, returned, move: the very sequences"),
    Column("count", pa.int64(), "all but bookkeeping: how many messages"),
    Column("producer_id", pa.string(), "enqueue, rewrite, producer, forget-producer"),
    Column("producer_sequence", pa.int64(), "enqueue, rewrite, producer: its number"),
    Column("stored_at", TIMESTAMP, "enqueue, rewrite: when the broker took the message"),
    Column("message_bytes", pa.int64(), "enqueue, rewrite: bytes of headers and body"),
    Column("next_sequence", pa.int64(), "declare: the queue's next sequence"),
    Column("dispatch_mark", pa.int64(), "declare, dispatch-mark: up to here may have been seen"),
    Column("index_to", pa.int64(), "cleaned: through this entry; hold: from this entry on"),
    Column("place_queues", SEQUENCES, "other queues where it is; move: where each is now", False),
    Column("place_sequences", SEQUENCES, "and its sequences there", False),
    Column("skips", pa.binary(), "durable subscriptions that do not get it, a bit each", False),
    Column("detail", pa.string(), "move, hold, policy, producer, counters, …: as JSON"),
)

_BACKLOG: Final = (
    *(column for column in _MESSAGES if column.is_default),
    Column("may_have_been_seen", pa.bool_(), "at or below the queue's dispatch mark"),
    *(column for column in _MESSAGES if not column.is_default),
)

_ENTRIES: Final = (
    Column("index", pa.int64(), "the entry's number"),
    Column("term", pa.int64(), "its term"),
    Column("time", TIMESTAMP, "when it was sealed"),
    Column("kind", pa.string(), "records, noop or config"),
    Column("first_record", pa.int64(), "the number of its first record"),
    Column("record_count", pa.int32(), "how many records it has"),
    Column("body_bytes", pa.int64(), "bytes of its body"),
    Column("chain", pa.binary(), "the chain hash, 16 bytes"),
    Column("raw", pa.binary(), "the entry exactly as on disk, padding included", False),
)

COLUMNS: Final[dict[View, tuple[Column, ...]]] = {
    "messages": _MESSAGES,
    "events": _EVENTS,
    "backlog": _BACKLOG,
    "entries": _ENTRIES,
}


def check_view(name: str) -> View:
    """
    Give the view of this name.

    Raises:
        ConfigError: There is none.
    """
    if name not in VIEWS:
        raise ConfigError([f"view: {name!r} is none of {', '.join(VIEWS)}"])
    return name


def default_columns(view: View) -> tuple[str, ...]:
    """Return the names of the columns that come without being asked for."""
    return tuple(column.name for column in COLUMNS[view] if column.is_default)


def choose_columns(view: View, wanted: str) -> tuple[str, ...]:
    """
    Return the names in a list like `index, body` or `*, header_block`; `*` is all default ones.

    Raises:
        ConfigError: The view has no such column, or one is named twice.
    """
    chosen: list[str] = []
    for word in wanted.split(","):
        name = word.strip()
        chosen += default_columns(view) if name == "*" else [name]
    check_columns(view, tuple(chosen))
    return tuple(chosen)


def check_columns(view: View, names: tuple[str, ...]) -> None:
    """
    Make sure that the view has these columns, each named once.

    Raises:
        ConfigError: It has not.
    """
    known = [column.name for column in COLUMNS[view]]
    problems = [
        f"columns: {view} has no column {name!r}; it has {', '.join(known)}"
        for name in names
        if name not in known and name != PROBLEM
    ]
    problems += [
        f"columns: {name!r} is named twice" for name in set(names) if names.count(name) > 1
    ]
    if problems or not names:
        raise ConfigError(problems or ["columns: name at least one"])


def arrow_type(view: View, name: str) -> pa.DataType:
    """Return the Arrow type of a column that the view has."""
    if name == PROBLEM:
        return pa.string()
    return next(column.type for column in COLUMNS[view] if column.name == name)


@cache
def arrow_schema(view: View, names: tuple[str, ...] | None = None) -> pa.Schema:
    """Return the Arrow schema of these columns, by default of the default ones."""
    chosen = default_columns(view) if names is None else names
    return pa.schema([pa.field(name, arrow_type(view, name)) for name in chosen])


def spark_schema(view: View, names: tuple[str, ...] | None = None) -> StructType:
    """Return the same for Spark."""
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415 - see the header

    return from_arrow_schema(arrow_schema(view, names))

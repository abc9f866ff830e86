"""
The columns that come out of a message's facts, and what facts change in those of its headers.

Few messages have facts yet, so they are read one by one. A column is null where its fact is not
set. A dead letter's headers are shown as its consumers see them.

Pure: no disk, no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import pyarrow as pa

from holdfast.broker.serving.dead_letters import with_origin
from holdfast.model.facts import Attributes, Hops, MessageFacts
from holdfast.spark.columns.schema import SEQUENCES, TIMESTAMP

Facts = Mapping[int, MessageFacts]
"""The facts of a batch's rows, by row; those without any are not there."""


_MOMENT_MS_MAX: Final = 253_402_300_799_999
"""The end of the year 9999: a later time is none that Spark and Python can show."""


def _moment(milliseconds: int | None) -> int | None:
    """Give the microseconds of a time; None also of one that will never come."""
    if milliseconds is None or milliseconds > _MOMENT_MS_MAX:
        return None
    return milliseconds * 1000


def _of_attributes(get: Callable[[Attributes], Any]) -> Callable[[MessageFacts], Any]:
    return lambda facts: None if facts.attributes is None else get(facts.attributes)


def _of_hops(get: Callable[[Hops], Any]) -> Callable[[MessageFacts], Any]:
    return lambda facts: None if facts.hops is None else get(facts.hops)


_READ: Final[dict[str, tuple[pa.DataType, Callable[[MessageFacts], Any]]]] = {
    "expires_at": (TIMESTAMP, _of_attributes(lambda it: _moment(it.expires_ms) or None)),
    "group_hash": (pa.int64(), _of_attributes(lambda it: it.group_hash or None)),
    "failures": (pa.int32(), _of_attributes(lambda it: it.failures)),
    "due_at": (TIMESTAMP, lambda it: _moment(it.due_ms)),
    "place_queues": (
        SEQUENCES,
        lambda it: [place.queue_number for place in it.places] or None,
    ),
    "place_sequences": (SEQUENCES, lambda it: [place.sequence for place in it.places] or None),
    "skips": (pa.binary(), lambda it: it.skips or None),
    "encoding": (pa.string(), lambda it: it.form and it.form.encoding.name.lower()),
    "body_kind": (pa.string(), lambda it: it.form and it.form.kind.name.lower()),
    "hops": (SEQUENCES, _of_hops(lambda it: list(it.clusters))),
    "hop_queue_number": (pa.int64(), _of_hops(lambda it: it.first.queue_number)),
    "hop_sequence": (pa.int64(), _of_hops(lambda it: it.first.sequence)),
    "cause": (pa.string(), lambda it: it.origin and it.origin.cause.name.lower()),
    "original_destination": (pa.string(), lambda it: it.origin and it.origin.queue),
    "original_message_id": (pa.string(), lambda it: it.origin and (it.origin.message_id or None)),
}
FACT_COLUMNS: Final = frozenset(_READ)


def fact_column(name: str, facts: Facts, count: int) -> pa.Array:
    """Return one of these columns for `count` rows."""
    kind, read = _READ[name]
    if not facts:
        return pa.nulls(count, kind)
    values: list[Any] = [None] * count
    for row, known in facts.items():
        values[row] = read(known)
    return pa.array(values, kind)


def with_priorities(column: pa.Array, facts: Facts) -> pa.Array:
    """Return the priorities, those of the facts where they tell one: the broker goes by these."""
    told = {row: it.attributes.priority for row, it in facts.items() if it.attributes is not None}
    if not told:
        return column
    values = column.to_pylist()
    for row, priority in told.items():
        values[row] = priority
    return pa.array(values, column.type)


def with_origins(blocks: pa.BinaryArray, facts: Facts) -> pa.BinaryArray:
    """Return the header blocks; a dead letter's with the lines that its consumers see."""
    moved = {row: it for row, it in facts.items() if it.origin is not None}
    if not moved:
        return blocks
    values = blocks.to_pylist()
    for row, known in moved.items():
        if values[row] is not None:
            values[row] = with_origin(values[row], known)
    return pa.array(values, blocks.type)

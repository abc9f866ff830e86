"""
What was moved, among the rows of a log's records: where it stands, and where its bytes are.

Workers make a message's row of each message that a record moved to a queue: without a size of the
body, as its bytes stand elsewhere. From where it came is in `next_sequence` (the queue) and
`through_sequence`; in `record` is the move of this message alone. The other steps count such rows
as any; only who wants the bytes follows them back.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as f

from holdfast.model.facts import DEAD_LETTER_CAUSES, Cause
from holdfast.model.records import MoveRecord, Run
from holdfast.store.record_codec import decode_records, encode_records
from holdfast.store.topic_codec import FLAG_OF_TOPIC

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_CAUSE_AT: Final = 17
"""Where a move says why, in the bytes of its record, counted from 1."""
_FLAGS_AT: Final = 2
_TOPIC_BYTES: Final = 4
_PLACED: Final = ("queue_number", "sequence", "record_number", "index", "body_size", "file")


def each_moved(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Give these rows, and behind them one for each message that was moved to a queue."""
    which = pc.indices_nonzero(pc.equal(rows.column("kind"), "move"))
    found: list[tuple[int, int, int, int, int, bytes]] = []
    for row in which.to_pylist():
        move = next(decode_records(rows.column("record")[row].as_py()))
        assert isinstance(move, MoveRecord), "the row says so"
        for sequence, target in zip(move.sequences, move.target_sequences, strict=False):
            own = copy(move)
            own.runs = [Run(sequence, target, 1)]
            # A subscription's messages stand on its topic.
            source = move.topic_number or move.queue_number
            place = (move.target_number, target, source, sequence)
            found.append((row, *place, b"".join(encode_records([own]))))
    if not found:
        return rows
    origins, *columns = zip(*found, strict=True)
    moved = rows.take(pa.array(origins))
    names = ("queue_number", "sequence", "next_sequence", "through_sequence", "record")
    said: dict[str, Sequence[Any]] = dict(zip(names, columns, strict=True))
    said |= {"kind": ["message"] * len(origins), "rewritten": [False] * len(origins)}
    said |= dict.fromkeys(("destination", "sequences"), [None] * len(origins))
    for name, values in said.items():
        at = rows.schema.get_field_index(name)
        field = rows.schema.field(at)
        moved = moved.set_column(at, field, pa.array(values, field.type))
    return pa.Table.from_batches([rows, moved]).combine_chunks().to_batches()[0]


def moved_as() -> Any:
    """What became, where it stood, of a message that a record moved."""
    causes = dict.fromkeys(sorted(DEAD_LETTER_CAUSES), "dead-lettered")
    causes |= {Cause.REMOVED: "removed", Cause.EXPIRED: "expired", Cause.FIRED: "fired"}
    causes[Cause.MAXLEN] = "dropped"
    # Of what a subscription's messages came to the topic's number stands before all.
    is_of_topic = f.hex(f.substring("record", _FLAGS_AT, 1)) == f"{FLAG_OF_TOPIC:02X}"
    code = f.hex(
        f.when(is_of_topic, f.substring("record", _CAUSE_AT + _TOPIC_BYTES, 1)).otherwise(
            f.substring("record", _CAUSE_AT, 1)
        )
    )
    found = f.lit("moved")
    for cause, name in causes.items():
        found = f.when(code == f"{cause:02X}", name).otherwise(found)
    return found


def _with_next_times(found: DataFrame, records: DataFrame) -> DataFrame:
    """Give in `move`, of what is scheduled, what says since when it is due the next time."""
    fired = records.where("kind = 'fired'")
    if fired.isEmpty():
        return found.withColumn("move", f.lit(None).cast("binary"))
    newest = (
        fired.withColumn("sequence", f.col("sequences")[0])
        .groupBy("queue_number", "sequence")
        .agg(f.max(f.struct("record_number", "record")).alias("fired"))
    )
    is_later = f.col("fired.record_number") > f.col("record_number")
    joined = found.join(newest, ["queue_number", "sequence"], "left")
    move = f.when(is_later, f.col("fired.record"))
    return joined.select(*found.columns, move.alias("move"))


def with_contents(living: DataFrame, records: DataFrame) -> DataFrame:
    """
    Give of what lives the record that has its bytes, and of what was moved in `move` what did it.

    queue_number, sequence, record_number, index, body_size, file if `records` have it, move; of
    what is scheduled and fired there stands when it is due again. What
    was moved twice is followed back step by step; there are few that were moved often.
    """
    is_moved = f.col("body_size").isNull()
    names = [name for name in _PLACED if name in living.columns]
    found = _with_next_times(living.where(~is_moved).select(*names), records)
    identity = ("queue_number", "sequence", "record")
    asked = living.where(is_moved).select(
        *(f.col(name).alias(f"asked_{name}") for name in identity),
        f.col("record_number").alias("asked_at"),
        f.col("next_sequence").alias("from_queue"),
        f.col("through_sequence").alias("from_sequence"),
    )
    stored = records.where("kind = 'message'")
    while not asked.isEmpty():
        came_from = (
            (stored["queue_number"] == asked["from_queue"])
            & (stored["sequence"] == asked["from_sequence"])
            & (stored["record_number"] < asked["asked_at"])
        )
        order = f.struct("record_number", "body_size")
        whole = [it for it in stored.columns if it not in {"header_lines", "body"}]
        newest = (
            asked.join(stored, came_from)
            .groupBy(*(f"asked_{name}" for name in identity))
            .agg(f.max_by(f.struct(*whole), order).alias("newest"))
            .cache()
        )
        has_bytes = f.col("newest.body_size").isNotNull()
        kept = [f.col(f"newest.{name}") for name in names if name not in identity]
        found = found.unionByName(
            newest.where(has_bytes).select(
                f.col("asked_queue_number").alias("queue_number"),
                f.col("asked_sequence").alias("sequence"),
                *kept,
                f.col("asked_record").alias("move"),
            )
        )
        asked = newest.where(~has_bytes).select(
            *(f"asked_{name}" for name in identity),
            f.col("newest.record_number").alias("asked_at"),
            f.col("newest.next_sequence").alias("from_queue"),
            f.col("newest.through_sequence").alias("from_sequence"),
        )
    return found

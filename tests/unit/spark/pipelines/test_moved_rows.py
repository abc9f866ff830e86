"""
Rows of what was moved, made by workers; what Spark makes of them is held to a log of operations.
"""

from __future__ import annotations

import pyarrow as pa

from holdfast.model.facts import Cause
from holdfast.model.records import MoveRecord, QueueRecord, Run
from holdfast.spark.archive.rows import RangeFacts, block_rows
from holdfast.spark.pipelines.moved_rows import each_moved
from holdfast.store.record_codec import decode_records
from trials.pipeline.written_log import block_of, message


def rows_of(*records: object) -> pa.RecordBatch:
    """The rows that a worker makes of an entry, without contents."""
    block = block_of([QueueRecord(1, "one"), message(1, 5, b"x"), *records])
    return block_rows(block, RangeFacts(), with_content=False)


def test_each_moved_message_has_a_row_where_it_stands() -> None:
    """
    It says from where it came and what moved it, alone; its bytes are elsewhere.
    """
    move = MoveRecord(1, 2, Cause.MOVED, [Run(5, 9, 2)], queue_name="one")
    rows = each_moved(rows_of(move)).to_pylist()
    (record,) = [row for row in rows if row["kind"] == "move"]
    assert record["sequences"] == [5, 6]
    made = [row for row in rows if row["kind"] == "message" and row["body_size"] is None]
    assert [
        (row["queue_number"], row["sequence"], row["next_sequence"], row["through_sequence"])
        for row in made
    ] == [(2, 9, 1, 5), (2, 10, 1, 6)]
    assert {row["record_number"] for row in made} == {record["record_number"]}
    assert not any(row["rewritten"] or row["destination"] for row in made)
    (own,) = decode_records(made[1]["record"])
    assert isinstance(own, MoveRecord)
    assert (own.runs, own.queue_name) == ([Run(6, 10, 1)], "one")


def test_a_copy_takes_nothing_off_and_what_is_removed_stands_nowhere() -> None:
    """
    The one has rows and names no sequences, the other the other way round.
    """
    copied = MoveRecord(1, 2, Cause.COPIED, [Run(5, 9, 1)], is_copy=True)
    removed = MoveRecord(1, 0, Cause.REMOVED, [Run(5, 0, 1)])
    rows = each_moved(rows_of(copied, removed)).to_pylist()
    assert [row["sequences"] for row in rows if row["kind"] == "move"] == [None, [5]]
    made = [row for row in rows if row["kind"] == "message" and row["body_size"] is None]
    assert [row["sequence"] for row in made] == [9]


def test_of_rows_without_moves_nothing_is_made() -> None:
    """
    They are given as they are.
    """
    rows = rows_of()
    assert each_moved(rows) is rows

"""What is left of a restored state's numbers; the joins are tested on Spark."""

from __future__ import annotations

import pyarrow as pa

from holdfast.model.facts import Attributes, MessageFacts, Place
from holdfast.model.numbering import sequence_floor
from holdfast.model.records import ProducerRecord, QueueRecord
from holdfast.spark.archive.rows import RECORDS, RangeFacts, block_rows
from holdfast.spark.log.directory import LogDirectory
from holdfast.spark.pipelines.log_state import (
    LastingState,
    _cut_records,
    each_place,
    moved_on,
    spark_schema,
)
from trials.pipeline.written_log import WrittenLog, block_of, message


def test_numbers_move_on_and_marks_do_not() -> None:
    """
    No queue number of the old cluster is given again; what was flagged stays flagged, no more.
    """
    state = LastingState((QueueRecord(1, "q", 10, 4096),), (ProducerRecord("p", 3, 5),), 2)

    moved = moved_on(state, 50)

    (queue,) = moved.queues
    assert (10, 9, 52) == (
        queue.next_sequence,
        queue.dispatch_mark,
        moved.next_queue_number,
    )
    assert state.producers == moved.producers


def test_the_newest_message_tells_the_generation() -> None:
    """
    What is restored begins a later one.
    """
    queues = (QueueRecord(1, "q", 10), QueueRecord(2, "r", sequence_floor(3) + 7))
    assert LastingState(queues, (), 3).generation == 3
    assert LastingState((), (), 1).generation == 0


def test_a_log_is_cut_into_records_without_contents(tmp_path) -> None:
    """
    What a question about fates does not need is not read into Spark.
    """
    with WrittenLog(tmp_path / "log") as log:
        log.put(QueueRecord(1, "q"))
        log.put(message(1, 1, b"body"))
    ranges = pa.RecordBatch.from_pylist([{"first": 1, "last": 2}])

    (rows,) = _cut_records([ranges], source=LogDirectory(str(tmp_path / "log")), names={})

    assert ["queue", "message"] == rows.column("kind").to_pylist()
    assert [None, 4] == rows.column("body_size").to_pylist()
    assert 2 == rows.column("body").null_count


def test_spark_knows_every_column() -> None:
    """
    The schema told to Spark is that of the files.
    """
    assert RECORDS.names == spark_schema().names


def test_a_message_on_several_queues_has_a_row_for_each() -> None:
    """
    Only its own row has the producer's number: the message was sent once.
    """
    sent = message(1, 1, b"x", producer="p")
    sent.facts = MessageFacts(places=(Place(2, 7), Place(3, 9)))
    block = block_of([QueueRecord(1, "one"), sent, message(1, 2)])
    rows = each_place(block_rows(block, RangeFacts({}), with_content=False))

    names = ["kind", "queue_number", "sequence", "record_number", "producer_sequence"]
    found = [tuple(row.values()) for row in rows.select(names).to_pylist()]
    assert found == [
        ("queue", 1, None, 100, None),
        ("message", 1, 1, 101, 1),
        ("message", 1, 2, 102, None),
        ("message", 2, 7, 101, None),
        ("message", 3, 9, 101, None),
    ]
    assert rows.column("destination").to_pylist() == ["one", "one", "one", None, None]
    assert rows.column("body_size").to_pylist() == [None, 1, 0, 1, 1]


def test_rows_of_messages_without_several_places_stay_as_they_are() -> None:
    """Nothing is made anew where there is nothing to add, whatever else is known of a message."""
    sent = message(1, 1)
    sent.facts = MessageFacts(attributes=Attributes(priority=9))
    for block in (block_of([sent]), block_of([message(1, 1)])):
        rows = block_rows(block, RangeFacts({}))
        assert each_place(rows) is rows

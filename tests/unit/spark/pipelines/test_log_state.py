"""What is left of a restored state's numbers; the joins are tested on Spark."""

from __future__ import annotations

import pyarrow as pa

from holdfast.model.numbering import sequence_floor
from holdfast.model.records import ProducerRecord, QueueRecord
from holdfast.spark.archive.rows import RECORDS
from holdfast.spark.log.directory import LogDirectory
from holdfast.spark.pipelines.log_state import LastingState, _cut_records, moved_on, spark_schema
from trials.pipeline.written_log import WrittenLog, message


def test_numbers_move_on_and_marks_do_not() -> None:
    """
    No queue number of the old cluster is given again; what was flagged stays flagged, no more.
    """
    state = LastingState((QueueRecord(1, "q", 10, 4096),), (ProducerRecord("p", 3, 5),), 2)

    moved = moved_on(state, 50)

    (queue,) = moved.queues
    assert (10, 9, 52) == (queue.next_sequence, queue.dispatch_mark, moved.next_queue_number)
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

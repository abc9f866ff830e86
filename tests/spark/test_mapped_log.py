"""
A function of the user's, run where the log is parsed.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as Spark's users call it

from holdfast.model.records import QueueRecord
from holdfast.spark import map_log
from trials.pipeline.written_log import WrittenLog, message

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]

COUNT = 5


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A log with five messages on a queue and one on another."""
    directory = tmp_path_factory.mktemp("mapped") / "log"
    with WrittenLog(directory) as log:
        log.put(QueueRecord(1, "orders"), *(message(1, number) for number in range(1, COUNT + 1)))
        log.put(QueueRecord(2, "bills"), message(2, 1))
    return str(directory)


def body_sizes(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The sizes of the bodies of one queue."""
    wanted = batch.filter(pc.equal(batch.column("destination"), "orders"))
    return pa.RecordBatch.from_pydict(
        {
            "size": pc.binary_length(wanted.column("body")).cast(pa.int64()),
            "n": wanted.column("sequence"),
        }
    )


def test_a_function_is_run_where_the_log_is_parsed(spark: SparkSession, place: str) -> None:
    """Its rows are the frame's, and conditions on them are Spark's."""
    frame = map_log(
        spark, body_sizes, "n long, size long", path=place, columns="destination, sequence, body"
    )
    assert ["n", "size"] == frame.columns
    found = [tuple(row) for row in frame.where("n > 1").orderBy("n").collect()]
    whole = spark.read.format("holdfast").load(place).where("destination = 'orders'")
    sizes = {row["sequence"]: len(row["body"]) for row in whole.collect()}
    assert [(n, sizes[n]) for n in range(2, COUNT + 1)] == found


def test_two_functions_are_two_sources(spark: SparkSession, place: str) -> None:
    """What was made by the first goes on meaning the first."""

    def plus(number: int) -> Callable[[pa.RecordBatch], pa.Table]:
        return lambda batch: pa.table({"n": pc.add(batch.column("sequence"), number)})

    options = {"path": place, "columns": "sequence"}
    first = map_log(spark, plus(100), "n long", **options)
    second = map_log(spark, plus(200), "n long", **options)
    assert 101 == first.agg(F.min("n")).collect()[0][0]
    assert 201 == second.agg(F.min("n")).collect()[0][0]
    assert 101 == first.agg(F.min("n")).collect()[0][0]


def test_a_stream_is_mapped(spark: SparkSession, place: str, tmp_path: Path) -> None:
    """With the offsets of the log: a second run of the query has nothing to do."""
    counts = []
    for _ in range(2):
        frame = map_log(
            spark,
            body_sizes,
            "n long, size long",
            stream=True,
            path=place,
            columns="destination, sequence, body",
        )
        writer = frame.writeStream.format("parquet").option("path", str(tmp_path / "rows"))
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination(60)
        counts.append(spark.read.parquet(str(tmp_path / "rows")).count())
    assert [COUNT, COUNT] == counts


def test_what_a_function_may_not_give_ends_the_query(spark: SparkSession, place: str) -> None:
    """The sentence of the error says which column; and options are checked at once."""
    frame = map_log(spark, lambda batch: batch, "n long", path=place, columns="sequence")
    with pytest.raises(PySparkException, match="gave 0 columns 'n'"):
        frame.collect()
    with pytest.raises(PySparkException, match="clumns"):
        map_log(spark, lambda batch: batch, "n long", path=place, clumns="sequence")


def kept_objects(batch: pa.RecordBatch) -> pa.RecordBatch:
    """How many objects the worker keeps out of its garbage collections."""
    return pa.RecordBatch.from_pydict({"kept": [gc.get_freeze_count()] * (batch.num_rows > 0)})


def test_a_worker_keeps_what_it_has_loaded(spark: SparkSession, place: str) -> None:
    """PySpark collects garbage after every task: over pyarrow and pandas that costs 45 ms."""
    frame = map_log(spark, kept_objects, "kept long", path=place, columns="body")
    assert min(row["kept"] for row in frame.collect()) > 10_000

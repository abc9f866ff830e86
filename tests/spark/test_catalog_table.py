"""
A table of Spark's catalog over a log: what the table was made with is read when it is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from holdfast.model.records import QueueRecord
from trials.pipeline.written_log import WrittenLog, message

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def table(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Over a log with three messages on a queue."""
    place = tmp_path_factory.mktemp("table") / "log"
    with WrittenLog(place) as log:
        log.put(QueueRecord(1, "orders"), *(message(1, number) for number in (1, 2, 3)))
    spark.sql(
        "CREATE TABLE waiting USING holdfast"
        f" OPTIONS (path '{place}', columns 'sequence,queue_number')"
        " COMMENT 'for the shop' TBLPROPERTIES ('view' = 'nobody reads this')"
    )
    yield "waiting"
    spark.sql("DROP TABLE waiting")


def test_a_table_is_read_with_the_options_it_was_made_with(spark: SparkSession, table: str) -> None:
    """By SQL, with conditions that go down to the source, and with options of the query."""
    found = spark.sql(f"SELECT * FROM {table} WHERE sequence > 1 ORDER BY sequence").collect()
    assert [(2, 1), (3, 1)] == [tuple(row) for row in found]
    assert 1 == spark.read.option("end_index", "1").table(table).where("sequence = 1").count()


def test_a_table_is_streamed(spark: SparkSession, table: str, tmp_path: Path) -> None:
    """As `readStream.format` does, with the table's options; its progress tells how far it is."""
    frame = spark.readStream.table(table)
    writer = frame.writeStream.format("memory").queryName("of_table").trigger(availableNow=True)
    query = writer.start()
    query.awaitTermination(60)
    assert 3 == spark.table("of_table").count()
    assert query.lastProgress is not None
    told = json.loads(query.lastProgress.sources[0].latestOffset)
    assert (1, 0) == (told["index"], told["entries_behind"])


def test_what_a_table_cannot_do_is_said(spark: SparkSession, table: str) -> None:
    """Rows are not inserted, and columns are an option."""
    with pytest.raises(PySparkException, match=r"a table of Spark's catalog, which is for"):
        spark.sql(f"INSERT INTO {table} VALUES (1L, 1)")
    spark.sql("CREATE TABLE listed (sequence BIGINT) USING holdfast OPTIONS (path '/x')")
    try:
        with pytest.raises(PySparkException, match="make it without, and name columns"):
            spark.sql("SELECT * FROM listed").collect()
    finally:
        spark.sql("DROP TABLE listed")

"""
Writing to a real cluster: every row is stored once, whatever Spark runs again.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from holdfast.client import connect
from holdfast.errors import ProducerFinishedError
from holdfast.spark.source.writer import StreamWriter, WriteOptions, Written, write_partition
from holdfast.testing.local_cluster import LocalCluster

pytestmark = [pytest.mark.processes, pytest.mark.slow]


def url(cluster: LocalCluster) -> str:
    return ",".join(f"http://127.0.0.1:{node.admin_port}" for node in cluster.nodes.values())


def stored(spark: SparkSession, cluster: LocalCluster, queue: str) -> DataFrame:
    cluster.wait_level()
    frame = spark.read.format("holdfast").option("url", url(cluster)).load()
    return frame.where(f.col("destination") == queue)


def rows(spark: SparkSession, count: int, partitions: int = 3) -> DataFrame:
    numbers = spark.range(count, numPartitions=partitions)
    return numbers.select(f.concat(f.lit("row "), f.col("id")).alias("body"))


def write(frame: DataFrame, cluster: LocalCluster, **options: Any) -> None:
    writer = frame.write.format("holdfast").mode("append").options(url=url(cluster), **options)
    writer.save()


def test_rows_become_messages(spark: SparkSession, one_node: LocalCluster) -> None:
    """Columns become headers, the rest of the headers comes from the map."""
    frame = rows(spark, 3, 1).selectExpr(
        "body",
        "'written.one' as destination",
        "map('shop', 'Köln: 1', 'content-length', '9') as headers",
        "'c1' as correlation_id",
        "cast(null as string) as reply_to",
        "7 as priority",
    )
    write(frame, one_node)
    found = stored(spark, one_node, "written.one").orderBy("sequence").collect()
    assert [bytes(row.body) for row in found] == [b"row 0", b"row 1", b"row 2"]
    assert ("c1", None, 7, True, "Köln: 1") == (
        found[0].correlation_id,
        found[0].reply_to,
        found[0].priority,
        found[0].persistent,
        found[0].headers["shop"],
    )


def test_the_same_write_again_stores_nothing_twice(
    spark: SparkSession, one_node: LocalCluster
) -> None:
    """What Spark does with a task that failed, done with all of them."""
    frame = rows(spark, 100)
    for _ in range(2):
        write(frame, one_node, destination="written.twice", write_id="job-1")
    assert stored(spark, one_node, "written.twice").count() == 100
    write(frame, one_node, destination="written.twice", write_id="job-2")
    assert stored(spark, one_node, "written.twice").count() == 200


def test_a_batch_that_a_query_repeats_is_stored_once(
    spark: SparkSession, one_node: LocalCluster, tmp_path: Path
) -> None:
    """The driver died after the tasks and before it noted that the batch was done."""
    source, checkpoint = tmp_path / "source", tmp_path / "checkpoint"
    rows(spark, 40).write.text(str(source))
    frame = spark.readStream.schema("body string").format("text").load(str(source))

    def run() -> None:
        writer = frame.writeStream.format("holdfast").trigger(availableNow=True)
        writer = writer.options(url=url(one_node), destination="written.streamed")
        writer.option("checkpointLocation", str(checkpoint)).start().awaitTermination(90)

    run()
    assert stored(spark, one_node, "written.streamed").count() == 40
    for note in (checkpoint / "commits").iterdir():
        note.unlink()
    run()
    assert stored(spark, one_node, "written.streamed").count() == 40


def test_the_producers_of_a_batch_are_forgotten_when_the_next_is_done(
    spark: SparkSession, one_node: LocalCluster, tmp_path: Path
) -> None:
    """The last batch may come again, the one before it never; each had a producer per partition."""
    for number in range(2):
        (tmp_path / f"{number}.txt").write_text("row\n" * 6)
    frame = spark.readStream.format("text").option("maxFilesPerTrigger", 1)
    writer = frame.load(str(tmp_path / "*.txt")).selectExpr("value as body").writeStream
    writer = writer.format("holdfast").trigger(availableNow=True).options(url=url(one_node))
    writer = writer.option("destination", "written.forgotten")
    writer.option("checkpointLocation", str(tmp_path / "notes")).start().awaitTermination(90)
    name = stored(spark, one_node, "written.forgotten").collect()[11].producer_id.split("-")
    query = "-".join(name[:6])

    def forgotten() -> set[str]:
        one_node.wait_level()
        events = spark.read.format("holdfast").option("url", url(one_node))
        events = events.option("view", "events").option("columns", "kind,producer_id").load()
        return {
            row.producer_id.removeprefix(query).split("-")[1]
            for row in events.where("kind = 'forget-producer'").collect()
            if row.producer_id.startswith(query)
        }

    # They are looked for after the receipt: within milliseconds, and a look takes far longer.
    assert any(forgotten() == {"0"} for _ in range(20))


def test_a_partition_with_other_rows_than_before_loses_none(
    spark: SparkSession, one_node: LocalCluster
) -> None:
    """A batch was cut off, and planned in another way when it came again."""
    schema = pa.schema([("body", pa.string()), ("destination", pa.string())])

    def send(*bodies: str) -> None:
        place = "written.planned"
        made = [{"body": body, "destination": place} for body in bodies]
        batches = [pa.RecordBatch.from_pylist([each], schema=schema) for each in made]
        options = WriteOptions(uri=one_node.uri, write_id="w")
        assert write_partition(options, "spark-planned-0", iter(batches)).messages == len(bodies)

    send("a", "b")
    send("a", "b")
    send("c", "d", "e")
    found = stored(spark, one_node, "written.planned").orderBy("sequence").collect()
    assert [bytes(row.body).decode() for row in found] == ["a", "b", "c", "d", "e"]


def test_a_late_task_of_an_older_batch_stores_nothing(
    spark: SparkSession, one_node: LocalCluster
) -> None:
    """
    Spark lost sight of an executor and ran its tasks elsewhere; it lives, and comes back.

    One task of it had not begun to send, one of a plan that was not the last one was amid its rows.
    """
    query, place = "spark-a-query-with-late-tasks", "written.late"
    writer = StreamWriter(WriteOptions(uri=one_node.uri, write_id="w", destination=place))
    sent = [pa.RecordBatch.from_pylist([{"body": each}]) for each in ("a", "b")]

    def run(batch: int) -> Written:
        return write_partition(writer.options, f"{query}-{batch}", iter(sent))

    async def amid_its_rows() -> None:
        async with connect(one_node.uri) as connection:
            late = connection.producer(f"/queue/{place}", producer_id=f"{query}-0-0-another-plan-0")
            await (await late.send(b"c"))
            await asyncio.to_thread(lambda: writer.commit([Written(2, 2, query)], 1))
            await (await late.send(b"d"))

    for batch in (0, 1):
        run(batch)
    with pytest.raises(ProducerFinishedError):
        asyncio.run(amid_its_rows())
    with pytest.raises(ProducerFinishedError):
        run(0)
    run(1)
    found = stored(spark, one_node, place).orderBy("sequence").collect()
    assert [bytes(row.body).decode() for row in found] == ["a", "b", "a", "b", "c"]


def test_mistakes_in_a_write_are_told_together(spark: SparkSession, one_node: LocalCluster) -> None:
    """Before anything is sent."""
    frame = spark.range(1).selectExpr("'x' as text")
    with pytest.raises(PySparkException, match=r"column body(.|\n)*'text' has no meaning"):
        write(frame, one_node, destination="a")
    with pytest.raises(PySparkException, match="cannot be overwritten"):
        rows(spark, 1).write.format("holdfast").mode("overwrite").options(
            url=url(one_node), destination="a"
        ).save()

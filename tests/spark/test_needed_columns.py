"""
Queries that read only the columns which they need, as their plans show.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as Spark's users call it

from holdfast.errors import ConfigError
from holdfast.model.records import QueueRecord
from holdfast.spark import query_log
from holdfast.spark.columns.schema import COLUMNS, spark_schema
from holdfast.spark.source.needed_columns import needed_columns
from trials.pipeline.written_log import WrittenLog, message

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A log with three messages on a queue and one on another."""
    directory = tmp_path_factory.mktemp("needed") / "log"
    with WrittenLog(directory) as log:
        log.put(QueueRecord(1, "orders"), *(message(1, number) for number in (1, 2, 3)))
        log.put(QueueRecord(2, "bills"), message(2, 1))
    return str(directory)


QUERIES: list[tuple[Callable[[DataFrame], DataFrame], tuple[str, ...]]] = [
    (lambda it: it.groupBy().count(), ("index",)),
    (lambda it: it.select("sequence"), ("sequence",)),
    (lambda it: it.where("destination = 'orders'").groupBy().count(), ("destination",)),
    (
        lambda it: it.select(F.col("destination").alias("d"), "sequence", "body").where("d = 'x'"),
        ("destination", "sequence", "body"),
    ),
    (
        lambda it: it.withColumn("size", F.length("body")).groupBy("queue_number").max("size"),
        ("queue_number", "body"),
    ),
    (lambda it: it.select("index", "headers").groupBy("index").count(), ("index",)),
    (
        lambda it: (
            it.alias("a")
            .join(it.alias("b"), F.expr("a.sequence = b.queue_number"))
            .select("a.body", "b.priority")
        ),
        ("queue_number", "sequence", "priority", "body"),
    ),
    (
        lambda it: it.where(F.col("sequence") == it.agg(F.max("term")).scalar()).select("index"),
        ("index", "term", "sequence"),
    ),
    (lambda it: it.mapInArrow(lambda batches: batches, it.schema).select("index"), ()),
    # A union takes its second child by places, and has the first one's columns.
    (lambda it: other(it).union(it), ()),
    (lambda it: other(it).unionByName(it).select("body"), ("body",)),
    (
        lambda it: (
            it.select("term", "body").union(it.select("term", "header_block")).select("term")
        ),
        ("term",),
    ),
    # Nothing is seen of what is cached, or goes through an RDD.
    (lambda it: it.cache().groupBy("destination").sum("body_size"), ()),
    (lambda it: it.join(it.select("body").persist(), "body").select("index"), ()),
    (lambda it: it.sparkSession.createDataFrame(it.rdd.map(tuple), it.schema).select("index"), ()),
    (lambda it: it.where(F.lit(False)), ()),
]


def other(frame: DataFrame) -> DataFrame:
    """Another frame of the same columns, that Spark knows nothing of."""
    session = frame.sparkSession
    return session.range(1).select(
        *(F.lit(None).cast(it.dataType).alias(it.name) for it in frame.schema)
    )


@pytest.mark.parametrize(("query", "expected"), QUERIES)
def test_the_columns_that_a_query_needs(
    spark: SparkSession,
    query: Callable[[DataFrame], DataFrame],
    expected: tuple[str, ...],
) -> None:
    """By its plan; a function of Python's is given all, so it needs all."""
    names = tuple(column.name for column in COLUMNS["messages"])
    found = needed_columns(spark, query, spark_schema("messages", names))
    assert found == (expected or names)


def test_a_query_reads_what_it_needs_and_finds_the_same(spark: SparkSession, place: str) -> None:
    """Also with conditions that the source decides, and with a column that nobody needs."""

    def query(messages: DataFrame) -> DataFrame:
        chosen = messages.select("destination", "body_size", "body", "header_block")
        return chosen.where("destination = 'orders'").groupBy("destination").sum("body_size")

    found = query_log(spark, query, path=place)
    whole = spark.read.format("holdfast").option("columns", "*, header_block").load(place)
    assert query(whole).collect() == found.collect()
    scanned = found._jdf.queryExecution().optimizedPlan().collectLeaves().apply(0).output()
    assert 2 == scanned.size()


def test_a_union_and_a_cached_frame_find_the_same(spark: SparkSession, place: str) -> None:
    """What a plan cannot show is read."""
    whole = spark.read.format("holdfast").option("columns", "*, header_block").load(place)

    def united(messages: DataFrame) -> DataFrame:
        return other(messages).union(messages).select("destination", "body", "sequence")

    def cached(messages: DataFrame) -> DataFrame:
        return messages.select("destination", "sequence").persist().where("sequence > 1")

    for query in (united, cached):
        found = query_log(spark, query, path=place).collect()
        assert sorted(map(str, found)) == sorted(map(str, query(whole).collect()))
        assert len(found) > 1
    spark.catalog.clearCache()


def test_a_query_that_runs_while_it_is_built_is_refused(spark: SparkSession, place: str) -> None:
    """Its columns would be those of no rows."""
    for query in (
        lambda it: it.groupBy("producer_id").pivot("destination").sum("body_size"),
        lambda it: it.limit(it.count()),
    ):
        with pytest.raises(ConfigError, match="run while it is built"):
            query_log(spark, query, path=place)
    pivoted = query_log(
        spark,
        lambda it: it.groupBy("term").pivot("destination", ["orders"]).count(),
        path=place,
    )
    assert [row["orders"] for row in pivoted.collect()] == [3]


def test_columns_are_for_the_query_to_say(spark: SparkSession, place: str) -> None:
    """Naming them as well is a mistake, and so is an option that is none."""
    with pytest.raises(ConfigError, match="columns: found from the query"):
        query_log(spark, lambda it: it, path=place, columns="index")
    with pytest.raises(ConfigError, match="sight"):
        query_log(spark, lambda it: it, path=place, sight="entries")

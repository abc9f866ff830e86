"""
Streaming the log of a real cluster: nothing twice, nothing left out, and the hold follows.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from holdfast.client import blocking
from holdfast.model.records import QueueRecord
from holdfast.spark.log.client import RemoteLog
from holdfast.testing.local_cluster import LocalCluster
from trials.pipeline.written_log import WrittenLog, clean_first_segment, message

pytestmark = [pytest.mark.processes, pytest.mark.slow, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A cluster that this module may hurt."""
    with LocalCluster(tmp_path_factory.mktemp("streamed")) as cluster:
        cluster.start()
        yield cluster


def url(nodes: LocalCluster) -> str:
    return ",".join(f"http://127.0.0.1:{node.admin_port}" for node in nodes.nodes.values())


def send(nodes: LocalCluster, queue: str, bodies: list[str]) -> None:
    with blocking.connect(nodes.uri) as connection:
        with connection.producer(f"/queue/{queue}") as producer:
            for body in bodies:
                producer.send(body)


def run(frame: DataFrame, checkpoint: Path, **options: Any) -> list[list[str]]:
    """Run a query until all that is available now was taken; give each batch's bodies."""
    batches: list[list[str]] = []

    def take(batch: DataFrame, number: int) -> None:
        batches.append([bytes(row.body).decode() for row in batch.collect()])

    writer = frame.writeStream.foreachBatch(take).option("checkpointLocation", str(checkpoint))
    writer.trigger(availableNow=True).start().awaitTermination(90)
    return batches


def joined(batches: list[list[str]]) -> list[str]:
    return [body for batch in batches for body in batch]


def hold_of(nodes: LocalCluster, name: str) -> dict[str, Any]:
    nodes.wait_level()  # Any node answers, and a follower hears of a commit a little later.
    log = RemoteLog(tuple(url(nodes).replace("http://", "").split(",")))
    found: dict[str, Any] = {it["name"]: it for it in log.ask("GET", "/holds")["holds"]}
    return dict(found[name])


def test_a_query_goes_on_where_it_was_and_its_hold_follows(
    spark: SparkSession, nodes: LocalCluster, tmp_path: Path
) -> None:
    """Each message once over restarts; what is done is no longer held."""
    first = [f"one {n}" for n in range(10)]
    for bodies in (first[:5], first[5:]):
        send(nodes, "followed", bodies)  # Two entries at least, and few: each is a batch.
    frame = (
        spark.readStream.format("holdfast")
        .options(url=url(nodes), hold="reader", maxEntriesPerTrigger=1)
        .options(columns="destination,body")
        .load()
        .where("destination = 'followed'")
    )
    batches = run(frame, tmp_path)
    assert sorted(first) == sorted(joined(batches))
    assert len(batches) > 1
    held = hold_of(nodes, "reader")

    second = [f"two {n}" for n in range(10)]
    send(nodes, "followed", second)
    assert sorted(second) == sorted(joined(run(frame, tmp_path)))
    assert hold_of(nodes, "reader")["index"] > held["index"]


def test_a_node_that_dies_is_left_for_another(
    spark: SparkSession, nodes: LocalCluster, tmp_path: Path
) -> None:
    """A batch and a stream read on with one of three nodes gone."""
    send(nodes, "survivor", [f"{n}" for n in range(20)])
    nodes.wait_level()
    leader = nodes.leader()
    leader.kill()
    try:
        frame = spark.read.format("holdfast").options(url=url(nodes)).load()
        assert frame.where("destination = 'survivor'").count() == 20
        stream = spark.readStream.format("holdfast").options(url=url(nodes)).load()
        batches = run(stream.where("destination = 'survivor'"), tmp_path)
        assert len(joined(batches)) == 20
    finally:
        leader.start()
        nodes.leader()


def test_followers_are_read_before_the_leader(nodes: LocalCluster) -> None:
    """The leader has its clients."""
    nodes.wait_level()
    ranked = RemoteLog(tuple(url(nodes).replace("http://", "").split(","))).ranked()
    assert ranked[-1] == f"127.0.0.1:{nodes.leader().admin_port}"


def test_a_directory_is_streamed_by_bytes(spark: SparkSession, tmp_path: Path) -> None:
    """Admission by bytes: every batch is bounded, all of them together are the log."""
    log = tmp_path / "log"
    with WrittenLog(log) as written:
        written.put(QueueRecord(1, "a"))
        for number in range(1, 31):
            written.put(message(1, number, b"%d" % number + bytes(3_000)))
    frame = spark.readStream.format("holdfast").option("maxBytesPerTrigger", "32k").load(str(log))
    batches = run(frame, tmp_path / "checkpoint")
    assert [str(n) for n in range(1, 31)] == [it.rstrip("\0") for it in joined(batches)]
    assert max(len(batch) for batch in batches) <= 11
    assert len(batches) >= 3


def test_what_was_cleaned_away_is_never_passed_over(spark: SparkSession, tmp_path: Path) -> None:
    """A query whose next entries are gone stops and says which."""
    log = tmp_path / "log"
    with WrittenLog(log) as written:
        written.put(QueueRecord(1, "a"))
        for number in range(1, 60):
            written.put(message(1, number, bytes(7_000)))
    frame = spark.readStream.format("holdfast").option("end_index", 3).load(str(log))
    run(frame, tmp_path / "checkpoint")
    for _ in range(2):
        clean_first_segment(log)
    frame = spark.readStream.format("holdfast").load(str(log))
    with pytest.raises(PySparkException, match=r"entries 4 to \d+ are no longer"):
        run(frame, tmp_path / "checkpoint")


def test_a_held_log_is_read_whole_while_it_is_written_and_cleaned(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Everything is acknowledged at once and may go; the hold keeps it until Spark has it."""
    with LocalCluster(tmp_path, "single", ["--segment", "65536"]) as cluster:
        node = cluster.start()
        options = {"url": url(cluster), "hold": "slow", "columns": "destination,body"}
        frame = spark.readStream.format("holdfast").options(**options).load()
        frame = frame.where("destination = 'busy'")
        taken = joined(run(frame, tmp_path / "checkpoint"))
        bodies = [f"{number} {'x' * 4_000}" for number in range(300)]
        for start in (0, 100, 200):
            part = bodies[start : start + 100]
            send(cluster, "busy", part)
            consume(cluster, "busy", len(part))
            taken += joined(run(frame, tmp_path / "checkpoint"))
        assert bodies == taken

        def has_let_go(status: dict[str, Any]) -> bool:
            run(frame, tmp_path / "checkpoint")  # tells that the batch before is done
            return bool(status["store"]["first_index"] > 1)

        node.wait_until(has_let_go, "cleaned", 60)
        gone = spark.read.format("holdfast").options(url=url(cluster), start_index=1)
        with pytest.raises(PySparkException, match="no longer in the log"):
            gone.load().count()
        assert spark.read.format("holdfast").options(url=url(cluster)).load().count() < 300


def consume(nodes: LocalCluster, queue: str, count: int) -> None:
    with blocking.connect(nodes.uri) as connection:
        with connection.subscribe(f"/queue/{queue}") as subscription:
            for _ in range(count):
                found = subscription.receive(20)
                assert found is not None
                found.acknowledge()

"""
A streaming query whose cluster fails over, is promoted by force, or is restored, under it.

Each row comes once, or the query ends with a sentence; what that advises leaves nothing out.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Self

import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from holdfast.cli.spark_options import remote_log
from holdfast.client import blocking
from holdfast.spark.archive.store import Archive
from holdfast.spark.pipelines.archive import archive_once
from holdfast.spark.pipelines.restore import RestoreSettings, restore
from holdfast.spark.pipelines.restored_log import NewMember
from holdfast.testing.local_cluster import LocalCluster, LocalNode

pytestmark = [pytest.mark.processes, pytest.mark.slow, pytest.mark.timeout(400)]

QUEUE = "orders"
PATIENCE_SECONDS = 120.0


@pytest.fixture
def cluster(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[LocalCluster]:
    """Nodes of this test alone: three, unless it asks for others."""
    with LocalCluster(tmp_path / "nodes", getattr(request, "param", "three")) as nodes:
        nodes.start()
        yield nodes


class Query:
    """A query that runs until it ends by itself or the block does; it keeps what it was given."""

    def __init__(self, frame: DataFrame, checkpoint: Path) -> None:
        self.bodies: list[str] = []
        writer = frame.writeStream.foreachBatch(self._take)
        self._query = writer.option("checkpointLocation", str(checkpoint)).start()

    def _take(self, batch: DataFrame, _number: int) -> None:
        self.bodies += [bytes(row.body).decode() for row in batch.collect()]

    def wait(self, bodies: list[str]) -> None:
        """Wait until just these have come, each once."""
        self._wait(lambda: len(self.bodies) >= len(bodies))
        assert self._query.isActive, self._query.exception()
        assert sorted(self.bodies) == sorted(bodies)

    def end(self) -> str:
        """Wait until it has ended by itself; gives what it says."""
        self._wait(lambda: not self._query.isActive)
        error = self._query.exception()
        assert isinstance(error, StreamingQueryException)
        return str(error)

    def _wait(self, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not is_so():
            assert time.monotonic() < deadline, (len(self.bodies), self._query.exception())
            time.sleep(0.1)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._query.stop()


def orders(spark: SparkSession, cluster: LocalCluster) -> DataFrame:
    """The stream of the orders, by whichever node answers."""
    url = ",".join(f"http://{node.admin}" for node in cluster.nodes.values())
    options = {"url": url, "columns": "destination,body", "maxEntriesPerTrigger": "5"}
    frame = spark.readStream.format("holdfast").options(**options).load()
    return frame.where(f"destination = '{QUEUE}'")


def send(uri: str, name: str, count: int) -> list[str]:
    """Send messages one after the other, each confirmed before the next; gives their bodies."""
    bodies = [f"{name} {number}" for number in range(count)]
    with blocking.connect(uri) as connection:
        for body in bodies:
            connection.send(f"/queue/{QUEUE}", body)
    return bodies


def promote(node: LocalNode) -> None:
    """Let it go on alone, as an operator does who knows that the others are gone."""
    node.wait_until(lambda status: status["leader"] is None, "without a leader")
    command = ["cluster", "promote", node.name, "--force", "--yes", "--admin", node.admin]
    subprocess.run([sys.executable, "-m", "holdfast", *command], check=True, capture_output=True)
    node.wait_until(lambda status: status["serving"], "serving")


def others(cluster: LocalCluster, node: LocalNode) -> list[LocalNode]:
    return [each for each in cluster.nodes.values() if each is not node]


def only(node: LocalNode) -> str:
    return f"stomp://127.0.0.1:{node.stomp_port}"


def test_a_failover_and_a_promotion_that_lost_nothing_are_not_noticed(
    spark: SparkSession, cluster: LocalCluster, tmp_path: Path
) -> None:
    """The leader dies under the query, and later all but one."""
    with Query(orders(spark, cluster), tmp_path / "checkpoint") as query:
        sent = send(cluster.uri, "before", 30)
        query.wait(sent)
        leader = cluster.leader()
        leader.kill()
        sent += send(cluster.uri, "failed over", 30)
        query.wait(sent)
        leader.start()
        cluster.wait_level()
        last = cluster.leader()
        for node in others(cluster, last):
            node.kill()
        promote(last)
        sent += send(only(last), "promoted", 30)
        query.wait(sent)


def test_a_promotion_that_lost_what_was_read_ends_the_query(
    spark: SparkSession, cluster: LocalCluster, tmp_path: Path
) -> None:
    """What is left, and what is new, comes with a new checkpoint: nothing is passed over."""
    lagging = others(cluster, cluster.leader())[0]
    frame = orders(spark, cluster)
    with Query(frame, tmp_path / "checkpoint") as query:
        kept = send(cluster.uri, "kept", 20)
        query.wait(kept)
        cluster.wait_level()
        lagging.kill()
        lost = send(cluster.uri, "lost", 20)
        query.wait(kept + lost)
        for node in others(cluster, lagging):
            node.kill()
        lagging.start()
        promote(lagging)
        new = send(only(lagging), "new", 40)
        said = query.end()
    assert "promoted by force" in said
    assert "give the query a new checkpointLocation" in said
    assert sorted(query.bodies) == sorted(kept + lost)
    with Query(frame, tmp_path / "another") as query:
        query.wait(kept + new)


@pytest.mark.parametrize("cluster", ["single"], indirect=True)
def test_a_restored_cluster_ends_the_query(
    spark: SparkSession, cluster: LocalCluster, tmp_path: Path
) -> None:
    """It is another cluster; all that was restored comes with a new checkpoint, once."""
    (node,) = cluster.nodes.values()
    archive = Archive.open(str(tmp_path / "archive"))
    frame = orders(spark, cluster)
    with Query(frame, tmp_path / "checkpoint") as query:
        kept = send(only(node), "kept", 20)
        query.wait(kept)
        archive_once(spark, remote_log(node.admin, None), archive)
        lost = send(only(node), "lost", 5)
        query.wait(kept + lost)
        node.kill()
        shutil.rmtree(node.data)
        restore(spark, archive, node.data, RestoreSettings(member=NewMember(name=node.name)))
        node.start()
        node.wait_until(lambda status: status["serving"], "serving")
        new = send(only(node), "new", 20)
        said = query.end()
    assert "the cluster was restored" in said
    assert "give the query a new checkpointLocation" in said
    assert sorted(query.bodies) == sorted(kept + lost)
    with Query(frame, tmp_path / "another") as query:
        query.wait(kept + new)

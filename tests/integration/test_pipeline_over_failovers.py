"""
Load, audit and replay whose cluster loses its leader at each kind of question that they ask.

Without Spark: tasks run where the test stands. What is read is whole, what is sent is stored once,
and an audit finds nothing or gives no verdict.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from holdfast.cli.spark_options import remote_log
from holdfast.client import blocking
from holdfast.errors import LinkError
from holdfast.spark.log.client import RemoteLog
from holdfast.spark.pipelines.audit import audit
from holdfast.spark.pipelines.replica_proof import Replica
from holdfast.spark.source.batch_reader import BatchReader
from holdfast.spark.source.options import read_options
from holdfast.testing.local_cluster import LocalCluster, LocalNode
from trials.pipeline.at_request import AtRequest
from trials.pipeline.filled_cluster import filled_cluster
from trials.pipeline.paper_spark import PaperSpark
from trials.pipeline.replayed_rows import replay_rows, rows_of
from trials.pipeline.written_log import orders_log

pytestmark = [pytest.mark.processes, pytest.mark.slow, pytest.mark.timeout(400)]

QUEUE: Final = "read"
SENT: Final = [b"%d" % number * 50 for number in range(60)]
REPLAYED: Final = 1_600
"""Several turns of the sender, and more than it leaves unconfirmed."""


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with filled_cluster(tmp_path_factory.mktemp("failovers"), QUEUE, SENT) as cluster:
        yield cluster


@pytest.fixture
def at_request() -> Iterator[AtRequest]:
    at = AtRequest()
    with at.listening():
        yield at


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log to be replayed."""
    folder = tmp_path_factory.mktemp("replayed") / "log"
    orders_log(folder, *(b"%d" % number for number in range(REPLAYED)))
    return folder


def source(nodes: LocalCluster) -> dict[str, str]:
    """Options that name all nodes."""
    url = ",".join(f"http://{it.admin}" for it in nodes.nodes.values())
    return {"url": url, "secret_file": str(nodes.secret_path)}


def restart(nodes: LocalCluster, node: LocalNode) -> None:
    node.kill()
    node.start()
    nodes.leader(but=node)


def each_kind(
    nodes: LocalCluster, at_request: AtRequest, run: Callable[[], None], expected: set[str]
) -> None:
    """Run it with the leader killed at the first question of each kind, and then without."""
    at_request.set()
    run()
    firsts = at_request.firsts()
    assert expected <= firsts.keys()
    for number in firsts.values():
        leader = nodes.leader()
        at_request.set(number, leader.kill)
        try:
            run()
        except LinkError as error:
            assert "\n" not in str(error)  # noqa: PT017 - it may be one, and need not
        at_request.set()
        restart(nodes, leader)
        nodes.wait_level()
    run()


def test_a_read_is_whole(nodes: LocalCluster, at_request: AtRequest) -> None:
    """Whether it holds the log, looks how far it goes, asks for names, or reads."""

    def run() -> None:
        options = read_options(source(nodes) | {"columns": "destination,body"})
        reader = BatchReader(options)
        batches = [batch for part in reader.partitions() for batch in reader.read(part)]
        rows = [row for batch in batches for row in batch.to_pylist()]
        assert [row["body"] for row in rows if row["destination"] == QUEUE] == SENT

    expected = {"POST /holds/NAME", "GET /log/position", "GET /log", "GET /queues"}
    each_kind(nodes, at_request, run, expected)


def test_an_audit_finds_nothing_or_gives_no_verdict(
    nodes: LocalCluster, at_request: AtRequest
) -> None:
    """Whether the node that dies is asked what it serves, for its hashes, or for entries."""
    spark: Any = PaperSpark()

    def run() -> None:
        log: RemoteLog = remote_log(source(nodes)["url"], nodes.secret_path)
        found = audit(spark, [Replica("the cluster", log)], with_account=False)
        assert [] == found.findings

    expected = {"POST /holds/NAME", "GET /log/position", "GET /segments", "GET /log"}
    each_kind(nodes, at_request, run, expected)


def taken(uri: str, queue: str) -> list[bytes]:
    """What waits in a queue, and a while for one too many."""
    found: list[bytes] = []
    with blocking.connect(uri) as connection, connection.subscribe(queue) as subscription:
        while each := subscription.receive(10 if len(found) < REPLAYED else 0.3):
            found.append(each.body)
            each.acknowledge()
    return found


def happening(rows: Iterator[Any], number: int, happen: Callable[[], None]) -> Iterator[Any]:
    """The rows, and something that happens before one of them, or behind the last."""
    for place, row in enumerate(rows):
        if place == number:
            happen()
        yield row
    if number >= REPLAYED:
        happen()


@pytest.mark.parametrize("number", [0, 700, REPLAYED])
def test_a_replay_whose_target_fails_over_stores_each_message_once(
    nodes: LocalCluster, stored: Path, number: int
) -> None:
    """Before anything is sent, amid it, and with all sent and not yet confirmed; then again."""
    target = f"/queue/target-{number}"
    leader = nodes.leader()
    rows = happening(rows_of({"path": str(stored)}), number, leader.kill)
    done = replay_rows(rows, target, nodes.uri)
    assert REPLAYED == done.confirmed
    restart(nodes, leader)
    replay_rows(rows_of({"path": str(stored)}), target, nodes.uri)
    assert [b"%d" % number for number in range(REPLAYED)] == taken(nodes.uri, target)


@pytest.mark.parametrize("confirmed", ["0", "some", "done"])
def test_a_replay_whose_driver_is_killed_is_run_again(
    nodes: LocalCluster, stored: Path, confirmed: str
) -> None:
    """With nothing confirmed, with some of it, and with all stored and nobody told."""
    target = f"/queue/killed-{confirmed}"
    command = [sys.executable, "-m", "trials.pipeline.replayed_rows", str(stored), target]
    with subprocess.Popen(
        [*command, nodes.uri], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as driver:
        assert driver.stdout is not None
        for line in driver.stdout:
            said = line.strip()
            if said == confirmed or (confirmed == "some" and said not in {"0", "done"}):
                driver.kill()
                break
    assert driver.returncode < 0
    for _ in range(2):
        replay_rows(rows_of({"path": str(stored)}), target, nodes.uri)
    assert [b"%d" % number for number in range(REPLAYED)] == taken(nodes.uri, target)

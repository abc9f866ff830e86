"""
The process of a streaming query from Holdfast to Holdfast, killed in each phase of a batch.

Started again from its checkpoint it goes on: each message is in the target once, and the log is
held from where it has not been taken. Without Spark, but in the order that Spark keeps.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from holdfast.client import blocking
from holdfast.testing.local_cluster import LocalCluster
from trials.pipeline.executor_kills import ExecutorKills
from trials.pipeline.micro_batches import ENTRIES, FROM, PHASES
from trials.pipeline.stalled_worker import STALL_VARIABLE, WRITE

pytestmark = [pytest.mark.processes, pytest.mark.slow, pytest.mark.timeout(300)]

MESSAGES: Final = 6 * ENTRIES
SECONDS: Final = 60.0
NEVER: Final = ("never", 0)


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[LocalCluster]:
    with LocalCluster(tmp_path / "nodes", "single") as cluster:
        cluster.start()
        yield cluster


def send(nodes: LocalCluster) -> None:
    """Some messages, each an entry of its own."""
    with blocking.connect(nodes.uri) as connection:
        for number in range(MESSAGES):
            with connection.producer(f"/queue/{FROM}") as producer:
                producer.send(b"row-%d" % number)


class Queries:
    """Processes of one query, one after the other."""

    def __init__(self, nodes: LocalCluster, folder: Path) -> None:
        folder.mkdir()
        self.kills = ExecutorKills(folder / "orders")
        (node,) = nodes.nodes.values()
        self._places = [str(folder), f"http://{node.admin}", nodes.uri]

    @contextmanager
    def started(self, phase: str, batch: int) -> Iterator[subprocess.Popen[bytes]]:
        """One that waits there to be killed, and is."""
        command = [sys.executable, "-m", "trials.pipeline.micro_batches", *self._places]
        with subprocess.Popen(
            [*command, phase, str(batch)],
            env=os.environ | {STALL_VARIABLE: str(self.kills.folder)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as process:
            try:
                yield process
            finally:
                process.kill()

    def die(self, phase: str, batch: int) -> None:
        """Let one die at this phase of a batch."""
        with self.started(phase, batch) as process:
            assert process.stdout is not None
            assert b"there\n" == process.stdout.readline()

    def die_at_row(self, number: int) -> None:
        """Let one die with this row on its way."""
        self.kills.order(WRITE, rf"\n\nrow-{number}\0")
        with self.started(*NEVER):
            self.kills.strike_worker(SECONDS)

    def complete(self) -> None:
        """Let one take all that is left."""
        with self.started(*NEVER) as process:
            assert 0 == process.wait(SECONDS)


def taken(uri: str) -> list[bytes]:
    """What waits in the target, and a while for one too many."""
    found: list[bytes] = []
    with blocking.connect(uri) as connection, connection.subscribe("/queue/to") as subscription:
        while each := subscription.receive(10 if len(found) < MESSAGES else 0.3):
            found.append(each.body)
            each.acknowledge()
    return found


def test_each_message_is_in_the_target_once(nodes: LocalCluster, tmp_path: Path) -> None:
    """Whatever phase the one before died in, and though each of them dies there twice."""
    send(nodes)
    queries = Queries(nodes, tmp_path / "query")
    for batch, phase in enumerate(PHASES, 1):
        queries.die(phase, batch)
        if phase != "noted":
            queries.die(phase, batch)
    for _ in range(2):
        queries.die_at_row(MESSAGES - 3)
    queries.complete()
    assert [b"row-%d" % number for number in range(MESSAGES)] == taken(nodes.uri)
    (node,) = nodes.nodes.values()
    (hold,) = node.get("/holds")["holds"]
    assert hold["index"] > MESSAGES

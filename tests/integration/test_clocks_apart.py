"""
A cluster whose nodes' clocks are minutes apart, and which each of them leads in its turn.

Every message has one place in time, no hold ends, and an archive goes on: whoever cuts by time
gets each message once.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from holdfast.cli.archive_run import ArchiveRun
from holdfast.cli.spark_options import remote_log
from holdfast.client import blocking
from holdfast.spark.archive.source import ArchivedSource
from holdfast.spark.archive.store import Archive
from holdfast.spark.log.client import RemoteLog
from holdfast.spark.log.holds import Hold
from holdfast.spark.pipelines.archive import ArchiveSettings
from holdfast.spark.pipelines.restore import index_at
from holdfast.spark.source.batch_reader import BatchReader
from holdfast.spark.source.options import read_options
from holdfast.testing.local_cluster import LocalCluster
from trials.pipeline.paper_spark import PaperSpark

pytestmark = [pytest.mark.processes, pytest.mark.slow, pytest.mark.timeout(300)]

APART: Final = {"a": 0.0, "b": 420.0, "c": -420.0}
"""Seconds by which each node's wall clock is ahead of this machine's."""
SHIFT_VARIABLE: Final = "CLOCK_AHEAD_SECONDS"
STARTUP: Final = f"""
import os, time
ahead = int(float(os.environ["{SHIFT_VARIABLE}"]) * 1e9)
nanoseconds = time.time_ns
time.time_ns = lambda: nanoseconds() + ahead
time.time = lambda: time.time_ns() / 1e9
"""
LEADERS: Final = 4
A_ROUND: Final = 5
EXPIRY_SECONDS: Final = 300
QUEUE: Final = "cut"


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[LocalCluster]:
    (tmp_path / "startup").mkdir()
    (tmp_path / "startup" / "sitecustomize.py").write_text(STARTUP)
    with LocalCluster(tmp_path / "nodes", "three") as cluster:
        for name, node in cluster.nodes.items():
            node.environment = {
                "PYTHONPATH": str(tmp_path / "startup"),
                SHIFT_VARIABLE: str(APART[name]),
            }
        cluster.start()
        yield cluster


def send(nodes: LocalCluster, numbers: range) -> None:
    with blocking.connect(nodes.uri) as connection:
        with connection.producer(f"/queue/{QUEUE}") as producer:
            for number in numbers:
                producer.send(b"%d" % number)
    nodes.wait_level()


def read(archive: Archive, **options: str) -> list[dict[str, Any]]:
    """Load as Spark's tasks do."""
    columns = "index,stored_at,body"
    reader = BatchReader(read_options({"path": str(archive), "columns": columns, **options}))
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    return [row for batch in batches for row in batch.to_pylist()]


def test_each_message_is_on_one_side_of_any_moment(nodes: LocalCluster, tmp_path: Path) -> None:
    """Whichever leader took it, with whichever clock; and its time says which clock that was."""
    archive = Archive.open(str(tmp_path / "archive"))
    log: RemoteLog = remote_log(
        ",".join(it.admin for it in nodes.nodes.values()), nodes.secret_path
    )
    hold = Hold(log, "archive", expiry_seconds=EXPIRY_SECONDS)
    led = []
    for number in range(LEADERS):
        leader = nodes.leader()
        led.append(leader.name)
        send(nodes, range(number * A_ROUND, (number + 1) * A_ROUND))
        ArchiveRun(PaperSpark(), log, archive, ArchiveSettings(), hold).loop(None)
        assert ["archive"] == [each["name"] for each in leader.get("/holds")["holds"]]
        leader.kill()
        leader.start()
        nodes.leader(but=leader)
    assert len(set(led)) > 1

    rows = read(archive)
    assert [b"%d" % number for number in range(LEADERS * A_ROUND)] == [it["body"] for it in rows]
    position = ArchivedSource.open(str(archive)).position()
    catalogue = archive.catalogue()
    times = [it["entry_time"] for it in entries(archive)]
    assert times == sorted(times)
    for moment in times:
        text = moment.isoformat()
        parts = [read(archive, end_time=text), read(archive, start_time=text)]
        assert rows == [row for part in parts for row in part]
        through = index_at(archive, catalogue, int(moment.timestamp() * 1_000_000))
        assert len([it for it in times if it <= moment]) == through
    assert len(times) == position.last_index
    stamps = [it["stored_at"] for it in rows]
    clocks = {round((it - stamps[0]).total_seconds() / 420) for it in stamps}
    assert len(clocks) > 1, "the nodes' clocks were not apart"


def entries(archive: Archive) -> list[dict[str, Any]]:
    """When each entry was sealed, by the files themselves."""
    found: dict[int, dict[str, Any]] = {}
    for file in archive.catalogue().files():
        for batch in archive.batches(file, ["index", "entry_time"]):
            found |= {row["index"]: row for row in batch.to_pylist()}
    return [found[index] for index in sorted(found)]

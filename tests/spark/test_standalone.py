"""
The same commands on a real cluster of Spark's: a master and two workers of the installed pyspark.

Executors are processes of their own there: what a task needs has to be sent to them, and what it
writes has to be found by all.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from holdfast.model.records import QueueRecord
from trials.pipeline.standalone_spark import StandaloneSpark
from trials.pipeline.written_log import WrittenLog, message

pytestmark = [
    pytest.mark.processes,
    pytest.mark.slow,
    pytest.mark.timeout(400),
    pytest.mark.skipif(
        "SPARK_CLUSTER" not in os.environ,
        reason="a minute, and test_killed_workers has an executor, too: make spark-cluster",
    ),
]

MESSAGES = 6000
COMMAND_SECONDS = 240.0


@pytest.fixture(scope="module")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StandaloneSpark]:
    """Two workers with one core each."""
    with StandaloneSpark(tmp_path_factory.mktemp("standalone")) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of several segments, so that there is work for both."""
    directory = tmp_path_factory.mktemp("log")
    with WrittenLog(directory, segment_bytes=256 * 1024) as written:
        written.put(QueueRecord(1, "orders"))
        for start in range(1, MESSAGES + 1, 100):
            body = b"x" * 100
            written.put(*(message(1, n, body, b"a:b\n", "p") for n in range(start, start + 100)))
    return directory


def run(cluster: StandaloneSpark, *arguments: str) -> dict[str, Any]:
    """
    Run a command on the cluster; gives its JSON.

    Nothing of what Spark itself writes may be seen, unless it is asked for.
    """
    settings = ("spark.executor.memory=512m", "spark.driver.memory=512m", "spark.cores.max=2")
    command = [sys.executable, "-m", "holdfast", *arguments, "--json", "--master", cluster.master]
    for setting in (*settings, "spark.sql.shuffle.partitions=2"):
        command += ["--conf", setting]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=COMMAND_SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    is_verbose = "--verbose" in arguments
    assert ("log4j" in done.stderr) == is_verbose
    assert is_verbose or "WARN" not in done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_a_log_is_read_by_two_workers(standalone: StandaloneSpark, log: Path) -> None:
    """What is counted is what the log holds."""
    where = ("--where", "sequence > 1000 and body_size = 100")
    found = run(
        standalone, "replay", "/queue/again", "--path", str(log), "--dry-run", "--verbose", *where
    )
    assert found["by_destination"] == {"orders": MESSAGES - 1000}


def test_an_archive_is_written_by_executors(
    standalone: StandaloneSpark, log: Path, tmp_path: Path
) -> None:
    """
    Every message is in the archive once, counted without the archive's own code; both workers had
    an executor.
    """
    store = tmp_path / "store"
    found = run(standalone, "archive", "--path", str(log), "--uncertain-end", "--to", str(store))
    assert found["messages"] == MESSAGES
    for worker in ("one", "two"):
        assert list((standalone.directory / worker).glob("app-*/*/stderr"))
    columns = ["kind", "sequence"]
    files = sorted((store / "records").rglob("*.parquet"))
    rows = [row for file in files for row in pq.read_table(file, columns=columns).to_pylist()]
    sequences = sorted(row["sequence"] for row in rows if row["kind"] == "message")
    assert sequences == list(range(1, MESSAGES + 1))

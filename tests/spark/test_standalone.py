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
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pyspark
import pytest

from holdfast.model.records import QueueRecord
from holdfast.testing.free_ports import free_ports
from holdfast.testing.written_log import WrittenLog, message

pytestmark = [pytest.mark.processes, pytest.mark.slow, pytest.mark.timeout(400)]

MESSAGES = 6000
START_SECONDS = 120.0
COMMAND_SECONDS = 240.0


class Standalone:
    """A master and its workers, on loopback; use as a context manager."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.port, self.page = free_ports(2)
        self.processes: list[subprocess.Popen[bytes]] = []

    @property
    def master(self) -> str:
        return f"spark://127.0.0.1:{self.port}"

    def start(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a part of the cluster; its words go to a file."""
        program = Path(pyspark.__file__).parent / "bin" / "spark-class"
        environment = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_DAEMON_MEMORY": "256m"}
        command = [str(program), f"org.apache.spark.deploy.{name}", "--host", "127.0.0.1"]
        with (self.directory / "words").open("ab") as words:
            process = subprocess.Popen(
                [*command, *arguments],
                stdout=words,
                stderr=words,
                stdin=subprocess.DEVNULL,
                env=environment,
                cwd=self.directory,
            )
        self.processes.append(process)
        return process

    def __enter__(self) -> Standalone:
        self.start("master.Master", "--port", str(self.port), "--webui-port", str(self.page))
        self.wait_workers(0)
        for name in ("one", "two"):
            folder = str(self.directory / name)
            resources = ["--cores", "1", "--memory", "1g", "--work-dir", folder]
            self.start("worker.Worker", *resources, "--webui-port", "0", self.master)
        self.wait_workers(2)
        return self

    def wait_workers(self, count: int) -> None:
        """Wait until the master answers and has so many workers."""
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            try:
                if len(self.state()["workers"]) >= count:
                    return
            except OSError:
                pass
            time.sleep(0.2)
        raise TimeoutError((self.directory / "words").read_text()[-3000:])

    def state(self) -> dict[str, Any]:
        """What the master says of itself."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.page}/json/", timeout=5) as answer:
            found: dict[str, Any] = json.loads(answer.read())
        return found

    def __exit__(self, *_: object) -> None:
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


@pytest.fixture(scope="module")
def standalone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    """Two workers with one core each."""
    with Standalone(tmp_path_factory.mktemp("standalone")) as cluster:
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


def run(cluster: Standalone, *arguments: str) -> dict[str, Any]:
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


def test_a_log_is_read_by_two_workers(standalone: Standalone, log: Path) -> None:
    """What is counted is what the log holds; both workers had an executor."""
    where = ("--where", "sequence > 1000 and body_size = 100")
    found = run(
        standalone, "replay", "/queue/again", "--path", str(log), "--dry-run", "--verbose", *where
    )
    assert found["by_destination"] == {"orders": MESSAGES - 1000}
    for worker in ("one", "two"):
        assert list((standalone.directory / worker).glob("app-*/*/stderr"))


def test_an_archive_is_written_by_executors(
    standalone: Standalone, log: Path, tmp_path: Path
) -> None:
    """Every message is in the archive once, counted without the archive's own code."""
    store = tmp_path / "store"
    found = run(standalone, "archive", "--path", str(log), "--uncertain-end", "--to", str(store))
    assert found["messages"] == MESSAGES
    columns = ["kind", "sequence"]
    files = sorted((store / "records").rglob("*.parquet"))
    rows = [row for file in files for row in pq.read_table(file, columns=columns).to_pylist()]
    sequences = sorted(row["sequence"] for row in rows if row["kind"] == "message")
    assert sequences == list(range(1, MESSAGES + 1))

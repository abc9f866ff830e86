"""
A cluster of Spark's and a cluster of ours, each on hosts of its own, and a program that uses both.

Hosts a, b and c are nodes, "driver" runs the submitted program, "workers" is all of Spark's own.
Nothing of one is reached from another by "localhost". Files are the same everywhere, as on a shared
file system.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import ExitStack
from multiprocessing.connection import Connection, Listener
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import pyspark

from trials.chaos.cluster import ChaosCluster
from trials.chaos.network import Network, open_network
from trials.pipeline import submitted_program
from trials.pipeline.executor_kills import ExecutorKills
from trials.pipeline.standalone_spark import JAVA_OPTIONS, StandaloneSpark
from trials.pipeline.submitted_program import Asked

DRIVER, WORKERS = "driver", "workers"
TOPOLOGY: Final = "three"
NODE_ARGUMENTS: Final = ("--segment", "65536")
"""Small, so that a few messages are several tasks."""
DRIVER_PORT, BLOCKS_PORT = 7078, 7079
ANSWER_SECONDS: Final = 300.0
SUBMIT: Final = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
SETTINGS: Final = {
    "spark.cores.max": "2",
    "spark.executor.cores": "1",
    "spark.executor.memory": "512m",
    "spark.driver.memory": "512m",
    "spark.sql.shuffle.partitions": "2",
    "spark.executor.extraJavaOptions": JAVA_OPTIONS,
    "spark.driver.extraJavaOptions": JAVA_OPTIONS,
}


class Done(NamedTuple):
    """A command that has ended."""

    code: int
    out: str
    words: str
    """What it wrote to standard error."""


class SparkElsewhere:
    """All of it; use as a context manager. Nothing outlives the block."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.kills = ExecutorKills(directory / "kills")
        self._open = ExitStack()
        self._words = directory / "program.log"
        self._connection: Connection[Any, Any] | None = None
        self.network: Network
        self.nodes: ChaosCluster
        self.spark: StandaloneSpark

    def __enter__(self) -> Self:
        """
        Start all of it.

        Raises:
            NetworkUnavailableError: There can be no namespaces here.
        """
        with ExitStack() as opened:
            hosts = ["a", "b", "c", DRIVER, WORKERS]
            self.network = opened.enter_context(open_network(hosts, prefer="namespaces"))
            self.spark = opened.enter_context(self._standalone())
            self.nodes = opened.enter_context(
                ChaosCluster(
                    self.directory / "nodes", TOPOLOGY, self.network, arguments=NODE_ARGUMENTS
                )
            )
            self._connection = opened.enter_context(self._submitted())
            self.nodes.start()
            self._open = opened.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        """End all of it."""
        self._open.close()

    @property
    def urls(self) -> list[str]:
        """The nodes' admin ports."""
        return [f"http://{node.admin}" for node in self.nodes.nodes.values()]

    @property
    def url(self) -> str:
        """The same as one option."""
        return ",".join(self.urls)

    def asked(self, *call: Any) -> Asked:
        """Ask the program for something, and go on meanwhile."""
        assert self._connection is not None, "the program runs inside the block"
        return Asked(self._connection, *call)

    def ask(self, *call: Any) -> Any:
        """Ask the program for something, and wait for its answer."""
        return self.asked(*call).result(ANSWER_SECONDS)

    def struck(self, event: str, pattern: str, *call: Any) -> Any:
        """
        Ask for something and kill the executor whose worker comes there; gives the answer.

        Raises:
            TimeoutError: No worker came there, or there was no answer.
        """
        self.kills.order(event, pattern)
        try:
            asked = self.asked(*call)
            self.kills.strike()
            return asked.result(ANSWER_SECONDS)
        finally:
            self.kills.withdraw()

    def run(self, *arguments: str, order: tuple[str, str] | None = None) -> Done:
        """
        Run a command of ours on the driver's host to its end.

        Args:
            order: An event and a pattern: the executor whose worker comes there is killed.

        Raises:
            TimeoutError: No worker came there.
            subprocess.TimeoutExpired: It has not ended.
        """
        command = (sys.executable, "-m", "holdfast", *arguments)
        if order is not None:
            self.kills.order(*order)
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as words:
            process = self._start(command, stdout=out, stderr=words)
            try:
                if order is not None:
                    self.kills.strike()
                code = process.wait(ANSWER_SECONDS)
            finally:
                self.kills.withdraw()
                process.kill()
                process.wait()
            out.seek(0)
            words.seek(0)
            return Done(code, out.read().decode(), words.read().decode())

    def on_spark(self, *arguments: str, order: tuple[str, str] | None = None) -> Done:
        """Run a command of ours as an application of its own, as behind a firewall."""
        where = ["--json", "--master", self.spark.master, *self.settings()]
        places = (self.network.address(DRIVER), DRIVER_PORT, BLOCKS_PORT)
        for key, value in zip(
            ("driver.host", "driver.port", "blockManager.port"), places, strict=True
        ):
            where += ["--conf", f"spark.{key}={value}"]
        return self.run(*arguments, *where, order=order)

    def settings(self) -> list[str]:
        """What is said to Spark, as its programs and ours take it."""
        wanted = SETTINGS | self.kills.settings
        return [word for key, value in wanted.items() for word in ("--conf", f"{key}={value}")]

    def _start(self, command: tuple[str, ...], **options: Any) -> subprocess.Popen[bytes]:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("SPARK_")}
        environment["PYSPARK_PYTHON"] = sys.executable
        environment["HOLDFAST_SECRET_FILE"] = str(self.nodes.secret_path)
        options = {"stdin": subprocess.DEVNULL, "cwd": self.directory, **options}
        return self.network.spawn(DRIVER, command, env=environment, **options)

    def _standalone(self) -> StandaloneSpark:
        folder = self.directory / "spark"
        folder.mkdir()
        return StandaloneSpark(
            folder,
            host=self.network.address(WORKERS),
            spawn=lambda command, **options: self.network.spawn(WORKERS, command, **options),
            inside=lambda: self.network.inside(DRIVER),
        )

    def _submitted(self) -> Connection[Any, Any]:
        """Submit the program; gives what it is talked to by."""
        place = str(self.directory / "program.socket")
        command = (SUBMIT, "--master", self.spark.master, *self.settings())
        program = (submitted_program.__file__, place, str(self.nodes.secret_path))
        found: list[Connection[Any, Any]] = []
        with Listener(place, family="AF_UNIX") as listener, self._words.open("wb") as words:
            waiting = threading.Thread(target=lambda: found.append(listener.accept()), daemon=True)
            waiting.start()
            process = self._start((*command, *program), stdout=words, stderr=words)
            deadline = time.monotonic() + ANSWER_SECONDS
            while waiting.is_alive() and process.poll() is None and time.monotonic() < deadline:
                waiting.join(0.1)
        if not found:
            raise TimeoutError(f"the program did not begin: {self._words.read_text()[-3000:]}")
        return found[0]

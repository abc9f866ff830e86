"""
A cluster of Spark's own on this machine, a master and workers of the installed pyspark: for tests.

Executors are processes of their own there. Master and workers may live on a host of a network of
namespaces, so that nothing of theirs is reached by "localhost".
"""

from __future__ import annotations

import json
import os
import subprocess
import time
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, Self

import pyspark

from holdfast.testing.free_ports import free_ports

START_SECONDS = 120.0
JAVA_OPTIONS = (
    "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    " -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)
"""
For processes that live for seconds, and whose queries are short: the second compiler would not be
done before they end, and of what a start costs a fifth was to prove Spark's own classes sound.
"""


class StandaloneSpark:
    """
    A master and workers with room for two executors each; use as a context manager.

    Args:
        host: The address that all of them bind.
        spawn: Starts a program where they live; as Popen does.
        inside: Where the master's page is asked from.
    """

    def __init__(
        self,
        directory: Path,
        workers: Sequence[str] = ("one", "two"),
        *,
        host: str = "127.0.0.1",
        spawn: Callable[..., subprocess.Popen[bytes]] = subprocess.Popen,
        inside: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self.directory = directory
        self.workers = workers
        self.host = host
        self.port, self.page = free_ports(2)
        self.processes: list[subprocess.Popen[bytes]] = []
        self._spawn = spawn
        self._inside = inside

    @property
    def master(self) -> str:
        """What a program connects to."""
        return f"spark://{self.host}:{self.port}"

    def start(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a part of the cluster; its words go to a file."""
        program = Path(pyspark.__file__).parent / "bin" / "spark-class"
        environment = os.environ | {
            "SPARK_LOCAL_IP": self.host,
            "SPARK_DAEMON_MEMORY": "256m",
            "SPARK_DAEMON_JAVA_OPTS": JAVA_OPTIONS,
        }
        command = [str(program), f"org.apache.spark.deploy.{name}", "--host", self.host]
        with (self.directory / "words").open("ab") as words:
            process = self._spawn(
                [*command, *arguments],
                stdout=words,
                stderr=words,
                stdin=subprocess.DEVNULL,
                env=environment,
                cwd=self.directory,
            )
        self.processes.append(process)
        return process

    def __enter__(self) -> Self:
        """Start all of it."""
        try:
            self.start("master.Master", "--port", str(self.port), "--webui-port", str(self.page))
            self.wait_workers(0)
            for name in self.workers:
                folder = str(self.directory / name)
                resources = ["--cores", "2", "--memory", "2g", "--work-dir", folder]
                self.start("worker.Worker", *resources, "--webui-port", "0", self.master)
            self.wait_workers(len(self.workers))
        except BaseException:
            self.__exit__()
            raise
        return self

    def wait_workers(self, count: int) -> None:
        """
        Wait until the master answers and has so many workers.

        Raises:
            TimeoutError: They did not come; with the end of what they wrote.
        """
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            try:
                if len(self.state()["workers"]) >= count:
                    return
            except (OSError, ValueError):
                pass  # not there yet, or its page is not
            time.sleep(0.2)
        raise TimeoutError((self.directory / "words").read_text()[-3000:])

    def state(self) -> dict[str, Any]:
        """What the master says of itself."""
        url = f"http://{self.host}:{self.page}/json/"
        with self._inside(), urllib.request.urlopen(url, timeout=5) as answer:
            found: dict[str, Any] = json.loads(answer.read())
        return found

    def __exit__(self, *_: object) -> None:
        """End all of it."""
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

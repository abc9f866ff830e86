"""
Spark's workers on another host than the driver and the broker: each has a network of its own.

Needs root and TUN devices, as the tests of chaos between namespaces do; says so where it cannot.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest

from holdfast.testing.chaos.network import Network, NetworkUnavailableError, open_network
from holdfast.testing.standalone_spark import StandaloneSpark

pytestmark = [pytest.mark.processes, pytest.mark.slow, pytest.mark.timeout(600)]

HERE, THERE = "here", "there"
MESSAGES = 500
COMMAND_SECONDS = 300.0
SUBMIT = str(Path(pyspark.__file__).parent / "bin" / "spark-submit")
PROGRAM = """
import sys
from holdfast.spark import spark_session
spark = spark_session("submitted", "local[1]")
log = spark.read.format("holdfast").options(url=sys.argv[1], secret_file=sys.argv[2]).load()
print(spark.sparkContext.master, log.count())
"""


@pytest.fixture
def network() -> Iterator[Network]:
    """Two hosts: one of the driver and the broker, one of Spark's workers."""
    try:
        with open_network([HERE, THERE], prefer="namespaces") as opened:
            yield opened
    except NetworkUnavailableError as error:
        pytest.skip(f"Spark's workers cannot be put into another network here: {error}")


class Host:
    """Runs commands where the driver is."""

    def __init__(self, network: Network, directory: Path) -> None:
        self.network = network
        self.address = network.address(HERE)
        self.directory = directory
        self.secret = directory / "secret"
        self.secret.write_text("of this test, and long enough")
        self.secret.chmod(0o600)

    def start(self, *command: str, **options: Any) -> subprocess.Popen[bytes]:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("SPARK_")}
        environment["PYSPARK_PYTHON"] = sys.executable
        return self.network.spawn(HERE, command, env=environment, cwd=self.directory, **options)

    def run(self, *command: str) -> str:
        """Run a program to its end; gives what it wrote."""
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = self.start(*command, **pipes)
        out, err = process.communicate(timeout=COMMAND_SECONDS)
        assert process.returncode == 0, err.decode()[-3000:]
        return out.decode()

    def serve(self) -> str:
        """Start a broker with some messages; gives the address of its admin port."""
        admin, stomp = f"{self.address}:8161", f"{self.address}:61613"
        arguments = ["--name", "a", "--data", "data", "--admin", admin, "--stomp", stomp]
        serve = ["-m", "holdfast", "serve", "--secret-file", str(self.secret), *arguments]
        with (self.directory / "node.log").open("wb") as log:
            self.start(sys.executable, *serve, stderr=log)
        send = ["send", "/queue/orders", "one", "--count", str(MESSAGES), "--quiet"]
        uri = f"failover:(stomp://{stomp})"
        self.run(sys.executable, "-m", "holdfast", *send, "--uri", uri, "--timeout", "60")
        return f"http://{admin}"


def test_a_submitted_program_reads_a_cluster_from_another_host(
    network: Network, tmp_path: Path
) -> None:
    """
    Nothing of where the driver is was told to Spark: executors find it, and read the broker there.

    The program names a master of its own, for trying it out; what spark-submit says stays.
    """
    host = Host(network, tmp_path)
    url = host.serve()
    with StandaloneSpark(
        tmp_path,
        ["one"],
        host=network.address(THERE),
        spawn=lambda command, **options: network.spawn(THERE, command, **options),
        inside=lambda: network.inside(HERE),
    ) as spark:
        settings = ("executor.memory=512m", "driver.memory=512m", "sql.shuffle.partitions=2")
        conf = [word for each in settings for word in ("--conf", f"spark.{each}")]
        (tmp_path / "program.py").write_text(PROGRAM)
        found = host.run(
            SUBMIT, "--master", spark.master, *conf, "program.py", url, str(host.secret)
        )
        assert found.split() == [spark.master, str(MESSAGES)]
        assert list((tmp_path / "one").glob("app-*/*/stderr"))

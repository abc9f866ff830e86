"""
Spark and a node all of whose outer ports speak TLS, and that asks everybody who he is.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from holdfast.model.format_level import ACCESS_LEVEL
from holdfast.testing.free_ports import free_ports
from holdfast.testing.local_cluster import LocalCluster, LocalNode
from holdfast.transport.certificates import make_node, open_authority

pytestmark = [pytest.mark.processes, pytest.mark.slow]


@dataclass
class Secured:
    """A node, its files, and the addresses by which it is asked from outside."""

    node: LocalNode
    folder: Path
    stomp_port: int

    @property
    def url(self) -> str:
        return f"https://localhost:{self.node.admin_port}?caFile={self.folder}/ca.pem"

    @property
    def uri(self) -> str:
        return f"stomp+ssl://localhost:{self.stomp_port}?caFile={self.folder}/ca.pem"

    def token_file(self, name: str) -> Path:
        return self.folder / f"{name}.token"

    def command(self, *arguments: str, stdin: str = "") -> str:
        """What a command prints that the node's user gives on its machine."""
        line = [sys.executable, "-m", "holdfast", *arguments, "--admin", self.node.admin]
        done = subprocess.run(
            line, capture_output=True, text=True, timeout=60, check=True, input=stdin
        )
        return done.stdout

    def add(self, name: str, role: str) -> None:
        """Make a user, and the file of his token."""
        self.command("users", "add", name, "--role", role, "--password-stdin", stdin="a word of it")
        self.token_file(name).write_text(self.command("users", "token", name))


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    folder = tmp_path_factory.mktemp("secured")
    authority, _ = open_authority(folder)
    make_node(authority, folder / "one.pem", "one", [], 30)
    (port,) = free_ports(1)
    (folder / "one.toml").write_text(
        f'admin_tls = "own"\n[tls.own]\ncertificate = "{folder}/one.pem"\n'
        f'[[listen]]\naddress = "127.0.0.1:{port}"\ntls = "own"\n'
    )
    with LocalCluster(folder / "cluster", "single", ["--config", f"{folder}/one.toml"]) as nodes:
        nodes.start()
        node = nodes.leader()
        node.wait_until(lambda it: it["format_level"] >= ACCESS_LEVEL, "at the level of users")
        made = Secured(node, folder, port)
        made.add("ann", "operator")
        made.add("vic", "viewer")
        made.command("users", "roles", "ann", "operator", "sales")
        made.command("grant", "sales", "read,write,admin", "queue://kept")
        yield made


def test_rows_are_sent_and_read_by_somebody(spark: SparkSession, secured: Secured) -> None:
    """
    With a token in a file and by TLS: both ports know who asks. Who may not read the log, and who
    shows nobody, is told so, and no token stands in what he is told or in a plan.
    """
    frame = spark.range(5).selectExpr("concat('row ', id) as body")
    ann, vic = secured.token_file("ann"), secured.token_file("vic")

    def write(**said: str) -> None:
        writer = frame.write.format("holdfast").mode("append")
        writer.options(uri=secured.uri, destination="/queue/kept", **said).save()

    write(token_file=str(ann))
    reader = spark.read.format("holdfast").option("url", secured.url)
    found = reader.option("token_file", str(ann)).load()

    assert {f"row {number}" for number in range(5)} == {
        bytes(row.body).decode() for row in found.collect()
    }
    with pytest.raises(PySparkException, match="a login is needed here"):
        write()
    with pytest.raises(PySparkException, match="vic") as refused:
        write(token_file=str(vic))
    with pytest.raises(PySparkException, match="that takes role operator") as unread:
        reader.option("token_file", str(vic)).load().collect()
    told = f"{refused.value}{unread.value}{found._jdf.queryExecution().toString()}"
    assert not any(it.read_text().strip() in told for it in (ann, vic))


def test_commands_read_by_somebody(secured: Secured, tmp_path: Path) -> None:
    """
    The token is named by its file, on the command line or in the environment.
    """
    line = ["archive", "--to", str(tmp_path / "archive"), "--url", secured.url, "--json"]
    line = [sys.executable, "-m", "holdfast", *line, "--token-file"]
    refused, done = (
        subprocess.run(
            [*line, str(secured.token_file(name))],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        for name in ("vic", "ann")
    )

    assert refused.returncode == 1
    assert "that takes role operator" in refused.stderr
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["entries"] > 0

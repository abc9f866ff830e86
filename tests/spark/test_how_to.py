"""
The how-to pages on the pipeline: every command and every line of Python in them is run.

A page is run from top to bottom, as its reader would. Only names of places are replaced: the pages'
addresses by those of nodes on this machine, the object store by a folder or a server here.
`--continuous` becomes `--once`, so that the page comes to its end; the rehearsal `make demo-dr`
runs the continuous one.
"""

from __future__ import annotations

import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from holdfast.cli.main import app
from holdfast.client import blocking
from holdfast.errors import MembershipError
from holdfast.model.records import AcknowledgeRecord, DispatchMarkRecord, QueueRecord
from holdfast.testing.free_ports import free_ports
from holdfast.testing.local_cluster import LocalCluster, LocalNode
from trials.pipeline.s3_server import S3Server
from trials.pipeline.written_log import WrittenLog, message

pytestmark = [pytest.mark.processes, pytest.mark.slow, pytest.mark.timeout(600)]

PAGES = Path(__file__).parents[2] / "docs" / "how-to"
BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
STORE = "s3a://backup/holdfast"
FAULTS_EVERY = 40


class Reader:
    """Someone who does what a page says, in a folder of their own."""

    def __init__(self, places: dict[str, str]) -> None:
        self.places = places
        self.before: dict[str, Callable[[], None]] = {}
        self.names: dict[str, Any] = {}
        self.serving: list[subprocess.Popen[bytes]] = []

    def follow(self, page: str) -> dict[str, Any]:
        """Run a page; gives the names that its Python has made."""
        blocks = BLOCK.findall((PAGES / page).read_text())
        assert blocks
        for language, text in blocks:
            for start, hook in self.before.items():
                if text.startswith(start):
                    hook()
            if language == "python":
                exec(compile(self.placed(text), page, "exec"), self.names)
            else:
                self.run(self.placed(text))
        return self.names

    def here(self, *names: str) -> None:
        """Let these be in the reader's folder: Spark stands where the session began."""
        for name in names:
            *before, last = name.split()
            self.places[name] = " ".join([*before, str(Path.cwd() / last)])

    def placed(self, text: str) -> str:
        """The same with the names of real places."""
        for told, real in self.places.items():
            text = text.replace(told, real)
        return text

    def run(self, text: str) -> None:
        """Run one command; one that serves goes on beside."""
        words = shlex.split(text.replace("\\\n", " "))
        assert words[0] == "holdfast"
        if words[1] == "serve":
            command = [sys.executable, "-m", "holdfast", *words[1:]]
            self.serving.append(subprocess.Popen(command, stderr=subprocess.DEVNULL))
            return
        # A command may end by itself (typer.Exit) or return; anything but 0 is a failure.
        for left in range(50, -1, -1):
            try:
                assert not app(args=words[1:], standalone_mode=False)
                return
            except MembershipError as error:
                # One change of members at a time: a reader does what the sentence says.
                if "try again" not in str(error) or not left:
                    raise
                time.sleep(0.1)


@pytest.fixture
def reader(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Reader]:
    """A reader who knows no place yet; the session outlives their commands."""
    monkeypatch.setattr(SparkSession, "stop", lambda self: None)
    monkeypatch.chdir(tmp_path)
    handlers = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
    someone = Reader({STORE: str(tmp_path / "store"), "--continuous": "--once"})
    yield someone
    for number, handler in zip((signal.SIGTERM, signal.SIGINT), handlers, strict=True):
        signal.signal(number, handler)
    for process in someone.serving:
        process.kill()
        process.wait()


def send(nodes: LocalCluster, count: int) -> None:
    """Put orders on the queue, some of them from the north."""
    with blocking.connect(nodes.uri) as connection:
        with connection.producer("/queue/orders") as producer:
            for n in range(count):
                shop = "north" if n % 3 == 0 else "south"
                producer.send(b"order %d" % n, headers={"shop": shop})


def places_of(nodes: LocalCluster) -> dict[str, str]:
    """What the pages call the nodes of a cluster, and where these are."""
    stomp = ",".join(f"stomp://10.0.0.{n}:61613" for n in (1, 2, 3))
    return {
        ",".join(f"http://10.0.0.{n}:8161" for n in (1, 2, 3)): ",".join(
            f"http://{node.admin}" for node in nodes.nodes.values()
        ),
        f"failover:({stomp})": nodes.uri,
        "10.0.0.1:8161": next(iter(nodes.nodes.values())).admin,
        "cluster.secret": str(nodes.secret_path),
    }


@pytest.fixture(scope="module")
def nodes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Two nodes with thirty orders."""
    with LocalCluster(tmp_path_factory.mktemp("nodes"), "pair") as cluster:
        cluster.start()
        send(cluster, 30)
        cluster.wait_level()
        yield cluster


def test_a_queue_is_read_from_a_notebook(reader: Reader, nodes: LocalCluster) -> None:
    """The cells of the page find the thirty orders, live and in files, by batch and by stream."""
    reader.places |= places_of(nodes)
    reader.places["/var/lib/holdfast"] = str(nodes.nodes["b"].data)
    reader.here("orders-checkpoint", "orders-parquet")
    names = reader.follow("read-a-queue-from-a-notebook.md")
    assert names["waiting"].count() == 30
    assert names["copied"].where("destination = 'orders'").count() == 30
    assert names["spark"].read.parquet(str(Path.cwd() / "orders-parquet")).count() == 30


def test_a_cluster_is_archived(
    reader: Reader, nodes: LocalCluster, spark: SparkSession, tmp_path: Path
) -> None:
    """
    In an S3 server that fails now and then: the archive is proven, read and reported, ten orders of
    the north are sent once more, and it comes back as a directory.
    """
    reader.places |= places_of(nodes)
    del reader.places[STORE]
    with S3Server(FAULTS_EVERY) as server, told_to_hadoop(spark, server.options):
        reader.places['{"fs.s3a.endpoint": "https://s3.example.com"}'] = repr(server.options)
        names = reader.follow("archive-to-an-object-store.md")
        assert names["messages"].where("destination = 'orders'").count() == 30
        reader.run(f"holdfast restore --archive {STORE} --to {tmp_path / 'back'}")
    assert "orders" in (tmp_path / "report.html").read_text()
    queues = {it["name"]: it["messages"] for it in nodes.leader().get("/queues")["queues"]}
    assert queues["orders.again"] == 10
    back = spark.read.format("holdfast").option("view", "backlog").load(str(tmp_path / "back"))
    assert back.where("destination = 'orders'").count() == 30


@contextmanager
def told_to_hadoop(spark: SparkSession, options: dict[str, str]) -> Iterator[None]:
    """Set what `--conf spark.hadoop.…` sets where Spark is started."""
    assert spark.sparkContext._jsc is not None
    settings = spark.sparkContext._jsc.hadoopConfiguration()
    for key, value in options.items():
        settings.set(key, value)
    yield
    for key in options:
        settings.unset(key)


def test_the_life_of_a_message_is_found(reader: Reader, tmp_path: Path) -> None:
    """The page's queries tell who acknowledged what, and when."""
    reader.places["/var/lib/holdfast"] = str(tmp_path / "data")
    with WrittenLog(tmp_path / "data") as written:
        written.put(QueueRecord(1, "orders"))
        bodies = [b"order %d" % (4700 + n) for n in range(20)]
        written.put(*(message(1, n + 1, body, b"", "p") for n, body in enumerate(bodies)))
        written.put(DispatchMarkRecord(1, 15))
        written.put(AcknowledgeRecord(1, [6, 7, 8]))
    names = reader.follow("find-out-why-a-message.md")
    kinds = [row.kind for row in names["life"].orderBy("index").collect()]
    assert kinds == ["enqueue", "dispatch-mark", "acknowledge"]
    assert [row.message_id for row in names["found"].collect()] == ["ID:00010203-1-12"]
    assert (tmp_path / "report.html").exists()


def test_a_lost_site_is_recovered(
    reader: Reader, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A learner is promoted; an archive is restored: both have the orders of the lost nodes."""
    with LocalCluster(tmp_path / "old", "pair") as old:
        old.start()
        send(old, 30)
        old.wait_level()
        far = far_node(old, tmp_path / "far")
        reader.places |= places_of(old)
        reader.places["10.9.0.1:7000"] = f"127.0.0.1:{far.peer_port}"
        reader.places["10.9.0.1:8161"] = far.admin
        reader.here("--to restored", "--data restored")
        source = f"--path {old.nodes['b'].data} --uncertain-end"
        reader.run(reader.placed(f"holdfast archive {source} --to {STORE}"))

        def strike() -> None:
            far.wait_until(lambda status: status["role"] == "learner", "a learner")
            old.wait_level()
            for node in (old.nodes["a"], old.nodes["b"]):
                node.kill()
            # Who reads the page is slower: for a moment it believes that one of them leads.
            far.wait_until(lambda status: status["leader"] is None, "without a leader")

        def look_at_far() -> None:
            far.wait_until(lambda status: bool(status["serving"]), "serving")
            assert waiting_at(far) == {"orders": 30}
            stomp, admin = free_ports(2)
            reader.places["10.9.0.1:61613"] = f"127.0.0.1:{stomp}"
            reader.places["10.9.0.1:8161"] = f"127.0.0.1:{admin}"
            restored.admin_port = admin

        def wait_restored() -> None:
            restored.process = reader.serving[-1]
            restored.wait_until(lambda status: bool(status["serving"]), "serving")
            capsys.readouterr()

        restored = LocalNode("a", tmp_path / "none")
        reader.before["holdfast cluster promote"] = strike
        reader.before["holdfast restore --archive s3a://backup/holdfast --dry-run"] = look_at_far
        reader.before["holdfast queues"] = wait_restored
        reader.follow("recover-a-lost-site.md")
        assert "orders" in capsys.readouterr().out
        assert waiting_at(restored) == {"orders": 30}


def far_node(cluster: LocalCluster, folder: Path) -> LocalNode:
    """Start a node in another place that is told of the cluster and not admitted yet."""
    far = LocalNode("far", folder)
    members = [f"{node.name}=127.0.0.1:{node.peer_port}" for node in cluster.nodes.values()]
    members.append(f"far=127.0.0.1:{far.peer_port},learner")
    far.arguments += ["--peers", f"127.0.0.1:{far.peer_port}", "--site", "far"]
    far.arguments += ["--secret-file", str(cluster.secret_path)]
    for member in members:
        far.arguments += ["--member", member]
    cluster.nodes["far"] = far
    far.start()
    return far


def waiting_at(node: LocalNode) -> dict[str, int]:
    """How many messages wait in each queue of a node."""
    return {it["name"]: it["messages"] for it in node.get("/queues")["queues"]}

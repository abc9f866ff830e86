"""Spark over the stores of brokers: a database that is served, and several that hold one log."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from typer.testing import CliRunner

from holdfast.cli import archive as archive_command
from holdfast.cli import audit as audit_command
from holdfast.cli import restore as restore_command
from holdfast.cli.main import app
from holdfast.client import blocking
from holdfast.client.message import Message
from holdfast.journal.entry import Entry
from holdfast.testing.local_cluster import LocalNode, NodeGroup
from tests.stores.conftest import postgresql, postgresql_of_session
from trials.databases.postgresql import PostgresqlServer
from trials.pipeline.stored_log import fill, written
from trials.pipeline.written_log import message

pytestmark = [pytest.mark.processes, pytest.mark.slow, pytest.mark.timeout(800)]
__all__ = ["postgresql", "postgresql_of_session"]

PASSWORD = "pa55word"
"""PostgreSQL asks nobody on its own machine for it; it must be told to nobody all the same."""
MESSAGES = 120


class Served:
    """A broker whose log is in a database."""

    def __init__(self, node: LocalNode, address: str) -> None:
        self.node = node
        self.address = address
        """Without a password."""
        self.secret = address.replace("@", f":{PASSWORD}@", 1)


@pytest.fixture
def served(postgresql: PostgresqlServer, tmp_path: Path) -> Iterator[Served]:
    """It serves: messages were sent to it, and some of them taken."""
    found = postgresql.create("served")
    with NodeGroup[LocalNode](tmp_path / "nodes") as group:
        node = group.nodes["n"] = LocalNode("n", tmp_path / "nodes", ["--store", found])
        node.start()
        node.wait_until(lambda status: status["serving"], "serving")
        with blocking.connect(node.uri) as connection:
            for number in range(MESSAGES):
                connection.send("/queue/orders", f"{number}")
            with connection.subscribe("/queue/orders") as subscription:
                for _, taken in zip(range(20), subscription, strict=False):
                    taken.acknowledge()
        yield Served(node, found)


@pytest.fixture(scope="module")
def several(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Entry]]:
    """Three databases of one log, and another one's."""
    directory = tmp_path_factory.mktemp("several")
    entries = written(directory / "log", *(message(1, it, b"x" * 500) for it in range(1, 600)))
    fill([url_of(directory, name) for name in "abc"], entries)
    fill([url_of(directory, "other")], written(directory / "log2", message(1, 1)))
    return directory, entries


def url_of(directory: Path, name: str) -> str:
    return f"sqlite:///{directory}/{name}.db"


def load(spark: SparkSession, **options: object) -> DataFrame:
    return spark.read.format("holdfast").options(**options).load()


def told_of_plans(spark: SparkSession) -> str:
    """All that Spark's pages show of the queries so far."""
    store = spark._jsparkSession.sharedState().statusStore()
    found = store.executionsList()
    return "\n".join(
        f"{found.apply(place).description()}\n{found.apply(place).physicalPlanDescription()}"
        for place in range(found.size())
    )


def command(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> Any:
    for module in (archive_command, audit_command, restore_command):
        monkeypatch.setattr(module, "open_spark", lambda *_, **__: _Opened(spark))
    return CliRunner().invoke(app, arguments)


class _Opened:
    """The shared session in the place of one of the command's own."""

    def __init__(self, spark: SparkSession) -> None:
        self.spark = spark

    def __enter__(self) -> SparkSession:
        return self.spark

    def __exit__(self, *_: object) -> None:
        pass


def test_a_store_that_is_served_is_read_archived_and_audited(
    spark: SparkSession, served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    By its database and by its broker the same entries; neither the broker nor a page of Spark's
    notices: it serves on, and nobody is shown the password.
    """
    monkeypatch.setenv("HOLDFAST_STORE_PASSWORD", PASSWORD)
    by_url = load(spark, url=served.node.admin, view="entries")
    known = {it["index"]: it.chain for it in by_url.collect()}
    by_store = load(spark, store=served.address, view="entries", minPartitions=4)
    assert by_store.rdd.getNumPartitions() == 4
    found = {it["index"]: it.chain for it in by_store.collect()}
    assert len(known) > 2
    assert {it: found[it] for it in known} == known
    messages = load(spark, store=served.address)
    messages.createOrReplaceTempView("stored")
    assert spark.sql("SELECT * FROM stored").count() == MESSAGES
    live = load(spark, store=served.address, view="backlog").select("body", "destination")
    assert {(bytes(it.body), it.destination) for it in live.collect()} == {
        (b"%d" % it, "orders") for it in range(20, MESSAGES)
    }
    archive = str(tmp_path / "archive")
    done = command(spark, monkeypatch, "archive", "--to", archive, "--store", served.secret)
    assert done.exit_code == 0, done.output
    told = command(
        spark,
        monkeypatch,
        *("audit", "--no-account", "--url", served.node.admin, "--store", served.secret),
        *("--archive", archive),
    )
    assert told.exit_code == 0, told.output
    assert "2 replicas hold the same log; the archive gives it back" in told.stdout
    progress = streamed(spark, served, tmp_path)
    assert spark.sql("SELECT * FROM streamed").count() == MESSAGES
    assert served.node.get("/status")["serving"]
    refused = restored(spark, monkeypatch, archive, served.secret)
    assert "holds a log already" in str(refused.exception)
    other = f"shared:{tmp_path}/restored"
    back = restored(spark, monkeypatch, archive, other)
    assert back.exit_code == 0, back.output
    assert f"{MESSAGES - 20} live messages" in back.stdout
    come = consumed(tmp_path / "others", other.removeprefix("shared:"), MESSAGES - 20)
    assert [it.text for it in come] == [f"{number}" for number in range(20, MESSAGES)]
    identity = come[0].headers["message-id"]
    assert {bytes(it.body) for it in live.where(f"message_id = '{identity}'").collect()} == {b"20"}
    shown = told_of_plans(spark) + progress
    shown += "".join(f"{it.output}{it.exception}" for it in (done, told, refused, back))
    assert "served" in shown, "the address without it is in a plan"
    assert PASSWORD not in shown


def test_several_databases_are_audited_against_each_other(
    spark: SparkSession,
    several: tuple[Path, list[Entry]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Alike they are sound; whatever is wrong in one is named with that one, and its entry."""
    directory, entries = several
    urls = {name: url_of(directory, name) for name in ("a", "b", "c", "other")}
    flags = [it for name in "abc" for it in ("--store", urls[name])]
    good = command(spark, monkeypatch, "audit", *flags)
    assert good.exit_code == 0, good.output
    assert "3 replicas hold the same log; all 599 messages are accounted for." in good.stdout
    together = load(spark, store=" ".join(urls[name] for name in "abc"), view="entries")
    assert together.count() == len(entries)

    spoil(directory / "b.db", "DELETE FROM holdfast_entries WHERE idx IN (300, 301, 600)")
    spoil(directory / "c.db", "UPDATE holdfast_entries SET raw = zeroblob(99) WHERE idx = 77")
    report = tmp_path / "found.json"
    bad = command(
        spark,
        monkeypatch,
        *("audit", "--no-account", *flags, "--store", urls["other"], "--report", str(report)),
    )
    assert bad.exit_code == 1, bad.output
    found = [json.loads(line) for line in report.read_text().splitlines()]
    assert sorted((it["where"], it["kind"], it["first_index"], it["last_index"]) for it in found)[
        :3
    ] == [
        (urls["b"], "missing", 300, 301),
        (urls["b"], "missing", 600, 600),
        (urls["c"], "damaged", 77, 77),
    ]
    assert {it["kind"] for it in found if it["where"] == urls["other"]} == {"diverged"}
    assert together.count() == len(entries), "what one lacks another has"

    alone = urls["other"]
    spoil(directory / "other.db", "UPDATE holdfast_entries SET raw = zeroblob(99) WHERE idx = 2")
    archived = command(
        spark, monkeypatch, "archive", "--to", str(tmp_path / "no"), "--store", alone
    )
    assert f"entry 2 of {alone}: there is no entry" in str(archived.exception)


def streamed(spark: SparkSession, served: Served, directory: Path) -> str:
    """All of it into a table of memory, by a stream; what it tells of its progress."""
    query = (
        spark.readStream.format("holdfast")
        .options(store=served.address)
        .load()
        .writeStream.format("memory")
        .queryName("streamed")
        .option("checkpointLocation", str(directory / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination(300)
    return str(query.lastProgress)


def consumed(directory: Path, shared: str, count: int) -> list[Message]:
    """What a broker gives that serves a restored directory."""
    with NodeGroup[LocalNode](directory) as group:
        node = group.nodes["n"] = LocalNode("n", directory, ["--shared", shared])
        node.start()
        node.wait_until(lambda status: status["serving"], "serving")
        with blocking.connect(node.uri) as connection:
            with connection.subscribe("/queue/orders") as subscription:
                return [it for _, it in zip(range(count), subscription, strict=False)]


def restored(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch, archive: str, address: str
) -> Any:
    return command(spark, monkeypatch, "restore", "--archive", archive, "--to-store", address)


def spoil(path: Path, statement: str) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute(statement)
    connection.close()

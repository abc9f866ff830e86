"""
Brokers as real processes over one log: what a client and an operator see when one of them goes.

Each story is played on every kind of store that is at hand here. The load keeps books: what was
confirmed is delivered, once unless it says that it comes again.
"""

from __future__ import annotations

import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pytest

from holdfast.leases.projection import MessageRow
from holdfast.testing.local_cluster import LocalNode
from holdfast.testing.shared_brokers import SharedBrokers
from trials.clients.ledger import Account
from trials.clients.load import Load, LoadSettings
from trials.databases.server import DatabaseServer
from trials.leased.pausing import pause

LEASE = ["--lease-seconds", "1.5"]
SERVERS = ["postgresql", "mariadb"]
KINDS = ["shared", "sqlite", "several", *SERVERS]


@pytest.fixture(params=KINDS)
def medium(request: pytest.FixtureRequest, tmp_path: Path) -> list[str]:
    """The flags that say where the log is."""
    if request.param in SERVERS:
        server: DatabaseServer = request.getfixturevalue(request.param)
        return ["--store", server.create("brokers")]
    return {
        "shared": ["--shared", str(tmp_path / "shared")],
        "sqlite": ["--store", f"sqlite:///{tmp_path}/log.db"],
        "several": [
            flag for name in "abc" for flag in ("--store", f"sqlite:///{tmp_path}/{name}.db")
        ],
    }[request.param]


@pytest.fixture
def brokers(medium: list[str], tmp_path: Path) -> Iterator[SharedBrokers]:
    """Three brokers over one log, one of which serves."""
    with SharedBrokers(tmp_path / "brokers", [*medium, *LEASE]) as made:
        made.start()
        yield made


def load_on(brokers: SharedBrokers, rate: float = 500) -> Load:
    """Traffic of one producer and one consumer that find the one that serves."""
    addresses = [f"127.0.0.1:{it.stomp_port}" for it in brokers.nodes.values()]
    settings = LoadSettings(rate=rate, body_bytes=256, deduplicated=True, settle_receipts=True)
    return Load(addresses, settings)


def assert_kept(account: Account) -> None:
    """Nothing that was confirmed is gone, nothing is stored twice, nothing comes back."""
    assert account.confirmed > 0
    assert (0, 0, 0) == (account.lost, account.unconfirmed, account.stored_twice)
    assert (0, 0, 0) == (account.unflagged, account.resurrected, account.corrupt)


def test_l1_a_holder_that_is_killed_is_replaced_and_comes_back_as_a_standby(
    brokers: SharedBrokers,
) -> None:
    """Its process is seen gone, so nobody waits for its lease; its own cache serves it again."""
    with load_on(brokers) as load:
        load.wait_confirmed(200)
        for _ in range(2):
            holder = brokers.leader()
            holder.kill()
            load.wait_confirmed(200)
            assert brokers.leader() is not holder
            holder.start()
            holder.wait_until(lambda status: status["role"] == "standby", "a standby again")
        account = load.finish()
    assert_kept(account)


def test_l2_a_holder_that_is_paused_past_its_lease_confirms_nothing_more(
    brokers: SharedBrokers, medium: list[str]
) -> None:
    """It wakes up, finds another one in its place, closes its clients and waits."""
    with load_on(brokers) as load:
        load.wait_confirmed(200)
        holder = brokers.leader()
        pause(holder, medium)
        other = brokers.leader(but=holder)
        load.wait_confirmed(200)
        holder.signal(signal.SIGCONT)
        status = holder.wait_until(
            lambda status: status["role"] == "standby" and status["leader"] == other.name,
            "told of the one that replaced it",
        )
        assert not status["serving"]
        assert 0 == status["connections"]
        load.wait_confirmed(200)
        account = load.finish()
    assert_kept(account)


def test_l6_a_holder_that_is_stopped_gives_the_lease_back(brokers: SharedBrokers) -> None:
    """The next one does not wait for it, and no confirmed message is late or lost."""
    with load_on(brokers) as load:
        load.wait_confirmed(200)
        holder = brokers.leader()
        assert 0 == holder.stop()
        other = brokers.leader(but=holder)
        assert f"the lease was given back by {holder.name}" in other.log_path.read_text()
        load.wait_confirmed(200)
        account = load.finish()
    assert_kept(account)


def test_what_is_stored_outlives_all_brokers_and_their_directories(
    brokers: SharedBrokers, medium: list[str]
) -> None:
    """The log is the store's alone: a broker of an empty directory reads it and serves it."""
    settings = LoadSettings(rate=2_000, count_max=1_000, consumers=0)
    addresses = [f"127.0.0.1:{it.stomp_port}" for it in brokers.nodes.values()]
    with Load(addresses, settings) as load:
        load.wait_all_confirmed()
    for node in brokers.nodes.values():
        node.kill()
    for node in brokers.nodes.values():
        shutil.rmtree(node.data)
    fresh = LocalNode("fresh", brokers.directory, [*medium, *LEASE])
    brokers.nodes["fresh"] = fresh
    fresh.start()
    status = fresh.wait_until(lambda status: status["serving"], "serving")
    assert 1_000 == status["store"]["live_messages"]


def test_each_says_who_serves_and_where_the_log_is(brokers: SharedBrokers) -> None:
    """In its status, to programs and to people, and as a standby that is ready."""
    holder, standby = brokers.leader(), brokers.standby()
    one = holder.wait_until(lambda status: len(status["members"]) == 3, "told of all three")
    other = standby.status()
    assert other is not None

    assert one["lease"]["is_held"]
    assert one["lease"]["left_seconds"] > 0
    assert not other["lease"]["is_held"]
    assert holder.name == other["lease"]["holder"] == other["leader"]
    assert f"127.0.0.1:{holder.stomp_port}" == other["lease"]["holder_stomp"]
    ready = standby.get("/ready")
    assert ready["ready"]
    assert f"standby: {holder.name} holds the lease" in ready["reason"]
    table = subprocess.run(
        [sys.executable, "-m", "holdfast", "status", "--admin", standby.admin],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    ).stdout
    assert f"held by {holder.name}" in table


@pytest.mark.parametrize("medium", ["sqlite", *SERVERS], indirect=True)
def test_a_database_shows_the_queues_of_whoever_serves(
    brokers: SharedBrokers, medium: list[str], request: pytest.FixtureRequest
) -> None:
    """
    In a table, some seconds later; also those that the holder before had, and whoever changes rows
    there changes nothing of the queue.
    """
    settings = LoadSettings(rate=2_000, count_max=300, consumers=0, deduplicated=True)
    addresses = [f"127.0.0.1:{it.stomp_port}" for it in brokers.nodes.values()]
    with Load(addresses, settings) as load:
        load.wait_all_confirmed()
    shown_when(medium, request, depth=300)
    assert [] == asked(medium, request, "DELETE FROM holdfast_queues")
    holder = brokers.leader()
    holder.kill()
    successor = brokers.leader(but=holder)
    shown_when(medium, request, depth=300)

    assert (
        300 == successor.wait_until(lambda it: it["serving"], "serving")["store"]["live_messages"]
    )


@pytest.mark.parametrize("medium", ["several", *SERVERS], indirect=True)
def test_a_database_shows_the_messages_of_whoever_serves(
    medium: list[str], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """
    Where it is asked for; the next holder brings what is shown to what is true: what was settled
    meanwhile, and what somebody deleted or added by hand.
    """
    flags = [*medium, *LEASE, "--sql-messages", "full"]
    with SharedBrokers(tmp_path / "brokers", flags) as brokers:
        brokers.start()
        send(brokers, 300)
        messages_when(medium, request, lambda rows: len(rows) == 300)
        receive(brokers, 100)
        rows = messages_when(medium, request, lambda rows: len(rows) == 200)
        sequences = [it[0] for it in rows]
        assert all(f"body {it}".encode() == bytes(body) for it, body in rows)
        for it in brokers.nodes.values():
            it.kill()
        first, last = sequences[0], sequences[-1]
        asked(medium, request, f"DELETE FROM holdfast_messages WHERE sequence = {first}")
        columns = ", ".join(it for it in MessageRow.__dataclass_fields__ if it != "sequence")
        asked(
            medium,
            request,
            f"INSERT INTO holdfast_messages (sequence, {columns})"
            f" SELECT 999999, {columns} FROM holdfast_messages WHERE sequence = {last}",
        )
        brokers.start()
        messages_when(medium, request, lambda rows: [it[0] for it in rows] == sequences)
        receive(brokers, 200)
        messages_when(medium, request, lambda rows: not rows)


def send(brokers: SharedBrokers, count: int) -> None:
    """Send messages whose bodies tell their numbers."""
    texts = "".join(f"body {it}\n" for it in range(1, count + 1))
    run_command(brokers, "send", "/queue/orders", "--lines", given=texts)


def receive(brokers: SharedBrokers, count: int) -> None:
    """Take so many of them."""
    run_command(brokers, "receive", "/queue/orders", "--count", str(count))


def run_command(brokers: SharedBrokers, *words: str, given: str = "") -> None:
    """Run one of holdfast's commands against whoever serves."""
    addresses = ",".join(f"stomp://127.0.0.1:{it.stomp_port}" for it in brokers.nodes.values())
    subprocess.run(
        [sys.executable, "-m", "holdfast", *words, "--uri", f"failover:({addresses})"],
        input=given,
        text=True,
        check=True,
        capture_output=True,
        timeout=60,
    )


def messages_when(
    medium: list[str],
    request: pytest.FixtureRequest,
    is_so: Callable[[list[tuple[Any, ...]]], bool],
) -> list[tuple[Any, ...]]:
    """Wait until the messages of the view are such ones; give their numbers and bodies."""
    until = time.monotonic() + 60
    rows: list[tuple[Any, ...]] = []
    while time.monotonic() < until:
        with suppress(sqlite3.OperationalError):  # it is not there yet
            rows = asked(
                medium, request, "SELECT ID, MSG FROM ACTIVEMQ_MSGS ORDER BY ID", "ACTIVEMQ_MSGS"
            )
        if is_so(rows):
            return rows
        time.sleep(0.1)
    raise AssertionError(f"never shown so: {len(rows)} rows")


def shown_when(medium: list[str], request: pytest.FixtureRequest, depth: int) -> None:
    """Wait until a queue of this depth stands in the table."""
    columns = "depth, enqueued, dequeued, oldest_at"
    until = time.monotonic() + 60
    rows: list[tuple[Any, ...]] = []
    while time.monotonic() < until:
        with suppress(sqlite3.OperationalError):  # it is not there yet
            rows = asked(medium, request, f"SELECT {columns} FROM holdfast_queues")
        for found, enqueued, dequeued, oldest_at in rows:
            if found == depth:
                assert (depth, 0) == (enqueued, dequeued)
                assert 0 <= time.time() - oldest_at / 1000 < 600
                return
        time.sleep(0.1)
    raise AssertionError(f"never shown: {rows}")


def asked(
    medium: list[str],
    request: pytest.FixtureRequest,
    statement: str,
    table: str = "holdfast_queues",
) -> list[tuple[Any, ...]]:
    """What the database itself gives, past the brokers."""
    url = medium[1]
    if url.startswith("sqlite"):
        with closing(sqlite3.connect(url.removeprefix("sqlite:///"), timeout=30)) as connection:
            rows = connection.execute(statement).fetchall()
            connection.commit()
            return rows
    server: DatabaseServer = request.getfixturevalue(
        "mariadb" if url.startswith("mysql") else "postgresql"
    )
    known = server.execute(
        f"SELECT 1 FROM information_schema.tables WHERE LOWER(table_name) = '{table.lower()}'",
        "brokers",
    )
    return server.execute(statement, "brokers") if known else []


def test_a_broker_does_not_take_another_log_for_its_own(
    brokers: SharedBrokers, tmp_path: Path
) -> None:
    """What it remembers is of the log it had: it says so, and changes nothing."""
    standby = brokers.standby()
    assert 0 == standby.stop()
    standby.arguments = ["--shared", str(tmp_path / "other")]
    standby.start()
    assert 1 == standby.wait()
    assert "has no log, and this broker belongs to one" in standby.log_tail()
    assert not (tmp_path / "other").exists()
    fresh = LocalNode("c", tmp_path / "elsewhere", standby.arguments)
    fresh.start()
    fresh.wait_until(lambda status: status["serving"], "serving")
    fresh.stop()
    standby.start()
    assert 1 == standby.wait()
    assert "belongs to a broker of another log" in standby.log_tail()

"""
Brokers as real processes over one log in several databases: what is seen when a database goes.

The databases are files of SQLite. One goes by a foreign transaction that holds its lock: nothing is
written there, and what others ask of it fails.
"""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from holdfast.testing.local_cluster import LocalNode
from holdfast.testing.shared_brokers import SharedBrokers
from tests.stores.test_brokers_over_one_log import assert_kept, load_on
from trials.clients.load import Load, LoadSettings

LEASE = ["--lease-seconds", "6"]
"""Nobody is waited for so long here: who is killed is seen to be gone."""


@pytest.fixture
def urls(tmp_path: Path) -> list[str]:
    return [f"sqlite:///{tmp_path}/{name}.db" for name in "abc"]


@pytest.fixture
def brokers(urls: list[str], tmp_path: Path) -> Iterator[SharedBrokers]:
    """Two brokers over three databases."""
    flags = [flag for url in urls for flag in ("--store", url)]
    with SharedBrokers(tmp_path / "brokers", [*flags, *LEASE], "ab") as made:
        made.start()
        yield made


@contextmanager
def held_up(url: str) -> Iterator[None]:
    """Nobody writes there meanwhile."""
    connection = sqlite3.connect(url.removeprefix("sqlite:///"), timeout=20, isolation_level=None)
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
    finally:
        connection.execute("ROLLBACK")
        connection.close()


def states(status: dict[str, Any]) -> dict[str, str]:
    return {it["directory"]: it["state"] for it in status["store"]["mirrors"]}


def mirror(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "holdfast", "mirror", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_a_database_that_goes_is_left_out_and_comes_back(
    brokers: SharedBrokers, urls: list[str]
) -> None:
    """L54: under load, and the holder is killed while it is away; in the end all are active."""
    with load_on(brokers) as load:
        load.wait_confirmed(500)
        with held_up(urls[1]):
            holder = brokers.leader()
            holder.wait_until(lambda it: states(it)[urls[1]] == "failed", "told of it")
            load.wait_confirmed(500)
            holder.kill()
            other = brokers.leader(but=holder)
            load.wait_confirmed(500)
            other.wait_until(lambda it: states(it)[urls[1]] == "failed", "told of it as well")
        other.wait_until(lambda it: set(states(it).values()) == {"active"}, "all active again")
        load.wait_confirmed(500)
        account = load.finish()
    assert_kept(account)


def test_an_operator_disables_and_enables_a_database(
    brokers: SharedBrokers, urls: list[str]
) -> None:
    """By its address, asked of the holder; a standby refuses and says why."""
    holder, standby = brokers.leader(), brokers.standby()
    holder.wait_until(lambda it: set(states(it).values()) == {"active"}, "all active")
    refused = mirror("disable", urls[0], "--admin", standby.admin)
    assert refused.returncode == 1
    assert "does not hold the lease" in refused.stderr

    disabled = mirror("disable", urls[0], "--admin", holder.admin)
    assert disabled.returncode == 0, disabled.stderr
    holder.wait_until(lambda it: states(it)[urls[0]] == "disabled", "told that it is disabled")
    told = mirror("status", "--admin", holder.admin).stdout
    assert "disabled" in told
    enabled = mirror("enable", urls[0], "--admin", holder.admin)
    assert enabled.returncode == 0, enabled.stderr
    holder.wait_until(lambda it: set(states(it).values()) == {"active"}, "active again")


def test_one_that_is_left_of_three_needs_an_operators_word(
    brokers: SharedBrokers, urls: list[str], tmp_path: Path
) -> None:
    """L57: two are gone for good; once it is said so, the third is served and fills new ones."""
    settings = LoadSettings(rate=2_000, count_max=200, consumers=0)
    addresses = [f"127.0.0.1:{it.stomp_port}" for it in brokers.nodes.values()]
    with Load(addresses, settings) as load:
        load.wait_all_confirmed()
    for node in brokers.nodes.values():
        assert node.stop() == 0
    for name in "ab":
        (tmp_path / f"{name}.db").rename(tmp_path / f"{name}.gone")
    told = mirror("status", "--store", urls[2], "--json")
    assert told.returncode == 1
    assert json.loads(told.stdout)["starts"] is False

    accepted = mirror("accept", "--store", urls[2], "--yes")
    assert accepted.returncode == 0, accepted.stderr
    assert f"accepted: brokers go on with {urls[2]}" in accepted.stdout
    assert "nothing is missing" in mirror("accept", "--store", urls[2], "--yes").stdout
    fresh = LocalNode("fresh", brokers.directory, [*_flags(urls), *LEASE])
    brokers.nodes["fresh"] = fresh
    fresh.start()
    status = fresh.wait_until(lambda status: status["serving"], "serving")
    assert status["store"]["live_messages"] == 200
    fresh.wait_until(
        lambda it: list(states(it).values()).count("active") == 3, "three of them again"
    )


def _flags(urls: list[str]) -> list[str]:
    return [flag for url in urls for flag in ("--store", url)]

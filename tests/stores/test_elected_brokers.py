"""
Three brokers over SQLite that ZooKeeper or etcd elects, as real processes with a real server.

The elector says who takes the lease next, and the store's lease stays the fence: it may go away,
come back, or be out of reach for one broker alone, and nothing confirmed is lost. The load keeps
books, as in the stories of brokers without an elector.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.testing.local_cluster import LocalNode
from holdfast.testing.shared_brokers import SharedBrokers
from tests.stores.test_brokers_over_one_log import assert_kept, load_on
from trials.databases.cutting_proxy import CuttingProxy
from trials.databases.server import DatabaseServer
from trials.leased.pausing import pause

LEASE_SECONDS = 10.0
"""So long that what is quicker was the elector's doing."""

SESSION_SECONDS = 2.0
CONFIG = f"""
[lease]
lease_seconds = {LEASE_SECONDS}
elector_session_seconds = {SESSION_SECONDS}
elector_patience_seconds = 2
"""
pytestmark = [pytest.mark.processes, pytest.mark.slow]


@pytest.fixture
def store(tmp_path: Path) -> list[str]:
    """The flags that say where the log is, and the file with the lease's length."""
    (tmp_path / "brokers.toml").write_text(CONFIG)
    return ["--store", f"sqlite:///{tmp_path}/log.db", "--config", f"{tmp_path}/brokers.toml"]


@pytest.fixture
def brokers(
    elector_server: DatabaseServer, store: list[str], tmp_path: Path
) -> Iterator[SharedBrokers]:
    """Three that serve and wait, each of which has an elector at hand."""
    elector = elector_server.create(tmp_path.name)
    with SharedBrokers(tmp_path / "brokers", [*store, "--elector", elector]) as made:
        made.start()
        # By name: one whose line in the store was not read yet stands there by a number.
        names = set(made.nodes)
        for node in made.nodes.values():
            node.wait_until(lambda it: set(elector_of(it)["line"]) == names, "all in the line")
        yield made


def elector_of(status: dict[str, Any] | None) -> dict[str, Any]:
    """What a broker tells of its elector."""
    assert status is not None, "it answers"
    found: dict[str, Any] = status["lease"]["elector"]
    return found


def trouble_of(node: LocalNode, *, is_there: bool) -> None:
    """Wait until a broker reaches its elector, or does not."""
    what = "does not reach its elector" if is_there else "reaches its elector"
    node.wait_until(lambda status: bool(elector_of(status)["trouble"]) is is_there, what)


def test_the_elected_one_takes_over_from_a_holder_that_is_killed(brokers: SharedBrokers) -> None:
    """Its process is seen gone: the next in the line takes the lease, and nobody waits for it."""
    with load_on(brokers, rate=500) as load:
        load.wait_confirmed(300)
        holder = brokers.leader()
        line = elector_of(brokers.standby().status())["line"]
        began = time.monotonic()
        holder.kill()
        other = brokers.leader(but=holder)
        assert time.monotonic() - began < LEASE_SECONDS
        assert other.name == next(it for it in line if it != holder.name)
        load.wait_confirmed(300)
        account = load.finish()
    assert_kept(account)


def test_l2_a_holder_that_is_paused_is_replaced_when_its_session_has_ended(
    brokers: SharedBrokers, store: list[str]
) -> None:
    """Half a lease of silence and no session: sooner than the lease; what wakes up is no holder."""
    with load_on(brokers, rate=500) as load:
        load.wait_confirmed(300)
        holder = brokers.leader()
        began = time.monotonic()
        pause(holder, store)
        other = brokers.leader(but=holder)
        assert time.monotonic() - began < LEASE_SECONDS
        load.wait_confirmed(300)
        holder.signal(signal.SIGCONT)
        holder.wait_until(
            lambda status: status["role"] == "standby" and status["leader"] == other.name,
            "told of the one that replaced it",
        )
        account = load.finish()
    assert_kept(account)


def test_service_goes_on_while_the_elector_is_away(
    brokers: SharedBrokers, elector_server: DatabaseServer
) -> None:
    """Lost for everyone it costs nothing; the holder dies then, and another one takes over."""
    with load_on(brokers, rate=500) as load:
        load.wait_confirmed(300)
        holder = brokers.leader()
        elector_server.kill()
        for node in brokers.nodes.values():
            trouble_of(node, is_there=True)
        assert "its elector does not answer" in holder.get("/ready")["reason"]
        load.wait_confirmed(500)
        assert holder.status()["role"] == "leader"
        holder.kill()
        brokers.leader(but=holder)
        elector_server.start()
        load.wait_confirmed(300)
        for node in brokers.nodes.values():
            if node.is_running:
                trouble_of(node, is_there=False)
        account = load.finish()
    assert_kept(account)


def test_a_holder_that_alone_does_not_reach_the_elector_goes_on(
    elector_server: DatabaseServer, store: list[str], tmp_path: Path
) -> None:
    """It beats in the store: the others are elected and leave it alone."""
    proxy = CuttingProxy(elector_server.port)
    near = ["--elector", elector_server.create(tmp_path.name)]
    far = ["--elector", elector_server.url(tmp_path.name, proxy.port)]
    with SharedBrokers(tmp_path / "brokers", store) as made:
        names = list(made.nodes)
        for name, node in made.nodes.items():
            node.arguments += far if name == names[0] else near
        try:
            made.nodes[names[0]].start()
            assert made.leader() is made.nodes[names[0]]
            for name in names[1:]:
                made.nodes[name].start()
                made.nodes[name].wait_until(
                    lambda status: names[0] in elector_of(status)["line"], "told of the line"
                )
            with load_on(made) as load:
                load.wait_confirmed(300)
                proxy.close()
                trouble_of(made.nodes[names[0]], is_there=True)
                made.nodes[names[1]].wait_until(
                    lambda status: names[0] not in elector_of(status)["line"], "gone from the line"
                )
                load.wait_confirmed(1_000)
                assert made.leader() is made.nodes[names[0]]
                assert 1 == made.nodes[names[0]].status()["term"]
                account = load.finish()
        finally:
            proxy.close()
    assert_kept(account)


def test_a_holder_that_is_stopped_leaves_the_line(brokers: SharedBrokers) -> None:
    """The next one is elected at once, and takes what was given back."""
    with load_on(brokers, rate=500) as load:
        load.wait_confirmed(300)
        holder = brokers.leader()
        assert 0 == holder.stop()
        began = time.monotonic()
        other = brokers.leader(but=holder)
        assert time.monotonic() - began < LEASE_SECONDS / 2
        other.wait_until(
            lambda status: holder.name not in elector_of(status)["line"], "gone from the line"
        )
        load.wait_confirmed(300)
        account = load.finish()
    assert_kept(account)

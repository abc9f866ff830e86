"""
Three nodes on one log: the leader is killed, paused or stopped, and the service goes on.
"""

from __future__ import annotations

import signal
import time
from typing import Any

import pytest

from holdfast.testing.local_cluster import LocalCluster, LocalNode
from trials.clients.load import Load, LoadSettings
from trials.clients.stomp_socket import StompSocket

pytestmark = [pytest.mark.processes, pytest.mark.slow]

# Less than the shortest silence that makes a patient cluster elect: nobody has waited for that.
GAP_SECONDS_MAX = 8.0
_SHARED_SECONDS = 15.0


def addresses(cluster: LocalCluster) -> list[str]:
    return cluster.stomp_addresses.split(",")


def sealed_digests(node: LocalNode) -> dict[int, str]:
    segments = node.get("/segments")["segments"]
    return {each["base_index"]: each["digest"] for each in segments if each["sealed"]}


def assert_logs_are_alike(nodes: list[LocalNode]) -> None:
    """Sealed segments that several nodes hold are the same bytes; at least one is compared."""
    deadline = time.monotonic() + _SHARED_SECONDS
    while True:
        # Each is asked in its turn, while the oldest ones are being cleaned away on all of them.
        digests = [sealed_digests(node) for node in nodes]
        first, *others = digests
        shared = [first.keys() & other.keys() for other in others]
        if all(shared) or time.monotonic() > deadline:
            break
        time.sleep(0.2)
    assert all(shared), f"the nodes share no sealed segment: {[sorted(it) for it in digests]}"
    for other, bases in zip(others, shared, strict=True):
        assert {base: first[base] for base in bases} == {base: other[base] for base in bases}


@pytest.mark.promise("F1", "F30")
def test_nothing_is_lost_when_the_leader_is_killed(start_cluster):
    """
    SIGKILL of the leader under load: no confirmed message is lost, numbered messages are stored
    once; the killed node returns, catches up, and its sealed segments are the same bytes.
    """
    cluster = start_cluster("three", is_patient=True)
    settings = LoadSettings(deduplicated=True, settle_receipts=True, producers=2, consumers=2)
    with Load(addresses(cluster), settings) as load:
        for _ in range(2):
            load.wait_confirmed(1500)
            killed = cluster.leader()
            killed.kill()
            load.wait_confirmed(1000)
            killed.start()
            # Before it is back the next kill would leave one of three, and nobody to elect it.
            killed.wait_until(lambda status: status["leader"] is not None, "back")
        load.wait_confirmed(500)
        account = load.finish()
    cluster.wait_level()

    assert (account.lost, account.corrupt, account.foreign, account.unflagged) == (0, 0, 0, 0)
    assert (account.stored_twice, account.resurrected, account.reordered) == (0, 0, 0)
    assert account.errors == ()
    assert account.gap_seconds < GAP_SECONDS_MAX
    assert_logs_are_alike(list(cluster.nodes.values()))


@pytest.mark.promise("F3")
def test_all_three_killed_at_once_keep_what_was_confirmed(start_cluster):
    """
    SIGKILL of every node in the same moment: after the restart nothing confirmed is missing.
    """
    cluster = start_cluster("three")
    with Load(addresses(cluster), LoadSettings()) as load:
        load.wait_confirmed(3000)
        for node in cluster.nodes.values():
            node.signal(signal.SIGKILL)
        for node in cluster.nodes.values():
            node.wait()
            node.start()
        load.wait_confirmed(500)
        account = load.finish()

    assert (account.lost, account.corrupt, account.unflagged) == (0, 0, 0)


@pytest.mark.promise("F2")
def test_a_killed_follower_is_not_noticed(start_cluster):
    """
    SIGKILL of a follower neither loses anything nor stops the confirms, and it catches up later.
    """
    cluster = start_cluster("three", is_patient=True)
    leader = cluster.leader()
    follower = next(node for node in cluster.nodes.values() if node is not leader)
    with Load(addresses(cluster), LoadSettings()) as load:
        load.wait_confirmed(1000)
        follower.kill()
        load.wait_confirmed(1000)
        follower.start()
        load.wait_confirmed(1000)
        account = load.finish()
    cluster.wait_level()

    assert (account.lost, account.duplicates, load.reconnections) == (0, 0, 0)
    assert leader is cluster.leader()
    assert_logs_are_alike([leader, follower])


@pytest.mark.promise("F7", "F34")
def test_a_paused_leader_serves_nobody_when_it_wakes(start_cluster):
    """
    SIGSTOP of the leader is a silence: another takes over, and the old one, woken by SIGCONT, finds
    itself deposed: it gives its clients nothing more and follows.
    """
    cluster = start_cluster("three")
    old = cluster.leader()
    with (
        Load(addresses(cluster), LoadSettings(deduplicated=True)) as load,
        StompSocket(old.stomp_port) as client,
    ):
        client.connect()
        client.subscribe("/queue/paused")
        load.wait_confirmed(500)
        old.signal(signal.SIGSTOP)
        client.send(
            "SEND", {"destination": "/queue/paused", "persistent": "true", "receipt": "late"}
        )
        load.wait_confirmed(500)
        time.sleep(1.0)
        old.signal(signal.SIGCONT)
        told = list(client.read_all(quiet_seconds=15.0))
        follower = old.wait_until(lambda s: s["role"] == "follower", "a follower again")
        load.wait_confirmed(500)
        account = load.finish()
    cluster.wait_level()

    assert told == []
    assert client.is_closed
    assert old.name != follower["leader"]
    assert (account.lost, account.unflagged, account.stored_twice) == (0, 0, 0)
    assert_logs_are_alike(list(cluster.nodes.values()))


def test_only_the_leader_opens_its_client_port(start_cluster):
    """
    A follower refuses clients at once, so that any failover client finds the leader by trying.
    """
    cluster = start_cluster("three")
    leader = cluster.leader()

    for node in cluster.nodes.values():
        if node is leader:
            StompSocket(node.stomp_port).close()
            continue
        with pytest.raises(ConnectionRefusedError):
            StompSocket(node.stomp_port)


def test_a_leader_told_to_stop_hands_over(start_cluster):
    """
    SIGTERM of the leader: it finishes what is under way and hands over; the gap is far below an
    election by silence, and nothing is lost or stored twice.
    """
    cluster = start_cluster("three", is_patient=True)
    with Load(addresses(cluster), LoadSettings(deduplicated=True)) as load:
        load.wait_confirmed(1000)
        old = cluster.leader()
        code = old.stop()
        load.wait_confirmed(1000)
        account = load.finish()

    assert code == 0
    assert (account.lost, account.unflagged, account.stored_twice) == (0, 0, 0)
    assert account.gap_seconds < GAP_SECONDS_MAX


def test_leadership_is_transferred_on_request(start_cluster):
    """
    `cluster transfer --to` makes the named member the leader without loss.
    """
    cluster = start_cluster("three", is_patient=True)
    old = cluster.leader()
    heir = next(node for node in cluster.nodes.values() if node is not old)
    with Load(addresses(cluster), LoadSettings(deduplicated=True)) as load:
        load.wait_confirmed(500)
        answer = change(heir, "/cluster/transfer", {"to": heir.name})
        load.wait_confirmed(500)
        account = load.finish()

    assert heir.name == answer["leader"]
    assert heir is cluster.leader()
    assert (account.lost, account.unflagged, account.stored_twice) == (0, 0, 0)


def change(node: LocalNode, path: str, body: dict[str, Any]) -> dict[str, Any]:
    """Ask the admin port of a node for a change, as a program would."""
    from holdfast.admin.remote import RemoteNode

    return RemoteNode(node.admin).change("POST", path, body)

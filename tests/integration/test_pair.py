"""
Two data nodes, with and without a witness: what one death stops, and what it does not.
"""

from __future__ import annotations

import shutil
import time
from typing import Any

import pytest

from holdfast.testing.local_cluster import LocalNode, LocalNodeError
from trials.clients.load import Load, LoadSettings
from trials.clients.stomp_socket import StompSocket

pytestmark = [pytest.mark.processes, pytest.mark.slow]


@pytest.mark.promise("F35")
def test_any_one_of_a_pair_and_its_witness_may_die(start_cluster):
    """
    Two nodes and a witness: each of the three is killed in turn under load; the confirms go on,
    the killed one returns and catches up, and nothing is lost or stored twice.
    """
    cluster = start_cluster("witness", is_patient=True)
    with Load(cluster.stomp_addresses.split(","), LoadSettings(deduplicated=True)) as load:
        for name in ("a", "b", "c"):
            load.wait_confirmed(500)
            killed = cluster.nodes[name]
            killed.kill()
            load.wait_confirmed(1000)
            killed.start()
            load.wait_confirmed(200)
            cluster.wait_level()
        account = load.finish()

    assert (account.lost, account.unflagged, account.stored_twice) == (0, 0, 0)
    assert (account.corrupt, account.reordered, account.errors) == (0, 0, ())


def test_the_witness_serves_nobody(start_cluster):
    """
    A witness opens no client port, leads to hand over at most, and says what it is.
    """
    cluster = start_cluster("witness")
    witness = cluster.nodes["c"]
    status = witness.status()

    assert status is not None
    assert status["role"] == "witness"
    with pytest.raises(ConnectionRefusedError):
        StompSocket(witness.stomp_port)


def test_a_pair_stops_when_one_is_gone_until_the_operator_decides(start_cluster):
    """
    Two nodes without a witness: the death of one stops publishing; `cluster promote --force` makes
    the survivor go on with all that was confirmed. The old node's return is fenced; with an empty
    directory it is taken in again under a new identity.
    """
    cluster = start_cluster("pair", is_patient=True)
    with Load(cluster.stomp_addresses.split(","), LoadSettings(deduplicated=True)) as load:
        load.wait_confirmed(1000)
        dead = cluster.leader()
        survivor = next(node for node in cluster.nodes.values() if node is not dead)
        dead.kill()
        before = load.ledger.confirmed_count
        time.sleep(2.0)
        after = load.ledger.confirmed_count
        with pytest.raises(LocalNodeError):
            cluster.leader(seconds=0.2)
        promote(survivor)
        load.wait_confirmed(500)
        dead.start()
        fenced = wait_fenced(dead)
        with pytest.raises(ConnectionRefusedError):
            StompSocket(dead.stomp_port)
        shutil.rmtree(dead.data)
        dead.start()
        survivor.wait_until(lambda status: kind_of(status, dead.name) == "voter", "in a pair again")
        load.wait_confirmed(500)
        account = load.finish()
    cluster.wait_level()

    assert after - before <= LoadSettings().window
    assert survivor is cluster.leader()
    assert fenced
    assert (account.lost, account.unflagged, account.stored_twice) == (0, 0, 0)


def test_each_of_a_pair_goes_on_alone_and_no_id_is_given_twice(start_cluster):
    """
    One goes on by force, confirms, and dies; then the other one, which never heard of it. What the
    two have confirmed apart has different message-ids: a late acknowledgement of the one must not
    settle the other.
    """
    cluster = start_cluster("pair", is_patient=True)
    first = cluster.leader()
    second = next(node for node in cluster.nodes.values() if node is not first)
    publish(first, b"before")
    cluster.wait_level()
    ids = {}
    second.kill()
    for node, other in ((first, second), (second, first)):
        node.wait_until(lambda status: status["leader"] is None, "without a leader")
        promote(node)
        node.wait_until(lambda status: status["serving"], "serving")
        publish(node, f"confirmed by {node.name}".encode())
        ids[node.name] = message_ids(node, 2)
        node.kill()
        if other is second:
            other.start()
    assert 1 == len(set(ids[first.name]) & set(ids[second.name])), "that of before"


def test_who_was_shut_out_is_so_when_the_others_are_down(start_cluster):
    """
    Two of three come back after the third went on without them: they are told, and end. Started
    again while that one is down they are a majority of the cluster that was, and elect nobody.
    """
    cluster = start_cluster("three")
    survivor, *lost = sorted(cluster.nodes.values(), key=lambda node: node.name)
    publish(cluster.leader(), b"before")
    cluster.wait_level()
    for node in lost:
        node.kill()
    survivor.wait_until(lambda status: status["leader"] is None, "without a leader")
    promote(survivor)
    survivor.wait_until(lambda status: status["serving"], "serving")
    for node in lost:
        node.start()
    assert all(wait_fenced(node) for node in lost)
    survivor.kill()
    for node in lost:
        node.start()
    for node in lost:
        node.wait_until(lambda status: connected(status) == 2, "with a link to the other one")
    with pytest.raises(LocalNodeError):
        cluster.leader(seconds=5.0, but=survivor)
    for node in lost:
        with pytest.raises(ConnectionRefusedError):
            StompSocket(node.stomp_port)


def connected(status: dict[str, Any]) -> int:
    """How many members a node reaches, itself included."""
    return sum(each["connected"] for each in status["members"])


def publish(node: LocalNode, body: bytes) -> None:
    """Let one message be stored."""
    with StompSocket(node.stomp_port) as client:
        client.connect()
        assert client.publish("/queue/a", body).command == "RECEIPT"


def message_ids(node: LocalNode, count: int) -> list[str]:
    """The ids of the first messages on the queue; they stay there."""
    with StompSocket(node.stomp_port, timeout_seconds=20.0) as client:
        client.connect()
        client.subscribe("/queue/a")
        return [client.read().headers["message-id"] for _ in range(count)]


def test_the_leader_of_a_pair_stops_serving_without_its_follower(start_cluster):
    """
    The leader that cannot make a second copy confirms nothing: its clients are told why and cut
    off, its client port is closed, and it serves again by itself when the follower returns.
    """
    # The lease must not end before the client has sent.
    timings = ("--election-seconds-min", "3", "--election-seconds-max", "6")
    cluster = start_cluster("pair", *timings)
    leader = cluster.leader()
    follower = next(node for node in cluster.nodes.values() if node is not leader)
    with StompSocket(leader.stomp_port) as client:
        # Before: when its lease is over, which may be soon, there is no client port to dial.
        client.connect()
        follower.kill()
        client.send("SEND", {"destination": "/queue/a", "persistent": "true", "receipt": "one"})
        told = list(client.read_all(quiet_seconds=15.0))
    leader.wait_until(lambda status: not status["serving"], "not serving any more")
    with pytest.raises(ConnectionRefusedError):
        StompSocket(leader.stomp_port)
    follower.start()
    back = cluster.leader()
    with StompSocket(back.stomp_port) as again:
        again.connect()
        answer = again.publish("/queue/a", b"two")

    assert [(frame.command, frame.headers["code"]) for frame in told] == [("ERROR", "quorum-lost")]
    assert client.is_closed
    assert answer.command == "RECEIPT"


def promote(node: LocalNode) -> None:
    """Do what an operator does: `holdfast cluster promote NAME --force --yes`."""
    from typer.testing import CliRunner

    from holdfast.cli.main import app

    command = ["cluster", "promote", node.name, "--force", "--yes", "--admin", node.admin]
    result = CliRunner().invoke(app, command)

    assert result.exit_code == 0, result.output


def wait_fenced(node: LocalNode) -> bool:
    """The node ended by itself and said why."""
    deadline = time.monotonic() + 20
    while node.is_running and time.monotonic() < deadline:
        time.sleep(0.05)
    text = node.log_path.read_text(errors="replace")
    return not node.is_running and node.wait() != 0 and "this node is shut out" in text


def kind_of(status: dict[str, Any], name: str) -> str:
    """What kind of member a name is, as that status has it."""
    return next(each["kind"] for each in status["members"] if each["name"] == name)

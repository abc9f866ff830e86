"""
`holdfast messages` on clusters of real processes: what is moved is on one queue, whoever dies.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter

import pytest

from holdfast.model.format_level import MOVES_LEVEL
from holdfast.testing.local_cluster import LocalCluster, LocalNode
from trials.clients.stomp_socket import StompSocket

pytestmark = [pytest.mark.processes, pytest.mark.slow]

COUNT = 4_000
DEAD = "ActiveMQ.DLQ"


def command(cluster: LocalCluster, node: LocalNode, *arguments: str) -> list[str]:
    options = ["--admin", node.admin, "--secret-file", str(cluster.secret_path)]
    return [sys.executable, "-m", "holdfast", "messages", *arguments, *options]


def holdfast(cluster: LocalCluster, node: LocalNode, *arguments: str) -> None:
    """Run a command of `holdfast messages`."""
    ended = subprocess.run(
        command(cluster, node, *arguments, "--json"), capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    assert json.loads(ended.stdout)["unreadable"] == 0


def bodies(cluster: LocalCluster, node: LocalNode, queue: str) -> Counter[str]:
    """What stands on a queue, by its bodies."""
    ended = subprocess.run(
        command(cluster, node, "browse", queue, "--json"),
        capture_output=True,
        text=True,
        check=True,
    )
    return Counter(json.loads(line)["body_base64"] for line in ended.stdout.splitlines())


def dead_letters(node: LocalNode, count: int) -> None:
    """Send so many, and reject all of them."""
    with StompSocket(node.stomp_port, timeout_seconds=60.0) as client:
        client.connect()
        frames = b"".join(
            b"SEND\ndestination:/queue/orders\npersistent:true\nreceipt:s%d\n\nbody %d\0" % (it, it)
            for it in range(count)
        )
        client.write(frames)
        for number in range(count):
            client.await_receipt(f"s{number}")
        client.subscribe("/queue/orders", headers={"activemq.prefetchSize": "1000"})
        for number in range(count):
            headers = {"id": client.read_message().headers["ack"]}
            if number + 1 == count:
                headers["receipt"] = "last"
            client.send("NACK", headers)
        client.await_receipt("last")


def test_a_retry_outlives_its_leader_and_itself(start_cluster) -> None:
    """
    kill -9 of the leader while dead letters go back: the command waits for the next one, and ends.
    Killed itself and run again it finds what is left. Every message is there, and once.
    """
    cluster = start_cluster("three")
    leader = cluster.leader()
    leader.wait_until(lambda status: status["format_level"] >= MOVES_LEVEL, "at the level of moves")
    dead_letters(leader, COUNT)
    follower = next(node for node in cluster.nodes.values() if node is not leader)
    wanted = bodies(cluster, leader, DEAD)
    assert (len(wanted), wanted.total()) == (COUNT, COUNT)

    first = subprocess.Popen(command(cluster, follower, "retry", DEAD, "--quiet"))
    try:
        leader.wait_until(lambda _: depth(leader, "orders") > 0, "some are back")
    finally:
        first.kill()
        first.wait()
    retrying = subprocess.Popen(
        command(cluster, follower, "retry", DEAD, "--json"), stdout=subprocess.PIPE, text=True
    )
    try:
        before = depth(leader, "orders")
        leader.wait_until(
            lambda _: depth(leader, "orders") > before or before == COUNT, "it goes on"
        )
        leader.kill()
        told, _ = retrying.communicate(timeout=120)
    finally:
        retrying.kill()
        retrying.wait()
    assert retrying.returncode == 0, told

    present = cluster.leader(but=leader)
    there, left = bodies(cluster, present, "orders"), bodies(cluster, present, DEAD)
    assert not left
    assert there == wanted


def depth(node: LocalNode, queue: str) -> int:
    found = {it["name"]: it["messages"] for it in node.get("/queues")["queues"]}
    return int(found.get(queue, 0))


def test_all_nodes_apply_the_same_moves(start_cluster) -> None:
    """
    There and back, copied and removed: whoever leads next shows the same, with the way it came.
    """
    cluster = start_cluster("three")
    leader = cluster.leader()
    leader.wait_until(lambda status: status["format_level"] >= MOVES_LEVEL, "at the level of moves")
    with StompSocket(leader.stomp_port) as client:
        client.connect()
        for number in range(40):
            said = {"n": str(number)}
            answer = client.publish("/queue/a", b"body %d" % number, headers=said)
            assert answer.command == "RECEIPT"
    # No counts: where an answer is late, the step is asked for again, and finds it done.
    holdfast(cluster, leader, "move", "a", "b", "--selector", "n < 30")
    holdfast(cluster, leader, "move", "b", "c", "--selector", "n < 10")
    holdfast(cluster, leader, "copy", "c", "d", "--filter", "n <> 3")
    holdfast(cluster, leader, "remove", "b", "--selector", "n < 25", "--yes")
    before = {queue: bodies(cluster, leader, queue) for queue in "abcd"}
    assert [it.total() for it in before.values()] == [10, 5, 10, 9]
    leader.kill()
    after = cluster.leader(but=leader)
    assert {queue: bodies(cluster, after, queue) for queue in "abcd"} == before
    with StompSocket(after.stomp_port) as client:
        client.connect()
        client.subscribe("/queue/d")
        copied = client.read_message()
        assert copied.body == b"body 0"
        assert copied.headers["original-destination"] == "/queue/c"
        assert client.acknowledge(copied).command == "RECEIPT"
    assert depth(after, "d") == 8

"""
Messages with priorities, with real processes: the leader dies while a backlog is drained.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from holdfast.model.format_level import PRIORITY_LEVEL
from holdfast.testing.local_cluster import LocalCluster
from trials.clients.stomp_socket import StompSocket

pytestmark = [pytest.mark.processes, pytest.mark.slow]

QUEUE = "/queue/orders"
LOW, HIGH, MORE = 9_000, 900, 300


def connected(cluster: LocalCluster) -> StompSocket:
    client = StompSocket(cluster.leader().stomp_port, timeout_seconds=60.0)
    client.connect()
    return client


def send_all(cluster: LocalCluster, name: str, count: int, priority: int) -> None:
    with connected(cluster) as sender:
        headers = {"destination": QUEUE, "persistent": "true", "priority": str(priority)}
        for number in range(count):
            sender.send("SEND", headers, b"%s %d" % (name.encode(), number))
        last = sender.publish(QUEUE, name.encode(), {"priority": str(priority)})
        assert last.command == "RECEIPT"


def read(client: StompSocket, count: int, *, acknowledges: bool = True) -> list[tuple[bytes, bool]]:
    """Take so many, and give each body and whether it may have been delivered before."""
    found = []
    for _ in range(count):
        message = client.read_message()
        found.append((message.body, message.headers.get("redelivered") == "true"))
        if acknowledges:
            client.send("ACK", {"id": message.headers["ack"]})
    return found


def subscribed(cluster: LocalCluster) -> StompSocket:
    client = connected(cluster)
    window = {"activemq.prefetchSize": "1", "ack": "client-individual"}
    client.send("SUBSCRIBE", {"destination": QUEUE, "id": "1", **window})
    return client


def test_the_next_leader_goes_on_by_priority(start_cluster: Any) -> None:
    """
    Nothing is lost or comes without a flag a second time; the highest goes first under each leader,
    and what nobody saw of a long backlog is not flagged for the few that went before it.
    """
    cluster = start_cluster("three", is_patient=True)
    for node in cluster.nodes.values():
        node.wait_until(lambda status: status["format_level"] >= PRIORITY_LEVEL, "at the level")
    command = [sys.executable, "-m", "holdfast", "queues", "set", "queue://orders"]
    proof = ["--admin", cluster.leader().admin, "--secret-file", str(cluster.secret_path)]
    subprocess.run([*command, "prioritizedMessages=true", *proof], check=True)
    send_all(cluster, "low", LOW, 1)
    send_all(cluster, "high", HIGH, 9)
    with subscribed(cluster) as client:
        before = read(client, HIGH // 2)
        assert [body for body, _ in before] == [b"high %d" % it for it in range(HIGH // 2)]
        killed = cluster.leader()
        killed.kill()
    cluster.leader()
    killed.start()
    send_all(cluster, "more", MORE, 5)
    with subscribed(cluster) as client:
        after: list[tuple[bytes, bool]] = []
        awaited = LOW + HIGH + MORE + 3 - len(before)
        while missing := awaited - len({body for body, _ in after} - {it for it, _ in before}):
            after += read(client, missing)
    unflagged = [body for body, flagged in after if not flagged]
    seen = {body for body, _ in before}
    assert not seen & set(unflagged)
    high = [b"high %d" % it for it in range(HIGH)] + [b"high"]
    more = [b"more %d" % it for it in range(MORE)] + [b"more"]
    low = [b"low %d" % it for it in range(LOW)] + [b"low"]
    again = [body for body, _ in after if body in seen]
    rest = [body for body, _ in after if body not in seen]
    assert len(again) < len(before)  # Acknowledgements may have been on their way.
    assert rest == [*high[HIGH // 2 :], *more, *low]
    assert sum(body.startswith(b"low") for body in unflagged) > LOW // 3

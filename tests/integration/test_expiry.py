"""
Messages whose time is over, with real processes: also as the leader dies in the middle of it.
"""

from __future__ import annotations

import time
from typing import Any

import pytest

from holdfast.model.format_level import EXPIRY_LEVEL
from holdfast.testing.local_cluster import LocalCluster
from trials.clients.stomp_socket import connected

pytestmark = [pytest.mark.processes, pytest.mark.slow]

QUEUE = "/queue/orders"
DEAD = "/queue/ActiveMQ.DLQ"
MORTAL = 12_000
IMMORTAL = 3_000
LIFETIME_MS = 4_000


def wait_newest(cluster: LocalCluster) -> None:
    for node in cluster.nodes.values():
        node.wait_until(
            lambda status: status["format_level"] >= EXPIRY_LEVEL, "at the level of expiry"
        )


def send_all(cluster: LocalCluster) -> int:
    """Send those that expire among those that do not; gives when they do, in milliseconds."""
    with connected(cluster) as sender:
        expires_ms = int(time.time() * 1000) + LIFETIME_MS
        for number in range(MORTAL + IMMORTAL):
            headers = {"destination": QUEUE, "persistent": "true"}
            is_mortal = number % 5 != 0
            if is_mortal:
                headers["expires"] = str(expires_ms)
            sender.send("SEND", headers, b"%d" % number)
        assert sender.publish(QUEUE, b"last").command == "RECEIPT"
    return expires_ms


def read_all(cluster: LocalCluster, place: str, count: int) -> list[bytes]:
    """Take so many messages of a queue and acknowledge them; there must be no more."""
    with connected(cluster) as client:
        client.send("SUBSCRIBE", {"destination": place, "id": "1", "ack": "client-individual"})
        bodies = []
        for _ in range(count):
            message = client.read_message()
            assert message.headers["expires"] == "0"
            bodies.append(message.body)
            client.send("ACK", {"id": message.headers["ack"]})
        assert client.publish(place, b"no more").command == "RECEIPT"
        end = client.read_message()
        assert end.body == b"no more"
        assert client.acknowledge(end).command == "RECEIPT"
    return bodies


def test_the_leader_dies_while_thousands_expire(start_cluster: Any) -> None:
    """
    Each is on the dead-letter queue once or, if it lives for ever, on its own: nothing is lost,
    nothing doubled, nothing expired is delivered to who comes late.
    """
    cluster = start_cluster("three", is_patient=True)
    wait_newest(cluster)
    expires_ms = send_all(cluster)
    with connected(cluster) as watcher:
        watcher.send("SUBSCRIBE", {"destination": DEAD, "id": "1", "ack": "client-individual"})
        first = watcher.read_message()
        assert first.headers["originalExpiration"] == str(expires_ms)
        killed = cluster.leader()
        killed.kill()
    cluster.leader()
    killed.start()
    killed.wait_until(lambda status: status["leader"] is not None, "back")
    living = read_all(cluster, QUEUE, IMMORTAL + 1)
    dead = read_all(cluster, DEAD, MORTAL)
    numbers = range(MORTAL + IMMORTAL)
    assert living == [*(b"%d" % it for it in numbers if not it % 5), b"last"]
    assert sorted(dead) == sorted(b"%d" % it for it in numbers if it % 5)


def test_what_expires_is_told_by_the_log_after_a_restart_of_all(start_cluster: Any) -> None:
    """
    Stored before, expired while no node ran: nobody gets it, and it is a dead letter.
    """
    cluster = start_cluster("three", is_patient=True)
    wait_newest(cluster)
    with connected(cluster) as sender:
        expires_ms = int(time.time() * 1000) + 1_000
        headers = {"expires": str(expires_ms)}
        assert sender.publish(QUEUE, b"short", headers).command == "RECEIPT"
        assert sender.publish(QUEUE, b"long").command == "RECEIPT"
        for node in cluster.nodes.values():
            node.kill()
    while time.time() * 1000 < expires_ms:
        time.sleep(0.05)
    for node in cluster.nodes.values():
        node.start()
    assert read_all(cluster, QUEUE, 1) == [b"long"]
    assert read_all(cluster, DEAD, 1) == [b"short"]

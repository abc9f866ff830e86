"""
Scheduled messages with real processes: leaders are killed while hundreds are due.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import Any

import pytest

from holdfast.model.format_level import SCHEDULES_LEVEL
from holdfast.testing.local_cluster import LocalCluster
from trials.clients.stomp_socket import connected

pytestmark = [pytest.mark.processes, pytest.mark.slow]

ONCE = 600
REPEATED = 100
REPEATS = 9
DELAY_MS = 1_500
PERIOD_MS = 400
KILLS = 2


def schedule_all(cluster: LocalCluster) -> float:
    """Schedule some once and some often, spread over two periods; gives when the first is due."""
    with connected(cluster) as sender:
        began = time.time()
        for number in range(ONCE):
            headers = {
                "AMQ_SCHEDULED_DELAY": str(DELAY_MS + 2 * number),
                "persistent": "true",
            }
            sender.send("SEND", {"destination": "/queue/once", **headers}, b"%d" % number)
        for number in range(REPEATED):
            headers = {
                "AMQ_SCHEDULED_DELAY": str(DELAY_MS + 8 * number),
                "AMQ_SCHEDULED_PERIOD": str(PERIOD_MS),
                "AMQ_SCHEDULED_REPEAT": str(REPEATS),
                "persistent": "true",
            }
            sender.send("SEND", {"destination": "/queue/often", **headers}, b"%d" % number)
        assert sender.publish("/queue/often", b"all are scheduled").command == "RECEIPT"
    return began + DELAY_MS / 1000


def read_all(cluster: LocalCluster, place: str, count: int) -> Counter[bytes]:
    """Take and acknowledge so many messages; there must be no more."""
    with connected(cluster) as client:
        client.send("SUBSCRIBE", {"destination": place, "id": "1", "ack": "client-individual"})
        bodies: Counter[bytes] = Counter()
        for _ in range(count):
            message = client.read_message()
            bodies[message.body] += 1
            client.send("ACK", {"id": message.headers["ack"]})
        assert client.publish(place, b"no more").command == "RECEIPT"
        end = client.read_message()
        assert end.body == b"no more"
        assert client.acknowledge(end).command == "RECEIPT"
    return bodies


def test_leaders_die_while_messages_are_due(start_cluster: Any) -> None:
    """
    Q39: each time of each message is sent once, whoever led then: none is lost, none is doubled.
    """
    cluster = start_cluster("three", is_patient=True)
    for node in cluster.nodes.values():
        node.wait_until(lambda status: status["format_level"] >= SCHEDULES_LEVEL, "at the level")
    first_due = schedule_all(cluster)
    while time.time() < first_due + 0.3:
        time.sleep(0.02)
    for _ in range(KILLS):
        killed = cluster.leader()
        killed.kill()
        cluster.leader()
        killed.start()
        killed.wait_until(lambda status: status["leader"] is not None, "back")
    once = read_all(cluster, "/queue/once", ONCE)
    assert once == {b"%d" % number: 1 for number in range(ONCE)}
    often = read_all(cluster, "/queue/often", REPEATED * (REPEATS + 1) + 1)
    assert often.pop(b"all are scheduled") == 1
    assert often == {b"%d" % number: REPEATS + 1 for number in range(REPEATED)}

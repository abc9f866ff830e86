"""
Durable subscriptions with real processes: the leader dies while one of them catches up.
"""

from __future__ import annotations

from typing import Any

import pytest

from holdfast.model.format_level import DURABLE_LEVEL
from holdfast.testing.local_cluster import LocalCluster
from trials.clients.stomp_socket import StompSocket

pytestmark = [pytest.mark.processes, pytest.mark.slow]

TOPIC = "/topic/prices"
COUNT = 12_000
PER_ACKNOWLEDGEMENT = 100


def connected(cluster: LocalCluster, client_id: str = "") -> StompSocket:
    client = StompSocket(cluster.leader().stomp_port, timeout_seconds=60.0)
    client.connect(**({"client_id": client_id} if client_id else {}))
    return client


def subscribed(cluster: LocalCluster, client_id: str, **headers: str) -> StompSocket:
    client = connected(cluster, client_id)
    named = {"id": "d", "ack": "client", "activemq.subscriptionName": "mine"}
    client.send("SUBSCRIBE", {"destination": TOPIC, **named, **headers})
    return client


def send_all(cluster: LocalCluster) -> None:
    with connected(cluster) as sender:
        headers = {"destination": TOPIC, "persistent": "true"}
        for number in range(1, COUNT):
            sender.send("SEND", headers, b"%d" % number)
        assert sender.publish(TOPIC, b"%d" % COUNT).command == "RECEIPT"


def caught_up(client: StompSocket, count: int) -> list[tuple[int, bool]]:
    """Take so many, each with whether it may have been seen; know of every hundred that it is
    acknowledged."""
    found: list[tuple[int, bool]] = []
    while len(found) < count:
        message = client.read_message()
        found.append((int(message.body), message.headers.get("redelivered") == "true"))
        if not len(found) % PER_ACKNOWLEDGEMENT or len(found) == count:
            assert client.acknowledge(message).command == "RECEIPT"
    return found


def test_a_leader_killed_in_the_middle_of_a_catch_up_loses_and_doubles_nothing(
    start_cluster: Any,
) -> None:
    """
    By counts: what was acknowledged does not come again, all else does, in order and once; one that
    was away all the time gets everything; and nothing is left on the topic then.
    """
    cluster = start_cluster("three", is_patient=True)
    for node in cluster.nodes.values():
        node.wait_until(lambda status: status["format_level"] >= DURABLE_LEVEL, "at the level")
    for client_id in ("ann", "ben"):
        with connected(cluster, client_id) as client:
            named = {"id": "d", "activemq.subscriptionName": "mine"}
            assert client.ask("SUBSCRIBE", {"destination": TOPIC, **named}).command == "RECEIPT"
            client.ask("DISCONNECT", {})
    send_all(cluster)

    with subscribed(cluster, "ann") as client:
        before = caught_up(client, COUNT // 4)
        seen = [int(client.read_message().body) for _ in range(50)]
        killed = cluster.leader()
        killed.kill()
    cluster.leader()
    killed.start()
    assert [number for number, _ in before] == list(range(1, COUNT // 4 + 1))
    with subscribed(cluster, "ann") as client:
        after = caught_up(client, COUNT - len(before))
    assert [number for number, _ in after] == list(range(COUNT // 4 + 1, COUNT + 1))
    unflagged = {number for number, flagged in after if not flagged}
    assert not unflagged & set(seen)

    with subscribed(cluster, "ben") as client:
        assert [number for number, _ in caught_up(client, COUNT)] == list(range(1, COUNT + 1))
        killed.wait_until(lambda status: status["store"]["live_messages"] == 0, "nothing left")

"""
Dead letters of each durable subscription on a queue of its own, with real processes, over the death
of the leader.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from holdfast.model.format_level import DURABLE_LEVEL
from holdfast.testing.local_cluster import LocalCluster
from trials.clients.stomp_socket import ReceivedFrame, StompSocket, connected

pytestmark = [pytest.mark.processes, pytest.mark.slow]

TOPIC = "/topic/prices"
NAMED = {"activemq.subscriptionName": "mine"}
COUNT = 20


def set_policy(cluster: LocalCluster) -> None:
    values = ["deadLetterStrategy=individual", "destinationPerDurableSubscriber=true"]
    command = [sys.executable, "-m", "holdfast", "queues", "set", "topic://prices", *values]
    options = ["--admin", cluster.leader().admin, "--secret-file", str(cluster.secret_path)]
    subprocess.run([*command, *options], check=True, capture_output=True)


def subscribed(cluster: LocalCluster, client_id: str) -> StompSocket:
    client = StompSocket(cluster.leader().stomp_port, timeout_seconds=60.0)
    client.connect(**{"client-id": client_id})
    client.subscribe(TOPIC, headers=NAMED)
    return client


def reject(client: StompSocket, count: int) -> None:
    for _ in range(count):
        message = client.read_message()
        assert client.ask("NACK", {"id": message.headers["ack"]}).command == "RECEIPT"


def read(cluster: LocalCluster, queue: str) -> list[ReceivedFrame]:
    with connected(cluster) as client:
        client.subscribe(f"/queue/{queue}")
        return client.read_queue(f"/queue/{queue}")


def test_the_next_leader_puts_them_on_the_same_queues(start_cluster: Any) -> None:
    """
    What two reject before and after a kill -9 is on the queue of each, once and in order, and
    nowhere else.
    """
    cluster = start_cluster("three", is_patient=True)
    for node in cluster.nodes.values():
        node.wait_until(lambda status: status["format_level"] >= DURABLE_LEVEL, "at the level")
    set_policy(cluster)
    clients = [subscribed(cluster, client_id) for client_id in ("ann", "bob")]
    with connected(cluster) as sender:
        for number in range(COUNT):
            assert sender.publish(TOPIC, b"%d" % number).command == "RECEIPT"
    reject(clients[0], COUNT // 2)
    reject(clients[1], COUNT // 4)
    cluster.leader().kill()
    for client in clients:
        client.close()
    clients = [subscribed(cluster, client_id) for client_id in ("ann", "bob")]
    reject(clients[0], COUNT - COUNT // 2)
    reject(clients[1], COUNT - COUNT // 4)
    for client in clients:
        client.close()
    for client_id in ("ann", "bob"):
        dead = read(cluster, f"ActiveMQ.DLQ.Topic.prices.{client_id}:mine")
        assert [int(each.body) for each in dead] == list(range(COUNT))
        assert {each.headers["original-destination"] for each in dead} == {TOPIC}
    assert read(cluster, "ActiveMQ.DLQ.Topic.prices") == []

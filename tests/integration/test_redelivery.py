"""
What comes again, over the death of leaders: counted and delayed by the log, whoever leads.
"""

from __future__ import annotations

import subprocess
import sys
import time
from typing import Any

import pytest

from holdfast.testing.local_cluster import LocalCluster
from trials.clients.stomp_socket import ReceivedFrame, StompSocket

pytestmark = [pytest.mark.processes, pytest.mark.slow]

QUEUE = "/queue/orders"
RESTING = "/queue/resting"
REST_SECONDS = 5
DEAD = "/queue/ActiveMQ.DLQ"
ALONE = {"activemq.prefetchSize": "1"}
REDELIVERY = {
    "activemq.maximumRedeliveries": "3",
    "activemq.initialRedeliveryDelay": "0",
    "activemq.redeliveryDelay": "0",
}


def connected(cluster: LocalCluster) -> StompSocket:
    """A connection to the leader, which waits patiently for answers."""
    client = StompSocket(cluster.leader().stomp_port, timeout_seconds=60.0)
    client.connect()
    return client


def consumer(cluster: LocalCluster, **headers: str) -> StompSocket:
    """A connection to the leader with a consumer of the queue."""
    client = connected(cluster)
    client.send(
        "SUBSCRIBE", {"destination": QUEUE, "id": "s", "ack": "client-individual"} | headers
    )
    return client


def reject(client: StompSocket, message: ReceivedFrame, **headers: str) -> None:
    named = {"id": message.headers["ack"], **headers}
    assert client.ask("NACK", named).command == "RECEIPT"


def kill_the_leader(cluster: LocalCluster) -> None:
    """And wait for the next; the dead one is back then, too."""
    killed = cluster.leader()
    killed.kill()
    cluster.leader()
    killed.start()
    killed.wait_until(lambda status: status["leader"] is not None, "back")


def wait_newest(cluster: LocalCluster) -> None:
    for node in cluster.nodes.values():
        node.wait_until(lambda status: status["format_level"] >= 4, "at the level of returns")


@pytest.mark.promise("F40")
def test_counts_and_delays_survive_the_death_of_each_leader(start_cluster: Any) -> None:
    """
    A message is rejected under three leaders, and dead after the last redelivery that it may have,
    no sooner and no later; one that rests goes on resting under the next ones, until it is due.
    """
    cluster = start_cluster("three", is_patient=True)
    wait_newest(cluster)
    with connected(cluster) as client:
        assert client.publish(RESTING, b"late").command == "RECEIPT"
        client.send("SUBSCRIBE", {"destination": RESTING, "id": "r", "ack": "client-individual"})
        message = client.read_message()
        began = time.time()
        reject(client, message, delay=f"{REST_SECONDS}000")
        assert client.publish(QUEUE, b"bad").command == "RECEIPT"
    counts: list[str | None] = []
    for rejections in (1, 2, 1):
        with consumer(cluster, **REDELIVERY) as client:
            for _ in range(rejections):
                message = client.read_message()
                counts.append(message.headers.get("JMSXDeliveryCount"))
                reject(client, message)
            if len(counts) < 4:  # Whatever came to this consumer meanwhile is not held against it.
                kill_the_leader(cluster)
    assert counts == [None, "2", "3", "4"]
    with consumer(cluster) as client:
        client.send("SUBSCRIBE", {"destination": DEAD, "id": "d", "ack": "client-individual"})
        dead = client.read_message()
        assert dead.body == b"bad"
        assert dead.headers["dlqDeliveryFailureCause"] == "rejected after the last redelivery"
        client.send("SUBSCRIBE", {"destination": RESTING, "id": "r", "ack": "client-individual"})
        late = client.read_message()
        assert (late.body, late.headers["JMSXDeliveryCount"]) == (b"late", "2")
        assert time.time() >= began + REST_SECONDS


def test_what_takes_too_long_is_counted_under_each_leader(start_cluster: Any) -> None:
    """
    A consumer that is alive and never done keeps a message for a second, under one leader after
    the other; the leaders' own ends count for nothing. After the last time it is dead, and what its
    consumer says then is fine and changes nothing.
    """
    cluster = start_cluster("three", is_patient=True)
    wait_newest(cluster)
    said = ["deliverySecondsMax=1", "maximumRedeliveries=2"]
    said += ["initialRedeliveryDelay=0", "redeliveryDelay=0"]
    leader = cluster.leader()
    command = [sys.executable, "-m", "holdfast", "queues", "set", "queue://orders", *said]
    proof = ["--admin", leader.admin, "--secret-file", str(cluster.secret_path)]
    subprocess.run([*command, *proof], check=True)
    with connected(cluster) as sender:
        assert sender.publish(QUEUE, b"endless").command == "RECEIPT"
    counts: list[str | None] = []
    for is_last in (False, True):
        with consumer(cluster, **ALONE) as stuck, consumer(cluster, **ALONE) as next_one:
            first = stuck.read_message()
            second = next_one.read_message()
            counts += [message.headers.get("JMSXDeliveryCount") for message in (first, second)]
            if is_last:
                next_one.send("SUBSCRIBE", {"destination": DEAD, "id": "d", "ack": "auto"})
                dead = next_one.read_message()
                assert dead.body == b"endless"
                assert stuck.ask("ACK", {"id": first.headers["ack"]}).command == "RECEIPT"
            else:
                kill_the_leader(cluster)
    assert counts == [None, "2", "2", "3"]


def test_a_poison_that_kills_its_consumers_ends_and_its_neighbours_do_not(
    start_cluster: Any,
) -> None:
    """
    Consumers that have one message at a time die of it, under two leaders; those that had others,
    and the leader's own death, are not held against anything.
    """
    cluster = start_cluster("three", is_patient=True)
    wait_newest(cluster)
    with connected(cluster) as sender:
        for body in (b"poison", b"good", b"fine"):
            assert sender.publish(QUEUE, body).command == "RECEIPT"
    for _ in range(6):
        with consumer(cluster, **REDELIVERY) as client:
            assert [client.read_message().body for _ in range(3)] == [b"poison", b"good", b"fine"]
    for is_leaders_end in (False, False, True, False, False):
        with consumer(cluster, **REDELIVERY, **ALONE) as client:
            assert client.read_message().body == b"poison"
            if is_leaders_end:
                kill_the_leader(cluster)
    with consumer(cluster) as client:
        assert [client.read_message().body for _ in range(2)] == [b"good", b"fine"]
        client.send("SUBSCRIBE", {"destination": DEAD, "id": "d", "ack": "client-individual"})
        dead = client.read_message()
        assert dead.body == b"poison"
        cause = dead.headers["dlqDeliveryFailureCause"]
        assert cause == "the connections of its consumers were lost"

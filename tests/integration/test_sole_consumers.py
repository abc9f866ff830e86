"""
Whose turn it is, over the death of leaders: the only one, the highest priority, the gate.
"""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from holdfast.testing.local_cluster import LocalCluster
from trials.clients.stomp_socket import ReceivedFrame, StompSocket, connected

pytestmark = [pytest.mark.processes, pytest.mark.slow]

QUEUE = "/queue/orders"
FEW = {"activemq.prefetchSize": "3"}
SOLE = {"activemq.exclusive": "true"}


def consumer(cluster: LocalCluster, **headers: str) -> StompSocket:
    """A connection to the leader with a consumer of the queue, who knows that it is there."""
    client = connected(cluster)
    wanted = {"destination": QUEUE, "id": "s", "ack": "client-individual"} | FEW | headers
    assert client.ask("SUBSCRIBE", wanted).command == "RECEIPT"
    return client


def acknowledge(client: StompSocket, message: ReceivedFrame) -> None:
    assert client.ask("ACK", {"id": message.headers["ack"]}).command == "RECEIPT"


def bodies(client: StompSocket, count: int) -> list[bytes]:
    return [client.read_message().body for _ in range(count)]


def fail_over(cluster: LocalCluster) -> None:
    killed = cluster.leader()
    killed.kill()
    cluster.leader()
    killed.start()
    killed.wait_until(lambda status: status["leader"] is not None, "back")


def test_the_only_one_is_followed_in_order_whoever_leads(start_cluster: Any) -> None:
    """
    Q9, Q12 over a failover: of those who come back the first is the only one, others wait; when its
    connection breaks the next goes on with what it held, in order, and what was acknowledged is
    gone under every leader.
    """
    cluster = start_cluster("three", is_patient=True)
    with connected(cluster) as sender:
        for number in range(8):
            assert sender.publish(QUEUE, b"%d" % number).command == "RECEIPT"
    first, second = consumer(cluster, **SOLE), consumer(cluster, **SOLE)
    message = first.read_message()
    assert [message.body, *bodies(first, 2)] == [b"0", b"1", b"2"]
    acknowledge(first, message)
    assert first.read_message().body == b"3"
    first.close()
    assert bodies(second, 3) == [b"1", b"2", b"3"]
    fail_over(cluster)
    second.close()
    with consumer(cluster, **SOLE) as third, consumer(cluster, **SOLE) as fourth:
        held = [third.read_message() for _ in range(3)]
        assert [each.body for each in held] == [b"1", b"2", b"3"]
        assert all(each.is_redelivered for each in held)
        acknowledge(third, held.pop(0))
        held.append(third.read_message())
        # A higher one waits until the old one is done with all that it has.
        with consumer(cluster, **SOLE, **{"activemq.priority": "1"}) as higher:
            for message in held:
                acknowledge(third, message)
            assert bodies(higher, 3) == [b"5", b"6", b"7"]
        assert bodies(third, 3) == [b"5", b"6", b"7"]
        third.close()
        assert bodies(fourth, 3) == [b"5", b"6", b"7"]


def test_the_highest_with_room_comes_first_whoever_leads(start_cluster: Any) -> None:
    """
    Q13 over a failover: a claim is made again with each SUBSCRIBE.
    """
    cluster = start_cluster("three", is_patient=True)
    for round_name in (b"a", b"b"):
        with (
            consumer(cluster) as low,
            consumer(cluster, **{"activemq.priority": "5"}) as high,
            connected(cluster) as sender,
        ):
            sent = [round_name + b"%d" % number for number in range(4)]
            for body in sent:
                assert sender.publish(QUEUE, body).command == "RECEIPT"
            received = [high.read_message() for _ in range(3)]
            last = low.read_message()
            assert [message.body for message in (*received, last)] == sent
            for message in received:
                acknowledge(high, message)
            acknowledge(low, last)
        if round_name == b"a":
            fail_over(cluster)


def test_the_gate_is_closed_again_after_a_failover(start_cluster: Any) -> None:
    """
    Q8: until two are there, or two minutes have passed; each gets its share then.
    """
    cluster = start_cluster("three", is_patient=True)
    leader = cluster.leader()
    leader.wait_until(lambda status: status["format_level"] >= 3, "at the level of policies")
    options = ["consumersBeforeDispatchStarts=2", "timeBeforeDispatchStarts=120000"]
    command = [sys.executable, "-m", "holdfast", "queues", "set", "queue://orders", *options]
    proof = ["--admin", leader.admin, "--secret-file", str(cluster.secret_path)]
    subprocess.run([*command, *proof], check=True)
    for name in (b"a", b"b"):
        with connected(cluster) as sender:
            for number in range(4):
                assert sender.publish(QUEUE, name + b"%d" % number).command == "RECEIPT"
        with consumer(cluster) as one:
            with consumer(cluster) as two:
                got = [client.read_message() for client in (one, two) for _ in range(2)]
                assert {each.body for each in got} == {name + b"%d" % n for n in range(4)}
                for each, client in zip(got, (one, one, two, two), strict=True):
                    acknowledge(client, each)
        fail_over(cluster)

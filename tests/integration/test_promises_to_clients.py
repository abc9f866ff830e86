"""
What one client is promised, held over the death of its broker: transactions, numbers, order, flags.
"""

from __future__ import annotations

import pytest

from holdfast.testing.local_cluster import LocalCluster, LocalNode
from trials.clients.stomp_socket import ReceivedFrame, StompSocket

pytestmark = [pytest.mark.processes, pytest.mark.slow]

PERSISTENT = {"persistent": "true"}


def connect(node: LocalNode) -> StompSocket:
    client = StompSocket(node.stomp_port)
    client.connect()
    return client


def drained(node: LocalNode, queue: str) -> list[ReceivedFrame]:
    """Everything on a queue, left unacknowledged."""
    with connect(node) as client:
        client.subscribe(queue, headers={"activemq.prefetchSize": "10000"})
        return client.read_queue(queue)


def next_leader(cluster: LocalCluster, old: LocalNode) -> LocalNode:
    old.kill()
    return cluster.leader(but=old)


@pytest.mark.promise("F32")
def test_a_transaction_is_all_or_nothing_over_the_death_of_its_broker(start_cluster):
    """
    Transactions over two queues are under way when the leader is killed: afterwards each is on both
    queues with all its messages, or on none; those whose COMMIT had a receipt are there.
    """
    cluster = start_cluster("three")
    old = cluster.leader()
    confirmed: set[int] = set()
    with connect(old) as client:
        for number in range(60):
            name = f"t{number}"
            client.send("BEGIN", {"transaction": name})
            for queue in ("/queue/left", "/queue/right") * 3:
                headers = {"destination": queue, "transaction": name, **PERSISTENT}
                client.send("SEND", headers, b"%d" % number)
            client.send("COMMIT", {"transaction": name, "receipt": f"{number}"})
            if number == 30:
                client.await_receipt("30")
        new = next_leader(cluster, old)
        confirmed |= {
            int(frame.headers["receipt-id"])
            for frame in client.read_all(quiet_seconds=10.0)  # To the end: the broker is dead.
            if frame.command == "RECEIPT"
        } | set(range(31))
    left = [int(frame.body) for frame in drained(new, "/queue/left")]
    right = [int(frame.body) for frame in drained(new, "/queue/right")]

    assert left == right
    assert left == [number for number in range(60) for _ in range(3) if number in set(left)]
    assert confirmed <= set(left)


@pytest.mark.promise("F32")
def test_an_open_transaction_dies_with_its_broker(start_cluster):
    """
    What was sent and acknowledged inside a transaction that never committed has not happened.
    """
    cluster = start_cluster("three")
    old = cluster.leader()
    with connect(old) as client:
        client.publish("/queue/in", b"first")
        client.subscribe("/queue/in")
        message = client.read_message()
        client.send("BEGIN", {"transaction": "t"})
        client.send("SEND", {"destination": "/queue/out", "transaction": "t", **PERSISTENT}, b"no")
        client.ask("ACK", {"id": message.headers["ack"], "transaction": "t"})
        new = next_leader(cluster, old)

    assert [frame.body for frame in drained(new, "/queue/out")] == []
    again = drained(new, "/queue/in")
    assert [frame.body for frame in again] == [b"first"]
    assert again[0].is_redelivered


@pytest.mark.promise("F30")
def test_a_numbered_retry_is_confirmed_again_and_stored_once(start_cluster):
    """
    The producer never heard the receipt: it sends the same number to the new leader and is
    confirmed; the queue holds the message once. A number that leaves one out is refused.
    """
    cluster = start_cluster("three")
    old = cluster.leader()
    numbered = {"producer-id": "p"}
    with connect(old) as client:
        for number in range(1, 6):
            headers = {**numbered, "producer-sequence": str(number)}
            client.publish("/queue/once", b"%d" % number, headers)
    new = next_leader(cluster, old)
    answers = []
    with connect(new) as client:
        for number in (4, 5, 6, 8, 7, 8):
            headers = {**numbered, "producer-sequence": str(number)}
            answers.append(client.publish("/queue/once", b"%d" % number, headers))
    bodies = [frame.body for frame in drained(new, "/queue/once")]

    assert [answer.command for answer in answers] == [
        *("RECEIPT", "RECEIPT", "RECEIPT", "ERROR", "RECEIPT", "RECEIPT")
    ]
    assert answers[3].headers["code"] == "producer-sequence-gap"
    assert bodies == [b"%d" % number for number in range(1, 9)]


@pytest.mark.promise("F31")
def test_what_may_have_been_seen_says_so_after_a_failover(start_cluster):
    """
    Deliveries that a consumer of the dead leader had are flagged by the new one, in order and under
    the same ids; what was acknowledged does not come back, and the old ids still acknowledge.
    """
    cluster = start_cluster("three")
    old = cluster.leader()
    with connect(old) as client:
        for number in range(20):
            client.publish("/queue/seen", b"%d" % number)
        client.subscribe("/queue/seen", headers={"activemq.prefetchSize": "10"})
        seen = [client.read_message() for _ in range(10)]
        for message in seen[:4]:
            client.acknowledge(message)
        topped_up = [client.read_message() for _ in range(4)]
        new = next_leader(cluster, old)
    with connect(new) as client:
        late = client.ask("ACK", {"id": seen[4].headers["message-id"]})
        client.subscribe("/queue/seen", headers={"activemq.prefetchSize": "100"})
        again = client.read_queue("/queue/seen")

    delivered = [*seen, *topped_up]
    assert late.command == "RECEIPT"
    assert [frame.body for frame in again] == [b"%d" % number for number in range(5, 20)]
    assert all(frame.is_redelivered for frame in again[: len(delivered) - 5])
    assert [frame.headers["message-id"] for frame in again[:9]] == [
        frame.headers["message-id"] for frame in delivered[5:]
    ]


@pytest.mark.promise("F31")
def test_a_dead_consumers_messages_return_to_the_head_in_order(start_cluster):
    """
    A consumer's socket closes without a word: what it held goes to the next one first, in its
    order, flagged; what it never had is not flagged.
    """
    node = start_cluster("single").leader()
    with connect(node) as producer, connect(node) as first, connect(node) as second:
        first.subscribe("/queue/held", headers={"activemq.prefetchSize": "5"})
        for number in range(10):
            producer.publish("/queue/held", b"%d" % number)
        held = [first.read_message() for _ in range(5)]
        first.acknowledge(held[1])
        first.close()
        node.wait_until(lambda status: status["connections"] == 2, "rid of the closed connection")
        second.subscribe("/queue/held", headers={"activemq.prefetchSize": "100"})
        got = second.read_queue("/queue/held")

    assert [frame.body for frame in got] == [b"%d" % n for n in (0, 2, 3, 4, 5, 6, 7, 8, 9)]
    assert [frame.is_redelivered for frame in got[:4]] == [True] * 4
    assert not any(frame.is_redelivered for frame in got[5:])


@pytest.mark.promise("F3")
def test_a_confirmed_acknowledgement_survives_the_death_of_every_node(start_cluster):
    """
    An acknowledgement with a receipt is as durable as a message: it is never undone.
    """
    cluster = start_cluster("three")
    leader = cluster.leader()
    with connect(leader) as client:
        for number in range(10):
            client.publish("/queue/done", b"%d" % number)
        client.subscribe("/queue/done")
        for _ in range(6):
            client.acknowledge(client.read_message())
    for node in cluster.nodes.values():
        node.kill()
    for node in cluster.nodes.values():
        node.start()
    again = drained(cluster.leader(), "/queue/done")

    assert [frame.body for frame in again] == [b"6", b"7", b"8", b"9"]

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
from trials.clients.stomp_socket import ReceivedFrame, StompSocket, connected

pytestmark = [pytest.mark.processes, pytest.mark.slow]

QUEUE = "/queue/orders"
GROUPED = "/queue/customers"
CHOSEN = "/queue/chosen"
KIND = "kind = 'a'"
RESTING = "/queue/resting"
REST_SECONDS = 5
DEAD = "/queue/ActiveMQ.DLQ"
ALONE = {"activemq.prefetchSize": "1"}
REDELIVERY = {
    "activemq.maximumRedeliveries": "3",
    "activemq.initialRedeliveryDelay": "0",
    "activemq.redeliveryDelay": "0",
}


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


def test_a_poison_is_found_among_a_hundred_whoever_leads(start_cluster: Any) -> None:
    """
    Q25: consumers that have a hundred messages at a time work through them and die of one; a leader
    dies, too. That one is dead in the end, and every other is done; in message groups in order, and
    by who selects what it wants, while what nobody wants stays.
    """
    cluster = start_cluster("three", is_patient=True)
    wait_newest(cluster)
    leader = cluster.leader()
    command = [sys.executable, "-m", "holdfast", "queues", "set", "queue://>"]
    proof = ["--admin", leader.admin, "--secret-file", str(cluster.secret_path)]
    subprocess.run([*command, "maximumRedeliveries=2", *proof], check=True)
    good = {b"good %d" % number for number in range(99)}
    send_poison_among_others(cluster, sorted(good))
    chosen = [body for _ in range(2) for body in work_until_it_dies(cluster, CHOSEN, KIND)[0]]
    in_groups = [body for _ in range(2) for body in work_until_it_dies(cluster, GROUPED)[0]]
    done: set[bytes] = set()
    dead: ReceivedFrame | None = None
    for number in range(20):
        some, dead = work_until_it_dies(cluster)
        done.update(some)
        if dead is not None:
            break
        if number == 2:
            kill_the_leader(cluster)
    assert dead is not None
    with consumer(cluster) as client:
        for _ in good - done:
            message = client.read_message()
            assert client.ask("ACK", {"id": message.headers["ack"]}).command == "RECEIPT"
            done.add(message.body)
    assert done == good
    assert dead.body == b"poison"
    assert dead.headers["dlqDeliveryFailureCause"] == "the connections of its consumers were lost"
    # What the leader that died had counted still counts.
    in_groups = done_by_then(cluster, in_groups, 23, GROUPED)
    numbers = [int(body) for body in in_groups]
    assert sorted(numbers) == [number for number in range(24) if number != 9]
    for group in range(4):
        of_group = [number for number in numbers if number % 4 == group]
        assert of_group == sorted(of_group)
    chosen = done_by_then(cluster, chosen, 11, CHOSEN, KIND)
    assert sorted(chosen) == [b"%02d" % number for number in range(0, 24, 2) if number != 10]
    names = ("orders", "customers", "chosen", "ActiveMQ.DLQ")
    assert [depth(cluster, name) for name in names] == [0, 0, 12, 0]


def send_poison_among_others(cluster: LocalCluster, good: list[bytes]) -> None:
    """Send these and a poison, some of groups and one, and some of two kinds and one."""
    with connected(cluster) as sender:
        for number, body in enumerate(good):
            if number == 40:
                assert sender.publish(QUEUE, b"poison").command == "RECEIPT"
            assert sender.publish(QUEUE, body).command == "RECEIPT"
        for number in range(24):
            named = {"JMSXGroupID": f"g{number % 4}"}
            body = b"poison" if number == 9 else b"%02d" % number
            assert sender.publish(GROUPED, body, named).command == "RECEIPT"
        for number in range(24):
            kind = {"kind": "ab"[number % 2]}
            body = b"poison" if number == 10 else b"%02d" % number
            assert sender.publish(CHOSEN, body, kind).command == "RECEIPT"


def done_by_then(
    cluster: LocalCluster, done: list[bytes], count: int, queue: str, selector: str | None = None
) -> list[bytes]:
    """Go on until the poison is dead, and then up to so many; give what was done."""
    done, dead = [*done], None
    for _ in range(20):
        some, dead = work_until_it_dies(cluster, queue, selector)
        done += some
        if dead is not None:
            break
    assert dead is not None
    assert dead.body == b"poison"
    said = {} if selector is None else {"selector": selector}
    with consumer(cluster, destination=queue, **said) as client:
        for _ in range(count - len(done)):
            message = client.read_message()
            done.append(message.body)
            assert client.ask("ACK", {"id": message.headers["ack"]}).command == "RECEIPT"
    return done


def work_until_it_dies(
    cluster: LocalCluster, queue: str = QUEUE, selector: str | None = None
) -> tuple[list[bytes], ReceivedFrame | None]:
    """Do what comes, in its order, until it is the poison, or that is dead; give what was done."""
    done: list[bytes] = []
    said = {"activemq.prefetchSize": "100"} | ({} if selector is None else {"selector": selector})
    with consumer(cluster, destination=queue, **said) as client:
        client.send("SUBSCRIBE", {"destination": DEAD, "id": "d", "ack": "client-individual"})
        while True:
            message = client.read_message()
            if message.headers["subscription"] == "d":
                assert client.ask("ACK", {"id": message.headers["ack"]}).command == "RECEIPT"
                return done, message
            if message.body == b"poison":
                return done, None
            assert client.ask("ACK", {"id": message.headers["ack"]}).command == "RECEIPT"
            done.append(message.body)


def depth(cluster: LocalCluster, queue: str) -> int:
    """How many messages are on a queue."""
    found = {it["name"]: it["messages"] for it in cluster.leader().get("/queues")["queues"]}
    return int(found.get(queue, 0))


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

"""
One SEND to several destinations, from outside: stomp.py, a raw socket, our client both ways, the
command line; and what is left of it when the leader dies in the middle.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.client import connect
from holdfast.client.blocking import connect as connect_blocking
from holdfast.testing.local_cluster import LocalCluster, LocalNode
from tests.conformance.clients.stomp_py import VERSIONS, Listener
from trials.clients.stomp_socket import StompSocket

pytestmark = [pytest.mark.processes, pytest.mark.slow]

PATIENCE_SECONDS = 60


def taken(broker: LocalNode, place: str, count: int) -> list[bytes]:
    """Take so many messages off a queue, and make sure that there are no more."""
    with connect_blocking(broker.uri) as connection:
        with connection.subscribe(place, browse=True, acknowledge="auto") as looking:
            assert len([message.body for message in looking]) == count
        found = []
        with connection.subscribe(place) as taking:
            for _ in range(count):
                message = taking.receive(PATIENCE_SECONDS)
                assert message is not None
                message.acknowledge()
                found.append(message.body)
    return found


async def send_over_failovers(
    cluster: LocalCluster, to: str, bodies: list[bytes], *more: str
) -> None:
    """
    Send all of them, each to the next of some places, and twice in the middle kill the leader; then
    all nodes are level.
    """
    async with connect(cluster.uri) as connection:
        producers = [connection.producer(place, window=50) for place in (to, *more)]
        for number, body in enumerate(bodies):
            if number in {len(bodies) // 3, 2 * len(bodies) // 3}:
                leader = await asyncio.to_thread(cluster.leader)
                await asyncio.to_thread(leader.kill)
                await asyncio.to_thread(leader.start)
            await producers[number % len(producers)].send(body)
        for producer in producers:
            await producer.flush()
    await asyncio.to_thread(cluster.wait_level)


@pytest.mark.parametrize("version", list(VERSIONS))
def test_stomp_py_sends_to_a_queue_a_topic_and_another_queue(
    broker: LocalNode, version: str
) -> None:
    """
    As any of them is written.
    """
    name = f"several-{version}"
    connection = VERSIONS[version]([("127.0.0.1", broker.stomp_port)])
    listener = Listener(PATIENCE_SECONDS)
    connection.set_listener("", listener)
    connection.connect("guest", "guest", wait=True)
    connection.subscribe(f"/topic/{name}", id="1", ack="auto", receipt="yes")
    assert listener.next().headers["receipt-id"] == "yes"
    to = f"/queue/{name}.a, queue://{name}.b,topic://{name}"
    connection.send(to, "x", headers={"persistent": "true"}, receipt="sent")
    came = {it.headers.get("receipt-id", it.body) for it in (listener.next(), listener.next())}
    assert came == {"sent", "x"}
    connection.disconnect()

    assert taken(broker, f"/queue/{name}.a", 1) == taken(broker, f"/queue/{name}.b", 1) == [b"x"]


def test_a_raw_socket_is_told_what_cannot_be(broker: LocalNode) -> None:
    """
    And none of the others has it then.
    """
    with StompSocket(broker.stomp_port, timeout_seconds=PATIENCE_SECONDS) as client:
        client.connect()
        for wrong, why in (
            ("/queue/raw,/queue/", "has no name"),
            ("/queue/raw,b.>", "wildcards"),
            ("/queue/raw,/topic/ActiveMQ.Advisory.Queue", "advisory"),
            (",".join(f"q{n}" for n in range(65)), "more than 64"),
        ):
            told = client.publish(wrong, b"x")
            assert told.command == "ERROR"
            assert why in told.headers["message"]
        assert client.publish("/queue/raw,/queue/raw.b", b"right").command == "RECEIPT"
    assert taken(broker, "/queue/raw", 1) == [b"right"]


def test_our_client_numbers_it_once(broker: LocalNode) -> None:
    """
    Whatever else it sends; within a transaction, too.
    """

    async def send() -> None:
        async with connect(broker.uri) as connection:
            producer = connection.producer("/queue/ours.a,/queue/ours.b")
            for number in range(20):
                await producer.send(b"%d" % number)
            await producer.flush()
            async with connection.transaction() as transaction:
                await transaction.send("/queue/ours.b,queue://ours.a", b"last")

    asyncio.run(send())
    expected = [b"%d" % number for number in range(20)] + [b"last"]
    for place in ("/queue/ours.a", "/queue/ours.b"):
        assert taken(broker, place, 21) == expected


def test_the_command_line_sends_to_several(broker: LocalNode) -> None:
    """
    As it does to one.
    """
    command = [sys.executable, "-m", "holdfast", "send", "/queue/cli.a,/queue/cli.b", "hello"]
    done = subprocess.run(
        [*command, "--uri", broker.uri], capture_output=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert taken(broker, "/queue/cli.a", 1) == taken(broker, "/queue/cli.b", 1) == [b"hello"]


def forward(cluster: LocalCluster, name: str, to: str) -> None:
    """Let a queue be a composite destination."""
    command = [sys.executable, "-m", "holdfast", "queues", "set", f"queue://{name}"]
    options = ["--admin", cluster.leader().admin, "--secret-file", str(cluster.secret_path)]
    subprocess.run([*command, f"forwardTo={to}", *options], check=True, capture_output=True)


async def send_to_composite(cluster: LocalCluster, to: str, bodies: list[bytes]) -> None:
    """Send all of them, each third one with another header."""
    async with connect(cluster.uri) as connection:
        producer = connection.producer(to, window=50)
        for number, body in enumerate(bodies):
            await producer.send(body, headers={"third": "no" if number % 3 else "yes"})
        await producer.flush()


def test_each_is_on_both_queues_or_on_none_when_leaders_die(tmp_path: Path) -> None:
    """
    kill -9 of the leader, twice, under a stream of them: all are confirmed, and on both, each once.

    Beside it a stream to a composite destination, which forwards to two and each third to another.
    """
    bodies = [b"%d" % number for number in range(600)]

    async def send(cluster: LocalCluster) -> None:
        await asyncio.gather(
            send_over_failovers(cluster, "/queue/both.a,/queue/both.b", bodies),
            send_to_composite(cluster, "/queue/all", bodies),
        )

    with LocalCluster(tmp_path / "c", "three") as cluster:
        cluster.start()
        forward(cluster, "all", "queue://all.a, queue://all.b, queue://thirds when third = 'yes'")
        asyncio.run(send(cluster))
        for place in ("/queue/both.a", "/queue/both.b", "/queue/all.a", "/queue/all.b"):
            assert taken(cluster.leader(), place, len(bodies)) == bodies
        assert taken(cluster.leader(), "/queue/thirds", 200) == bodies[::3]

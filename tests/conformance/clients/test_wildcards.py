"""
Subscriptions to several queues and topics, from outside: stomp.py, a raw socket, our client both
ways, the command line; and what they have when the leader dies in the middle.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from holdfast.client import connect
from holdfast.client.blocking import connect as connect_blocking
from holdfast.testing.local_cluster import LocalCluster, LocalNode
from tests.conformance.clients.stomp_py import VERSIONS, Listener
from trials.clients.stomp_socket import StompSocket

pytestmark = [pytest.mark.processes, pytest.mark.slow]

PATIENCE_SECONDS = 60


@pytest.mark.parametrize("version", list(VERSIONS))
def test_stomp_py_gets_what_comes_to_all_that_match(broker: LocalNode, version: str) -> None:
    """
    Queues that were there and such as come later, acknowledged in whichever way.
    """
    name = f"wild-{version}"
    connection = VERSIONS[version]([("127.0.0.1", broker.stomp_port)])
    listener = Listener(PATIENCE_SECONDS)
    connection.set_listener("", listener)
    connection.connect("guest", "guest", wait=True)
    connection.send(f"/queue/{name}.a", "1", headers={"persistent": "true"}, receipt="sent")
    assert listener.next().headers["receipt-id"] == "sent"
    connection.subscribe(f"/queue/{name}.>", id="1", ack="client", receipt="yes")
    heard = [listener.next(), listener.next()]
    (first,) = [it for it in heard if "receipt-id" not in it.headers]
    connection.send(f"/queue/{name}.b.c", "2", headers={"persistent": "true"})
    second = listener.next()
    assert [first.body, second.body] == ["1", "2"]
    assert second.headers["destination"] == f"/queue/{name}.b.c"
    if version == "1.2":
        connection.ack(second.headers["ack"], receipt="done")
    elif version == "1.1":
        connection.ack(second.headers["message-id"], "1", receipt="done")
    else:
        connection.ack(second.headers["message-id"], receipt="done")
    assert listener.next().headers["receipt-id"] == "done"
    connection.disconnect()
    with connect_blocking(broker.uri) as client:
        with client.subscribe(f"/queue/{name}.>") as left:
            assert left.receive(0.1) is None


def test_a_raw_socket_is_told_what_cannot_be(broker: LocalNode) -> None:
    """
    And goes on.
    """
    with StompSocket(broker.stomp_port, timeout_seconds=PATIENCE_SECONDS) as client:
        client.connect()
        for headers, why in (
            ({"destination": "/queue/raw.>.*"}, "stands at the end"),
            ({"destination": "/temp-queue/raw.*"}, "not for temporary ones"),
            ({"destination": "/queue/raw.*", "browser": "true"}, "looks through one queue"),
        ):
            told = client.ask("SUBSCRIBE", {**headers, "id": "s"})
            assert told.command == "ERROR"
            assert why in told.headers["message"]
        told = client.ask("SUBSCRIBE", {"destination": "/queue/raw.*", "id": "s"})
        assert told.command == "RECEIPT"


def test_our_client_takes_from_all_of_them(broker: LocalNode) -> None:
    """
    Both ways; each message says where it comes from, and what is acknowledged is gone.
    """

    async def exchange() -> list[tuple[str, bytes]]:
        async with connect(broker.uri) as connection:
            await connection.send("/queue/ours.a", b"1")
            places = "/queue/ours.*, /topic/ours"
            async with connection.subscribe(places, acknowledge="client") as messages:
                await connection.send("/queue/ours.b", b"2")
                await connection.send("/topic/ours", b"3")
                found = []
                for _ in range(3):
                    message = await asyncio.wait_for(anext(messages), PATIENCE_SECONDS)
                    found.append((message.destination, message.body))
                await message.acknowledge()
                return found

    found = asyncio.run(exchange())
    expected = [("/queue/ours.a", b"1"), ("/queue/ours.b", b"2"), ("/topic/ours", b"3")]
    assert sorted(found) == expected
    with connect_blocking(broker.uri) as connection:
        connection.send("/queue/ours.c", b"4")
        with connection.subscribe("/queue/ours.>") as messages:
            message = messages.receive(PATIENCE_SECONDS)
            assert message is not None
            assert (message.destination, message.body) == ("/queue/ours.c", b"4")
            message.acknowledge()


def test_the_command_line_receives_from_all_of_them(broker: LocalNode) -> None:
    """
    As from one.
    """
    with connect_blocking(broker.uri) as connection:
        for name in "ab":
            connection.send(f"/queue/lines.{name}", name.encode())
    command = [sys.executable, "-m", "holdfast", "receive", "lines.*", "--count", "2"]
    done = subprocess.run(
        [*command, "--uri", broker.uri, "--timeout", "60"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert sorted(done.stdout.split()) == ["a", "b"]


def test_each_comes_to_one_when_leaders_die(tmp_path: Path) -> None:
    """
    kill -9 of the leader, twice, under a stream to ten queues that one subscription takes from and
    acknowledges as it comes: none is lost, and what comes twice says so.
    """
    count = 600
    seen: Counter[bytes] = Counter()
    twice: list[bytes] = []

    async def send(connection) -> None:
        producers = [connection.producer(f"/queue/dying.{number}") for number in range(10)]
        for number in range(count):
            await producers[number % 10].send(b"%d" % number)
        for producer in producers:
            await producer.flush()

    async def take(connection, cluster: LocalCluster) -> None:
        async with connection.subscribe(
            "/queue/dying.*", acknowledge="client", prefetch=50
        ) as messages:
            while len(seen) < count:
                message = await asyncio.wait_for(anext(messages), PATIENCE_SECONDS)
                if seen[message.body] and not message.redelivered:
                    twice.append(message.body)
                seen[message.body] += 1
                await message.acknowledge()
                if sum(seen.values()) in {150, 350}:
                    leader = await asyncio.to_thread(cluster.leader)
                    await asyncio.to_thread(leader.kill)
                    await asyncio.to_thread(leader.start)

    async def both(cluster: LocalCluster) -> None:
        async with connect(cluster.uri) as sending, connect(cluster.uri) as taking:
            await asyncio.gather(send(sending), take(taking, cluster))

    with LocalCluster(tmp_path / "c", "three") as cluster:
        cluster.start()
        asyncio.run(both(cluster))
        cluster.wait_level()
        with connect_blocking(cluster.uri) as connection:
            with connection.subscribe("/queue/dying.>") as left:
                assert left.receive(0.2) is None
    assert set(seen) == {b"%d" % number for number in range(count)}
    assert twice == []

"""
Looking through a queue from outside: stomp.py, a raw socket while others take, our client on both
faces, the command line.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys

import pytest

from holdfast.client import connect
from holdfast.client.blocking import connect as connect_blocking
from holdfast.testing.local_cluster import LocalNode
from tests.conformance.clients.stomp_py import VERSIONS, Listener
from trials.clients.stomp_socket import StompSocket

pytestmark = [pytest.mark.processes, pytest.mark.slow]

PATIENCE_SECONDS = 60
COUNT = 2_000
"""More than a browser's window and what ActiveMQ shows."""


def connected(broker: LocalNode) -> StompSocket:
    client = StompSocket(broker.stomp_port, timeout_seconds=PATIENCE_SECONDS)
    client.connect()
    return client


@pytest.mark.parametrize("version", list(VERSIONS))
def test_stomp_py_is_shown_all_and_takes_nothing(broker: LocalNode, version: str) -> None:
    """
    Then the end; whoever comes next gets all of it, and unflagged.
    """
    place = f"/queue/browsed-{version}"
    with connected(broker) as client:
        for body in (b"1", b"2", b"3"):
            assert client.publish(place, body).command == "RECEIPT"
        connection = VERSIONS[version]([("127.0.0.1", broker.stomp_port)])
        listener = Listener(PATIENCE_SECONDS)
        connection.set_listener("", listener)
        connection.connect("guest", "guest", wait=True)
        connection.subscribe(place, id="1", ack="auto", headers={"browser": "true"})
        shown = [listener.next() for _ in range(4)]
        client.send("SUBSCRIBE", {"id": "1", "destination": place})
        taken = [client.read_message() for _ in range(3)]

    assert [frame.body for frame in shown] == ["1", "2", "3", ""]
    assert shown[-1].headers["browser"] == "end"
    assert not any("browser" in frame.headers for frame in shown[:-1])
    names = [message.headers["message-id"].replace("\\c", ":") for message in taken]
    assert names == [frame.headers["message-id"] for frame in shown[:-1]]
    assert not any(message.is_redelivered for message in taken)
    connection.disconnect()


def test_many_are_shown_while_others_take_them(broker: LocalNode) -> None:
    """
    Q57: what is in delivery is shown; what is acknowledged meanwhile may be missing, and no other;
    and each is shown once, in order.
    """
    place = "/queue/busy"
    with connected(broker) as taking, connected(broker) as looking:
        for number in range(COUNT):
            headers = {"destination": place, "persistent": "true"}
            taking.send("SEND", headers, b"%d" % number)
        assert taking.publish(place, b"last").command == "RECEIPT"
        taking.send("SUBSCRIBE", {"id": "1", "destination": place, "ack": "client-individual"})
        held = [taking.read_message() for _ in range(500)]
        looking.send(
            "SUBSCRIBE",
            {"id": "1", "destination": place, "ack": "client", "browser": "true"},
        )
        shown: list[int] = []
        acknowledged: set[int] = set()
        while (message := looking.read_message()).headers.get("browser") != "end":
            shown.append(COUNT if message.body == b"last" else int(message.body))
            looking.send("ACK", {"id": message.headers["ack"]})
            if held and len(shown) % 4 == 0:
                done = held.pop()
                taking.send("ACK", {"id": done.headers["ack"]})
                acknowledged.add(int(done.body))

        assert shown == sorted(set(shown))
        assert set(range(COUNT + 1)) - set(shown) <= acknowledged


def test_a_raw_socket_is_told_what_it_may_not(broker: LocalNode) -> None:
    """
    To reject, to look through a topic, and what is neither true nor false.
    """
    with connected(broker) as client:
        assert client.publish("/queue/raw", b"x").command == "RECEIPT"
        wanted = {"id": "1", "destination": "/queue/raw", "ack": "client-individual"}
        client.send("SUBSCRIBE", {**wanted, "browser": "true"})
        shown = client.read_message()
        error = client.ask("NACK", {"id": shown.headers["ack"]})
        assert (error.command, error.headers["code"]) == ("ERROR", "destination")
        for place, value, code in (
            ("/topic/raw", "true", "destination"),
            ("/queue/raw", "1", "refused"),
        ):
            given = {"id": "2", "destination": place, "browser": value}
            error = client.ask("SUBSCRIBE", given)
            assert (error.command, error.headers["code"]) == ("ERROR", code)
        assert client.ask("SUBSCRIBE", {**wanted, "id": "2"}).command == "RECEIPT"


async def shown(broker: LocalNode, place: str, window: int) -> list[str]:
    async with (
        connect(broker.uri) as connection,
        connection.subscribe(place, browse=True, prefetch=window) as looking,
    ):
        bodies = []
        async for message in looking:
            bodies.append(message.text)
            await message.acknowledge()
        return bodies


@pytest.mark.parametrize("window", [2, 100])
def test_our_client_looks_through_a_queue_to_its_end(broker: LocalNode, window: int) -> None:
    """
    Both faces and the command line: whatever the prefetch, all is shown and all stays.
    """
    place = f"/queue/ours-{window}"
    with connected(broker) as client:
        for number in range(5):
            assert client.publish(place, b"%d" % number).command == "RECEIPT"
    whole = ["0", "1", "2", "3", "4"]
    assert asyncio.run(shown(broker, place, window)) == whole
    with connect_blocking(broker.uri) as connection:
        with connection.subscribe(
            place, browse=True, prefetch=window, acknowledge="auto"
        ) as looking:
            assert [message.text for message in looking] == whole
        command = [sys.executable, "-m", "holdfast", "receive", place, "--browse"]
        options = ["--prefetch", str(window), "--uri", broker.uri, "--timeout", "60"]
        output = subprocess.run([*command, *options], capture_output=True, check=True).stdout
        assert output.decode().split() == whole
        with connection.subscribe(place) as taking:
            assert [taking.receive(PATIENCE_SECONDS).redelivered for _ in whole] == [False] * 5

"""
Whose turn it is on a queue, from outside: stomp.py, a raw socket, our client both ways, the command
line.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import Any

import pytest

from holdfast.client import connect
from holdfast.client.blocking import connect as connect_blocking
from holdfast.testing.local_cluster import LocalNode
from tests.conformance.clients.stomp_py import VERSIONS, Listener
from trials.clients.stomp_socket import StompSocket

pytestmark = [pytest.mark.processes, pytest.mark.slow]

PATIENCE_SECONDS = 60


def consumer(broker: LocalNode, version: str, place: str, **headers: str) -> tuple[Any, Listener]:
    connection = VERSIONS[version]([("127.0.0.1", broker.stomp_port)])
    listener = Listener(PATIENCE_SECONDS)
    connection.set_listener("", listener)
    connection.connect("guest", "guest", wait=True)
    named = {name.replace("__", ".").replace("_", "-"): value for name, value in headers.items()}
    connection.subscribe(place, id="1", ack="auto", headers=named, receipt="yes")
    assert listener.next().headers["receipt-id"] == "yes"
    return connection, listener


def publish(broker: LocalNode, place: str, *bodies: bytes) -> None:
    with StompSocket(broker.stomp_port, timeout_seconds=PATIENCE_SECONDS) as client:
        client.connect()
        for body in bodies:
            assert client.publish(place, body).command == "RECEIPT"


@pytest.mark.parametrize("name", ["activemq__priority", "consumer_priority", "x_priority"])
@pytest.mark.parametrize("version", list(VERSIONS))
def test_stomp_py_comes_first_by_its_priority(broker: LocalNode, version: str, name: str) -> None:
    """
    In every version, by every name.
    """
    place = f"/queue/priority-{name}-{version}"
    low, _ = consumer(broker, version, place)
    high, heard = consumer(broker, version, place, **{name: "1"})
    publish(broker, place, b"1", b"2")

    assert [heard.next().body for _ in range(2)] == ["1", "2"]
    for each in (low, high):
        each.disconnect()


@pytest.mark.parametrize("name", ["activemq__exclusive", "x_single_active_consumer"])
@pytest.mark.parametrize("version", list(VERSIONS))
def test_stomp_py_is_the_only_one(broker: LocalNode, version: str, name: str) -> None:
    """
    The second one gets what comes once the first one has left.
    """
    place = f"/queue/exclusive-{name}-{version}"
    plain, _ = consumer(broker, version, place)
    first, heard_first = consumer(broker, version, place, **{name: "true"})
    second, heard_second = consumer(broker, version, place, **{name: "true"})
    publish(broker, place, b"1", b"2")
    assert [heard_first.next().body for _ in range(2)] == ["1", "2"]
    first.disconnect()
    publish(broker, place, b"3")

    assert heard_second.next().body == "3"
    for each in (plain, second):
        each.disconnect()


def test_a_raw_socket_is_told_what_makes_no_sense(broker: LocalNode) -> None:
    """
    Whatever was written; the connection goes on, and options of the destination count as headers.
    """
    wrong = [
        ("activemq.priority", "128"),
        ("x-priority", "-129"),
        ("consumer-priority", "high"),
        ("activemq.exclusive", "perhaps"),
    ]
    with StompSocket(broker.stomp_port, timeout_seconds=PATIENCE_SECONDS) as client:
        client.connect()
        for name, value in wrong:
            error = client.ask("SUBSCRIBE", {"id": "1", "destination": "/queue/raw", name: value})
            assert (error.command, error.headers["code"]) == ("ERROR", "refused")
            assert name in error.headers["message"]
        place = "/queue/raw?consumer.exclusive=true&consumer.priority=-128"
        assert client.ask("SUBSCRIBE", {"id": "1", "destination": place}).command == "RECEIPT"
        publish(broker, "/queue/raw", b"x")
        assert client.read_message().body == b"x"


async def received(broker: LocalNode, place: str) -> tuple[list[str], list[str]]:
    async with connect(broker.uri) as connection, connect(broker.uri) as other:
        async with other.subscribe(place), other.subscribe(place, exclusive=True) as waiting:
            async with connection.subscribe(place, exclusive=True, priority=7) as first:
                producer = connection.producer(place)
                for body in ("1", "2"):
                    await producer.send(body)
                one = await first.receive(PATIENCE_SECONDS)
                assert one is not None
                await one.acknowledge(confirm=True)
            two = await waiting.receive(PATIENCE_SECONDS)
            assert two is not None
            await two.acknowledge(confirm=True)
    return [one.text], [two.text]


def test_our_client_claims_on_both_faces(broker: LocalNode) -> None:
    """
    One that leaves is followed by the next, which gets what was left.
    """
    assert asyncio.run(received(broker, "/queue/ours")) == (["1"], ["2"])
    with connect_blocking(broker.uri) as connection:
        with (
            connection.subscribe("/queue/blocking") as plain,
            connection.subscribe("/queue/blocking", exclusive=True, priority=-1) as sole,
        ):
            publish(broker, "/queue/blocking", b"x")
            message = sole.receive(PATIENCE_SECONDS)
            assert message is not None
            message.acknowledge(confirm=True)
            assert plain.receive(0) is None


def test_the_command_line_claims(broker: LocalNode) -> None:
    """
    `holdfast receive --exclusive --priority`, before somebody who was there already.
    """
    place = "/queue/command"
    with StompSocket(broker.stomp_port, timeout_seconds=PATIENCE_SECONDS) as client:
        client.connect()
        assert client.ask("SUBSCRIBE", {"id": "1", "destination": place}).command == "RECEIPT"
        options = ["--exclusive", "--priority", "5", "--count", "1", "--uri", broker.uri]
        command = [sys.executable, "-m", "holdfast", "receive", place, *options]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as receiving:
            while not any(
                each["name"] == "command" and each["consumers"] == 2
                for each in broker.get("/queues")["queues"]
            ):
                assert receiving.poll() is None
            publish(broker, place, b"x")
            output, _ = receiving.communicate(timeout=PATIENCE_SECONDS)

    assert output == b"x\n"


@pytest.mark.parametrize("version", list(VERSIONS))
def test_a_paused_queue_takes_and_gives_nothing(broker: LocalNode, version: str) -> None:
    """
    Stomp.py gets what was sent meanwhile once it goes on; a browser sees it before.
    """
    place = f"/queue/paused-{version}"
    command = [sys.executable, "-m", "holdfast", "queues"]
    at = ["--admin", broker.admin]
    subprocess.run([*command, "pause", place, *at], check=True, capture_output=True)
    connection, heard = consumer(broker, version, place)
    publish(broker, place, b"1", b"2")
    _, seen = consumer(broker, version, place, browser="true")
    assert [seen.next().body for _ in range(2)] == ["1", "2"]
    listed = subprocess.run([*command, *at], check=True, capture_output=True, text=True).stdout
    assert any(f"paused-{version}" in line and "paused" in line for line in listed.splitlines())
    assert heard.frames.empty()

    subprocess.run([*command, "resume", place, *at], check=True, capture_output=True)
    assert [heard.next().body for _ in range(2)] == ["1", "2"]
    connection.disconnect()

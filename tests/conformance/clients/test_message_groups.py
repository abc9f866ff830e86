"""
Message groups from outside: stomp.py, a raw socket, our client both ways, the command line.
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
FIRST = "JMSXGroupFirstForConsumer"


@pytest.fixture(autouse=True)
def at_the_level_of_groups(broker: LocalNode) -> None:
    broker.wait_until(lambda status: status["format_level"] >= 6, "at the level of groups")


def test_stomp_py_selects_from_a_group(broker: LocalNode) -> None:
    """
    Each message goes to who selects it, once nobody has anything of its group any more.
    """
    consumers = []
    for kind in ("odd", "even"):
        connection = VERSIONS["1.2"]([("127.0.0.1", broker.stomp_port)])
        listener = Listener(PATIENCE_SECONDS)
        connection.set_listener("", listener)
        connection.connect("guest", "guest", wait=True)
        headers = {"selector": f"kind = '{kind}'"}
        place = "/queue/selected-groups"
        connection.subscribe(place, id="1", ack="client-individual", headers=headers, receipt="on")
        assert listener.next().headers["receipt-id"] == "on"
        consumers.append((connection, listener))
    sender = VERSIONS["1.2"]([("127.0.0.1", broker.stomp_port)])
    sender.connect("guest", "guest", wait=True)
    for number in range(6):
        headers = {"persistent": "true", "JMSXGroupID": "g", "kind": ("even", "odd")[number % 2]}
        sender.send(place, str(number), headers=headers)
    for number in range(6):
        connection, listener = consumers[1 - number % 2]
        message = listener.next()
        assert message.body == str(number)
        assert message.headers[FIRST] == "true"
        connection.ack(message.headers["ack"])
    for connection in (*(each for each, _ in consumers), sender):
        connection.disconnect()


@pytest.mark.parametrize("version", list(VERSIONS))
def test_stomp_py_has_each_group_on_one_connection(broker: LocalNode, version: str) -> None:
    """
    In order, and the first of each says so, whatever the version escapes in a group's name.
    """
    name = f"/queue/groups-{version}"
    listeners = []
    connections = []
    for _ in range(2):
        connection = VERSIONS[version]([("127.0.0.1", broker.stomp_port)])
        listener = Listener(PATIENCE_SECONDS)
        connection.set_listener("", listener)
        connection.connect("guest", "guest", wait=True)
        connection.subscribe(name, id="1", ack="auto", receipt="yes")
        assert listener.next().headers["receipt-id"] == "yes"
        listeners.append(listener)
        connections.append(connection)
    sender = VERSIONS[version]([("127.0.0.1", broker.stomp_port)])
    sender.connect("guest", "guest", wait=True)
    for number in range(3):
        for group in ("one", "two"):
            headers = {"persistent": "true", "JMSXGroupID": group, "JMSXGroupSeq": str(number)}
            sender.send(name, f"{group} {number}", headers=headers)
    for listener in listeners:
        frames = [listener.next() for _ in range(3)]
        group = frames[0].headers["JMSXGroupID"]
        assert [frame.body for frame in frames] == [f"{group} {number}" for number in range(3)]
        assert [FIRST in frame.headers for frame in frames] == [True, False, False]
    for connection in (*connections, sender):
        connection.disconnect()


def test_a_raw_socket_is_told_what_is_no_number(broker: LocalNode) -> None:
    """
    And ends a group with one below zero; what it says itself of the first is dropped.
    """
    with StompSocket(broker.stomp_port, timeout_seconds=PATIENCE_SECONDS) as client:
        client.connect()
        wrong = {"JMSXGroupID": "a", "JMSXGroupSeq": "1.5"}
        error = client.publish("/queue/raw", b"x", headers=wrong)
        assert error.command == "ERROR"
        assert "JMSXGroupSeq" in error.headers["message"]
        for number in ("1", "-1", "1"):
            said = {"JMSXGroupID": "a", "JMSXGroupSeq": number, FIRST: "no"}
            assert client.publish("/queue/raw", b"x", headers=said).command == "RECEIPT"
        client.subscribe("/queue/raw", "auto")
        frames = [client.read_message() for _ in range(3)]
        assert [frame.headers.get(FIRST) for frame in frames] == ["true", None, "true"]


def test_our_client_and_the_command_line_send_and_show_groups(broker: LocalNode) -> None:
    """
    Both faces tell the group of a message.
    """

    async def send_one() -> None:
        async with connect(broker.uri) as connection:
            await connection.send("/queue/ours", "1", headers={"JMSXGroupID": "ann"})

    asyncio.run(send_one())
    command = [sys.executable, "-m", "holdfast", "send", "/queue/ours", "2", "--group", "ann"]
    subprocess.run([*command, "--uri", broker.uri], check=True, timeout=PATIENCE_SECONDS)
    with (
        connect_blocking(broker.uri) as connection,
        connection.subscribe("/queue/ours") as taking,
    ):
        for body in ("1", "2"):
            message = taking.receive(PATIENCE_SECONDS)
            assert message is not None
            assert (message.text, message.group) == (body, "ann")
            message.acknowledge()

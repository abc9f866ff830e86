"""
Priorities of messages: stomp.py in each version, a raw socket, the command line.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

from holdfast.model.format_level import PRIORITY_LEVEL
from holdfast.testing.local_cluster import LocalNode
from tests.conformance.clients.stomp_py import VERSIONS, Listener
from trials.clients.stomp_socket import StompSocket

pytestmark = [pytest.mark.processes, pytest.mark.slow]

PATIENCE_SECONDS = 60


@pytest.fixture(autouse=True)
def at_the_level(broker: LocalNode) -> None:
    broker.wait_until(lambda status: status["format_level"] >= PRIORITY_LEVEL, "at the level")
    say(broker, "queue://ranked.>", "prioritizedMessages=true")


def say(broker: LocalNode, pattern: str, *words: str) -> None:
    """Let an operator say something of queues."""
    run(broker, "queues", "set", pattern, *words, "--admin", broker.admin)


def run(broker: LocalNode, *arguments: str) -> str:
    command = [sys.executable, "-m", "holdfast", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("version", list(VERSIONS))
def test_stomp_py_gets_the_highest_first(broker: LocalNode, version: str) -> None:
    """What says nothing has 4, what is beyond 9 is 9; of one priority the order of sending."""
    place = f"/queue/ranked.{version}"
    connection = VERSIONS[version]([("127.0.0.1", broker.stomp_port)])
    listener = Listener(PATIENCE_SECONDS)
    connection.set_listener("", listener)
    connection.connect("guest", "guest", wait=True)
    for body, said in (
        ("low", {"priority": "0"}),
        ("usual", {}),
        ("high", {"priority": "9"}),
        ("higher than there is", {"priority": "100"}),
        ("usual, too", {"priority": "4"}),
    ):
        connection.send(place, body, headers={"persistent": "true", "receipt": body, **said})
    assert [listener.next().headers["receipt-id"] for _ in range(5)][-1] == "usual, too"
    connection.subscribe(place, id="1", ack="auto")
    got = [listener.next() for _ in range(5)]
    bodies = [frame.body for frame in got]
    assert bodies == ["high", "higher than there is", "usual", "usual, too", "low"]
    assert [frame.headers["priority"] for frame in got] == ["9", "9", "4", "4", "0"]
    connection.disconnect()


def test_a_raw_socket_is_refused_what_is_no_number_and_goes_on(broker: LocalNode) -> None:
    """Its connection stays, and nothing is stored of that message."""
    client = StompSocket(broker.stomp_port, timeout_seconds=PATIENCE_SECONDS)
    with client:
        client.connect()
        answer = client.publish("/queue/ranked.raw", b"x", {"priority": "urgent"})
        assert answer.command == "ERROR"
        assert "priority" in answer.headers["message"]
        for body, priority in ((b"1", "1"), (b"8", "8")):
            said = {"priority": priority}
            assert client.publish("/queue/ranked.raw", body, said).command == "RECEIPT"
        subscribe = {"destination": "/queue/ranked.raw", "id": "1", "browser": "true"}
        client.send("SUBSCRIBE", subscribe)
        assert [client.read_message().body for _ in range(2)] == [b"8", b"1"]


def test_the_command_line_says_it(broker: LocalNode) -> None:
    """For each message that it sends."""
    uri = f"stomp://127.0.0.1:{broker.stomp_port}"
    for body, priority in (("low", "1"), ("high", "9")):
        run(broker, "send", "--uri", uri, "ranked.cli", body, "--priority", priority, "--quiet")
    received = run(broker, "receive", "--uri", uri, "ranked.cli", "--count", "2", "--quiet")
    assert received.split() == ["high", "low"]

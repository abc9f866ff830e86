"""
What topics keep for who comes later: by stomp.py and by a raw socket; the command line.
"""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from holdfast.testing.local_cluster import LocalNode
from tests.conformance.clients.test_headers import RawSpeaker, StompPySpeaker, nothing_waits

pytestmark = [pytest.mark.processes, pytest.mark.slow]

POLICY = "subscriptionRecoveryPolicy=fixedCountSubscriptionRecoveryPolicy"
ASKED = {"activemq.retroactive": "true"}
NUMBERS = itertools.count(1)


@pytest.fixture(params=[RawSpeaker, StompPySpeaker], ids=["raw", "stomp.py"])
def connect(request: pytest.FixtureRequest, broker: LocalNode) -> Iterator[Any]:
    """Makes connections of one kind, and closes what is left of them."""
    speakers: list[Any] = []

    def connected() -> Any:
        speakers.append(request.param(broker.stomp_port))
        return speakers[-1]

    yield connected
    for speaker in speakers:
        speaker.close()


@pytest.fixture
def place(broker: LocalNode) -> str:
    """A topic of its own that keeps three messages."""
    place = f"/topic/kept.{next(NUMBERS)}"
    run("queues", "set", place, POLICY, "recoveryMaximumCount=3", "--admin", broker.admin)
    return place


def publish(client: Any, place: str, *bodies: bytes) -> None:
    for body in bodies:
        client.send("SEND", {"destination": place, "receipt": "p"}, body)
        assert client.next().headers["receipt-id"] == "p"


def test_who_asks_gets_the_last_of_them_first(connect, place) -> None:
    """
    And then what comes; who does not ask gets that only.
    """
    sender, asking, other = connect(), connect(), connect()
    publish(sender, place, b"1", b"2", b"3", b"4")
    asking.send("SUBSCRIBE", {"id": "s", "destination": place, **ASKED})
    assert [asking.next().body for _ in range(3)] == [b"2", b"3", b"4"]
    other.send("SUBSCRIBE", {"id": "s", "destination": place, "receipt": "r"})
    assert other.next().headers["receipt-id"] == "r"
    publish(sender, place, b"5")
    assert [it.next().body for it in (asking, other)] == [b"5", b"5"]
    assert nothing_waits(asking)
    assert nothing_waits(other)


def test_each_comes_once_however_many_are_sent_meanwhile(connect, place) -> None:
    """
    Whenever somebody comes: what he gets has no gap, and nothing twice.
    """
    sender = connect()
    for number in range(60):
        sender.send("SEND", {"destination": place}, b"%d" % number)
        if number % 20 == 10:
            client = connect()
            client.send("SUBSCRIBE", {"id": "s", "destination": place, **ASKED})
    publish(sender, place, b"60")
    bodies = [client.next().body]
    while bodies[-1] != b"60":
        bodies.append(client.next().body)
    assert bodies == [b"%d" % it for it in range(int(bodies[0]), 61)]


def test_the_command_line_asks_for_it(broker: LocalNode, place: str) -> None:
    """
    `receive --retroactive`; what makes no sense is refused with what may be.
    """
    uri = f"stomp://127.0.0.1:{broker.stomp_port}"
    for body in ("1", "2"):
        run("send", "--uri", uri, place, body, "--quiet")
    told = run("receive", "--uri", uri, place, "--retroactive", "-n", "2", "--quiet")
    assert told == "1\n2\n"
    refused = done(
        "queues", "set", place, "subscriptionRecoveryPolicy=all", "--admin", broker.admin
    )
    assert refused.returncode == 1
    assert "lastImageSubscriptionRecoveryPolicy" in refused.stderr


def run(*arguments: str) -> str:
    ended = done(*arguments)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def done(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "holdfast", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)

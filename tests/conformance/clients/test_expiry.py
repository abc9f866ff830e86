"""
Messages that expire: stomp.py in each version, a raw socket, the command line.
"""

from __future__ import annotations

import subprocess
import sys
import time

import pytest

from holdfast.model.format_level import EXPIRY_LEVEL
from holdfast.testing.local_cluster import LocalNode
from tests.conformance.clients.stomp_py import VERSIONS, Listener
from trials.clients.stomp_socket import StompSocket

pytestmark = [pytest.mark.processes, pytest.mark.slow]

PATIENCE_SECONDS = 60
DEAD = "/queue/ActiveMQ.DLQ"


@pytest.fixture(autouse=True)
def at_the_level(broker: LocalNode) -> None:
    broker.wait_until(lambda status: status["format_level"] >= EXPIRY_LEVEL, "at the level")


def connected(broker: LocalNode) -> StompSocket:
    client = StompSocket(broker.stomp_port, timeout_seconds=PATIENCE_SECONDS)
    client.connect()
    return client


@pytest.mark.parametrize("version", list(VERSIONS))
@pytest.mark.parametrize("header", ["expires", "expiration"])
def test_stomp_py_is_told_when_it_expires_and_gets_what_has_not(
    broker: LocalNode, version: str, header: str
) -> None:
    """
    Q38: what is late already goes to the dead-letter queue, with the headers that ActiveMQ has.
    """
    place = f"/queue/mortal-{version}-{header}"
    now_ms = int(time.time() * 1000)
    value = now_ms + 600_000 if header == "expires" else 600_000
    connection = VERSIONS[version]([("127.0.0.1", broker.stomp_port)])
    listener = Listener(PATIENCE_SECONDS)
    connection.set_listener("", listener)
    connection.connect("guest", "guest", wait=True)
    stored = {"persistent": "true"}
    connection.send(place, "late", headers=stored | {"expires": str(now_ms - 1)})
    connection.send(place, "in time", headers=stored | {header: str(value)})
    connection.send(place, "for ever", headers=stored)
    connection.subscribe(place, id="1", ack="auto")
    first, second = listener.next(), listener.next()
    assert (first.body, second.body) == ("in time", "for ever")
    expires_ms = int(first.headers["expires"])
    assert now_ms + 600_000 <= expires_ms <= int(time.time() * 1000) + 600_000
    assert second.headers["expires"] == "0"
    with connected(broker) as client:
        client.send("SUBSCRIBE", {"id": "1", "destination": DEAD, "ack": "client-individual"})
        dead = client.read_message()
        assert client.acknowledge(dead).command == "RECEIPT"
    assert dead.body == b"late"
    assert dead.headers["original-destination"] == place
    assert dead.headers["originalExpiration"] == str(now_ms - 1)
    assert dead.headers["dlqDeliveryFailureCause"] == rf"Message Expired. Expiration\c{now_ms - 1}"
    connection.disconnect()


def test_the_command_line_sends_what_expires(broker: LocalNode) -> None:
    """
    Q34: behind one that lives long, with nobody there.
    """
    port = broker.stomp_port
    send = [sys.executable, "-m", "holdfast", "send", "--uri", f"stomp://127.0.0.1:{port}"]
    for seconds, body in (("600", "long"), ("0.2", "short")):
        command = [*send, "--ttl", seconds, "/queue/by-command", body]
        subprocess.run(command, check=True, capture_output=True)
    with connected(broker) as client:
        client.send("SUBSCRIBE", {"id": "1", "destination": DEAD, "ack": "client-individual"})
        dead = client.read_message()
        assert client.acknowledge(dead).command == "RECEIPT"
        client.send("SUBSCRIBE", {"id": "2", "destination": "/queue/by-command", "ack": "auto"})
        long = client.read_message()
    assert (dead.body, long.body) == (b"short", b"long")


@pytest.mark.parametrize("value", ["soon", "-1", "1e9"])
def test_a_time_that_is_none_is_refused_and_the_connection_lives(
    broker: LocalNode, value: str
) -> None:
    """
    With an ERROR that names the header.
    """
    with connected(broker) as client:
        for header in ("expires", "expiration"):
            headers = {"destination": "/queue/q", "persistent": "true", header: value}
            error = client.ask("SEND", headers)
            assert (error.command, error.headers["code"]) == ("ERROR", "refused")
            assert header in error.headers["message"]
        assert client.publish("/queue/q", b"x").command == "RECEIPT"

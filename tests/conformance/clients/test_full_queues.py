"""
Queues with limits: stomp.py in each version, a raw socket, the command line, our own library.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.client import connect
from holdfast.errors import QueueFullError
from holdfast.model.format_level import LIMITS_LEVEL
from holdfast.testing.local_cluster import LocalNode
from tests.conformance.clients.stomp_py import VERSIONS, Listener
from trials.clients.stomp_socket import StompSocket

pytestmark = [pytest.mark.processes, pytest.mark.slow]

PATIENCE_SECONDS = 60


@pytest.fixture(autouse=True)
def at_the_level(broker: LocalNode) -> None:
    broker.wait_until(lambda status: status["format_level"] >= LIMITS_LEVEL, "at the level")


def set_policy(broker: LocalNode, name: str, *values: str) -> None:
    command = [sys.executable, "-m", "holdfast", "queues", "set", f"queue://{name}", *values]
    subprocess.run([*command, "--admin", broker.admin], check=True, capture_output=True)


def connected(broker: LocalNode) -> StompSocket:
    client = StompSocket(broker.stomp_port, timeout_seconds=PATIENCE_SECONDS)
    client.connect()
    return client


@pytest.mark.parametrize("version", list(VERSIONS))
def test_stomp_py_is_told_that_a_queue_is_full(broker: LocalNode, version: str) -> None:
    """
    Q59, `reject`: an ERROR with the code and what to do; the connection lives, also in 1.0.
    """
    name = f"full-{version}"
    set_policy(broker, name, "maxLength=1")
    connection = VERSIONS[version]([("127.0.0.1", broker.stomp_port)])
    listener = Listener(PATIENCE_SECONDS)
    connection.set_listener("", listener)
    connection.connect("guest", "guest", wait=True)
    for number in range(2):
        headers = {"persistent": "true", "receipt": str(number)}
        connection.send(f"/queue/{name}", "x", headers=headers)
    told = {"receipt-id" in (it := listener.next()).headers and it.cmd: it for _ in range(2)}
    assert told["RECEIPT"].headers["receipt-id"] == "0"
    assert told["ERROR"].headers["receipt-id"] == "1"
    assert told["ERROR"].headers["code"] == "queue-full"
    assert "at most 1 (maxLength)" in told["ERROR"].headers["message"]
    connection.subscribe(f"/queue/{name}", id="1", ack="auto")
    assert listener.next().body == "x"
    connection.disconnect()


def test_a_socket_waits_with_block_until_it_has_made_room_itself(broker: LocalNode) -> None:
    """
    Q59, `block`: what is behind the SEND is served meanwhile.
    """
    set_policy(broker, "narrow", "maxLength=1", "overflow=block")
    with connected(broker) as client:
        assert client.publish("/queue/narrow", b"1").command == "RECEIPT"
        headers = {"destination": "/queue/narrow", "persistent": "true", "receipt": "2"}
        client.send("SEND", headers, b"2")
        client.subscribe("/queue/narrow")
        first = client.read_message()
        assert first.body == b"1"
        client.send("ACK", {"id": first.headers["ack"]})
        found = {client.read().command for _ in range(2)}
        assert found == {"RECEIPT", "MESSAGE"}


def test_with_drop_head_the_newest_are_there_and_the_oldest_are_dead(broker: LocalNode) -> None:
    """
    Q59, `drop-head`: a burst in one piece; the dead letters say why, `queues` how many.
    """
    set_policy(broker, "ring", "maxLength=3", "overflow=drop-head", "deadLetterOverflow=true")
    with connected(broker) as client:
        for number in range(200):
            headers = {"destination": "/queue/ring", "persistent": "true"}
            client.send("SEND", headers, b"%d" % number)
        client.send("BEGIN", {"transaction": "t"})
        client.send("COMMIT", {"transaction": "t", "receipt": "all"})
        assert client.read().headers["receipt-id"] == "all"
        client.subscribe("/queue/ring")
        assert [client.read_message().body for _ in range(3)] == [b"197", b"198", b"199"]
    with connected(broker) as client:
        client.subscribe("/queue/ActiveMQ.DLQ")
        dead = [client.read_message() for _ in range(197)]
    assert [it.body for it in dead] == [b"%d" % it for it in range(197)]
    assert {it.headers["dlqDeliveryFailureCause"] for it in dead} == {"maxlen"}


def test_the_library_says_what_to_do(broker: LocalNode) -> None:
    """
    An error of its own kind, with the broker's sentence.
    """
    set_policy(broker, "small", "maxLengthBytes=1000")

    async def run() -> None:
        async with connect(f"stomp://127.0.0.1:{broker.stomp_port}") as connection:
            with pytest.raises(QueueFullError, match="it will never have room for that"):
                await connection.send("/queue/small", b"x" * 2000)

    asyncio.run(run())


def test_the_command_line_says_it_too(broker: LocalNode, tmp_path: Path) -> None:
    """
    And leaves with an error.
    """
    set_policy(broker, "shut", "maxLength=1")
    command = [sys.executable, "-m", "holdfast", "send", "shut", "x", "--count", "2"]
    uri = f"stomp://127.0.0.1:{broker.stomp_port}"
    ended = subprocess.run(
        [*command, "--uri", uri], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert ended.returncode != 0
    assert "at most 1 (maxLength)" in ended.stderr + ended.stdout

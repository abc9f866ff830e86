"""
Composite destinations and mirrors from outside: stomp.py, a raw socket, our client, the command
line and a file with a mistake.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast.client import connect
from holdfast.testing.local_cluster import LocalNode
from tests.conformance.clients.stomp_py import VERSIONS, Listener
from tests.conformance.clients.test_several_destinations import PATIENCE_SECONDS, taken
from trials.clients.stomp_socket import StompSocket

pytestmark = [pytest.mark.processes, pytest.mark.slow]


def queues(broker: LocalNode, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "holdfast", "queues", *arguments, "--admin", broker.admin]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def forward(broker: LocalNode, pattern: str, *values: str) -> None:
    """Say what happens to what is sent to these."""
    done = queues(broker, "set", pattern, *values)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("version", list(VERSIONS))
def test_stomp_py_sends_to_one_and_all_get_it(broker: LocalNode, version: str) -> None:
    """
    Two queues, a topic, and one queue for those of which a selector is true.
    """
    name = f"all-{version}"
    parts = f"{name}.a, queue://{name}.b, topic://{name}, {name}.red when colour = 'red'"
    forward(broker, f"queue://{name}", f"forwardTo={parts}")
    connection = VERSIONS[version]([("127.0.0.1", broker.stomp_port)])
    listener = Listener(PATIENCE_SECONDS)
    connection.set_listener("", listener)
    connection.connect("guest", "guest", wait=True)
    connection.subscribe(f"/topic/{name}", id="1", ack="auto", receipt="yes")
    assert listener.next().headers["receipt-id"] == "yes"
    for body, colour in (("1", "red"), ("2", "blue")):
        headers = {"persistent": "true", "colour": colour}
        connection.send(f"/queue/{name}", body, headers=headers, receipt=f"sent-{body}")
        came = {it.headers.get("receipt-id", it.body) for it in (listener.next(), listener.next())}
        assert came == {f"sent-{body}", body}
    connection.disconnect()

    for queue in ("a", "b"):
        assert taken(broker, f"/queue/{name}.{queue}", 2) == [b"1", b"2"]
    assert taken(broker, f"/queue/{name}.red", 1) == [b"1"]


def test_a_raw_socket_sends_in_a_transaction_to_composites_and_others(broker: LocalNode) -> None:
    """
    Each queue has it once, whichever ways lead there; an abort leaves nothing anywhere.
    """
    forward(broker, "queue://raw", "forwardTo=raw.a, raw.b", "forwardOnly=false")
    forward(broker, "queue://raw.b", "forwardTo=raw.a, raw.c")
    with StompSocket(broker.stomp_port, timeout_seconds=PATIENCE_SECONDS) as client:
        client.connect()
        for end, body in (("ABORT", b"no"), ("COMMIT", b"yes")):
            client.send("BEGIN", {"transaction": "t"})
            headers = {"destination": "/queue/raw,/queue/raw.a,/queue/d", "persistent": "true"}
            client.send("SEND", {**headers, "transaction": "t"}, body)
            assert client.ask(end, {"transaction": "t"}).command == "RECEIPT"
    for queue in ("raw", "raw.a", "raw.c", "d"):
        assert taken(broker, f"/queue/{queue}", 1) == [b"yes"]


def test_a_mirror_shows_what_comes_and_takes_nothing(broker: LocalNode) -> None:
    """
    Q56: to who subscribes to its topic, by a wildcard too, and to a queue that consumes it.
    """
    forward(broker, "queue://seen.>", "mirrored=true")
    names = ["/topic/VirtualTopic.Mirror.seen.a", "/topic/VirtualTopic.Mirror.>"]

    async def run() -> list[bytes]:
        async with connect(broker.uri) as connection:
            async with connection.subscribe("/queue/Consumer.tap.VirtualTopic.Mirror.seen.a"):
                pass
            exact, wild = [connection.subscribe(name, acknowledge="auto") for name in names]
            async with exact, wild:
                await connection.send("/queue/seen.a", b"x")
                found: list[Any] = [await it.receive(PATIENCE_SECONDS) for it in (exact, wild)]
                return [it.body for it in found]

    assert asyncio.run(run()) == [b"x", b"x"]
    assert taken(broker, "/queue/seen.a", 1) == [b"x"]
    assert taken(broker, "/queue/Consumer.tap.VirtualTopic.Mirror.seen.a", 1) == [b"x"]


def test_a_topic_of_any_name_is_virtual_if_a_policy_says_so(broker: LocalNode) -> None:
    """
    With queues that are called as it says; a prefix that cannot be is refused.
    """
    values = ["virtualTopic=true", "virtualTopicPrefix=VTC.*."]
    forward(broker, "topic://prices.>", *values)
    with StompSocket(broker.stomp_port, timeout_seconds=PATIENCE_SECONDS) as client:
        client.connect()
        client.subscribe("/queue/VTC.app.prices.eu")
        assert client.publish("/topic/prices.eu", b"7").command == "RECEIPT"
        message = client.read_message()
        assert message.body == b"7"
        assert client.acknowledge(message).command == "RECEIPT"
    done = queues(broker, "set", "topic://prices.>", "virtualTopicPrefix=VTC*")
    assert done.returncode != 0
    assert "parts with dots between" in " ".join(done.stderr.split())


def test_the_command_line_tells_of_them_and_refuses_circles(broker: LocalNode) -> None:
    """
    With the places of the circle, and with the column of a selector that cannot be read.
    """
    forward(broker, "queue://cli", "forwardTo=cli.a when x = 1, topic://cli.b")
    told = json.loads(queues(broker, "show", "cli", "--json").stdout)
    keys = {it["key"]: (it["value"], it["source"]) for it in told["keys"]}
    assert keys["forwardTo"] == ("cli.a when x = 1, topic://cli.b", "set")
    assert keys["forwardOnly"] == ("true", "default")
    for values, why in (
        ("forwardTo=cli", "circle: /queue/cli.a → /queue/cli → /queue/cli.a"),
        ("forwardTo=x when y =", "column"),
        ("forwardTo=x.>", "wildcards"),
    ):
        done = queues(broker, "set", "queue://cli.a", values)
        assert done.returncode != 0
        assert why in done.stderr.replace("\n", " ")


def test_a_file_with_a_circle_is_refused_with_its_line(tmp_path: Path) -> None:
    """
    And with the key.
    """
    path = tmp_path / "node.toml"
    path.write_text(
        '[policies]\nrevision = 1\n[policies."queue://a"]\nforwardTo = ["b", "c when x > 1"]\n'
        '[policies."queue://b"]\nforwardTo = "a"\n[policies."queue://d"]\nforwardTo = "e when ("\n'
    )
    command = [sys.executable, "-m", "holdfast", "config", "check", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode != 0
    told = " ".join(f"{done.stdout} {done.stderr}".split())
    assert "circle: /queue/a → /queue/b → /queue/a (node.toml line 4)" in told
    assert "line 8" in told
    assert "forwardTo" in told

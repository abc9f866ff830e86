"""
What the broker says of itself, and is asked: stomp.py in each version, a raw socket, a failover.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from holdfast.testing.local_cluster import LocalCluster
from tests.conformance.clients.stomp_py import VERSIONS, Listener
from trials.clients.stomp_socket import StompSocket

pytestmark = [pytest.mark.processes, pytest.mark.slow]

PATIENCE_SECONDS = 60
PREFIX = "/topic/ActiveMQ.Advisory."


def test_who_listens_before_and_after_a_failover_knows_what_there_is(tmp_path: Path) -> None:
    """
    Each version of stomp.py is told of a raw socket that comes, sends and goes; under the next
    leader who subscribes is told of the queue that was made before.
    """
    with LocalCluster(tmp_path, "three") as cluster:
        cluster.start()
        leader = cluster.leader()
        for version, connect in VERSIONS.items():
            _hear(connect([("127.0.0.1", leader.stomp_port)]), version, leader.stomp_port)
            _ask(connect([("127.0.0.1", leader.stomp_port)]), version)
        leader.kill()
        with StompSocket(cluster.leader().stomp_port, timeout_seconds=PATIENCE_SECONDS) as client:
            client.connect()
            client.subscribe(f"{PREFIX}Queue", headers={"transformation": "jms-advisory-xml"})
            awaited = {f"made-{version}" for version in VERSIONS}
            while awaited:
                awaited.discard(client.read_message().headers["destinationName"])
        assert not [
            node
            for node in cluster.nodes.values()
            if "Traceback" in node.log_path.read_text(errors="replace")
        ]


def _hear(connection, version: str, port: int) -> None:
    listener = Listener(PATIENCE_SECONDS)
    connection.set_listener("", listener)
    connection.connect("guest", "guest", wait=True)
    queue = f"made-{version}"
    connection.subscribe(f"{PREFIX}>", id="1", ack="auto", headers={"receipt": "subscribed"})
    with StompSocket(port, timeout_seconds=PATIENCE_SECONDS) as client:
        client.connect()
        client.subscribe(f"/queue/{queue}")
        assert client.publish(f"/queue/{queue}", b"x").command == "RECEIPT"
        client.send("NACK", {"id": client.read_message().headers["ack"]})
        expected = {
            f"{PREFIX}Queue": ("DestinationInfo", "destination"),
            f"{PREFIX}Consumer.Queue.{queue}": ("ConsumerInfo", "destination"),
            f"{PREFIX}MessageDLQd.Queue.{queue}": ("ActiveMQMessage", "destination"),
        }
        while expected:
            frame = listener.next()
            name = frame.headers.get("destination")
            if name in expected and queue in frame.body:
                kind, key = expected.pop(name)
                assert json.loads(frame.body)[kind][key] == f"queue://{queue}"
                assert frame.headers["type"] == "Advisory"
    while True:
        frame = listener.next()
        if frame.headers["destination"] == f"{PREFIX}Consumer.Queue.{queue}":
            assert frame.headers["consumerCount"] == "0"
            break
    connection.disconnect()


def _ask(connection, version: str) -> None:
    listener = Listener(PATIENCE_SECONDS)
    connection.set_listener("", listener)
    connection.connect("guest", "guest", wait=True)
    connection.subscribe("/temp-queue/answers", id="1", ack="auto")
    headers = {"reply-to": "/temp-queue/answers", "correlation-id": version}
    name = f"/queue/ActiveMQ.Statistics.Destination.made-{version}"
    connection.send(name, "", headers=headers)
    frame = listener.next()
    assert frame.headers["correlation-id"] == version
    entries = json.loads(frame.body)["map"]["entry"]
    assert {"string": "enqueueCount", "long": 1} in entries
    assert {"string": ["destinationName", f"queue://made-{version}"]} in entries
    connection.disconnect()

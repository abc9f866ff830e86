"""
What clients of ActiveMQ send that no client of ours does, on the socket of a real node.

The rules themselves are tested in unit/sessions and conformance/stomp; here is shown that a node
serves by them, with its settings, its log, its metrics and the sockets' own ways.
"""

from __future__ import annotations

import urllib.request

import pytest

from holdfast.testing.local_cluster import LocalNode
from trials.clients.stomp_socket import StompSocket

pytestmark = [pytest.mark.processes, pytest.mark.slow]

ODD_FRAMES = (
    b"\x00\n\x00"
    b"SUBSCRIBE\nid:1\nack:client\ndestination: /queue/odd?consumer.prefetchSize=5 \n\n\n\x00"
    b"SEND\ndestination:/queue/odd \nflag\ncontent-length:4 \n\nbody\x00\x00\n"
    b"BEGIN\ntransaction:t\ncontent-length:7\n\n\x00"
    b"ABORT\ntransaction:t\nreceipt:odd\n\n\n\x00"
)
"""Everything ActiveMQ takes and the specification calls an error, as one client's first words."""

RESET = {
    "destination": "/queue/ActiveMQ.Statistics.Broker",
    "reply-to": "/queue/answers",
    "ActiveMQ.Statistics.Broker.Reset": "true",
}
"""A wish that would have to be ignored."""


def metrics(node: LocalNode) -> dict[str, float]:
    """The node's samples by name and labels."""
    with urllib.request.urlopen(f"http://{node.admin}/metrics", timeout=10) as answer:
        lines = answer.read().decode().splitlines()
    samples = (line.rpartition(" ") for line in lines if not line.startswith("#"))
    return {name: float(value) for name, _, value in samples}


def lines_about(node: LocalNode, *what: str) -> int:
    """How many lines of the log hold all of this."""
    lines = node.log_path.read_text(errors="replace").splitlines()
    return sum(all(each in line for each in what) for line in lines)


def test_an_existing_client_just_connects(start_cluster) -> None:
    """
    What other projects' suites send is served on one connection, which lives through all of it.
    """
    node = start_cluster().leader()
    for version in ("1.1", "1.2"):
        with StompSocket(node.stomp_port) as client:
            client.connect(version)
            path = b"path:C:\\temp\nflag" if version == "1.1" else b"flag"
            # What is not acknowledged comes back: each version has a queue of its own.
            queue = b"queue/odd.%b" % version.encode()
            client.write(ODD_FRAMES.replace(b"flag", path).replace(b"queue/odd", queue))
            frames = {client.read().command: None, client.read().command: None}
            assert set(frames) == {"RECEIPT", "MESSAGE"}
            assert client.ask("SEND", {"receipt": "none"}, b"x").headers["code"] == "missing-header"
            assert client.ask("ACK", {}).headers["code"] == "missing-header"
            assert client.publish("/queue/alive", b"x").command == "RECEIPT"
    assert {each["name"] for each in node.get("/queues")["queues"]} == {
        "odd.1.1",
        "odd.1.2",
        "alive",
    }


def test_a_strict_node_ends_where_the_specification_does(start_cluster) -> None:
    """
    The setting reaches the parser; the refusal names the rule.
    """
    node = start_cluster("single", "--stomp-strict").leader()
    with StompSocket(node.stomp_port) as client:
        client.connect("1.2")
        client.write(b"BEGIN\ntransaction:t\n\n\n\x00")
        assert client.read().headers["code"] == "body-not-allowed"
        with pytest.raises(ConnectionError):
            client.read()


def test_an_operator_sees_what_clients_are_refused(start_cluster) -> None:
    """
    Counted by code in metrics and status, and one line of the log for each connection.
    """
    node = start_cluster().leader()
    with StompSocket(node.stomp_port) as client, StompSocket(node.stomp_port) as broken:
        client.connect()
        address = f"127.0.0.1:{client.socket.getsockname()[1]}"
        for _ in range(3):
            client.ask("SEND", RESET)
        client.ask("SUBSCRIBE", {"destination": "/topic/ActiveMQ.Advisory.MasterBroker", "id": "1"})
        broken.connect()
        broken.write(b"NONSENSE\n\n\x00")
        assert broken.read().command == "ERROR"
    samples = metrics(node)
    assert samples['holdfast_refusals_total{code="not-served"}'] == 3
    assert samples['holdfast_refusals_total{code="destination"}'] == 1
    assert samples['holdfast_refusals_total{code="unknown-command"}'] == 1
    assert samples["holdfast_messages_refused_total"] == 5
    status = node.status()
    assert status is not None
    assert status["refusals"] == {"not-served": 3, "destination": 1, "unknown-command": 1}
    # The log is written by a thread of its own.
    node.wait_until(lambda _: lines_about(node, "NONSENSE") > 0, "telling of it in its log")
    assert lines_about(node, "client refused") == 2
    assert lines_about(node, "client refused", address, "not-served", "counters") == 1
    assert lines_about(node, "client refused", "unknown-command", "NONSENSE") == 1


def test_a_client_id_is_free_as_soon_as_its_socket_is_closed(start_cluster) -> None:
    """
    A client that comes back at once gets its name, and settles what it had; nobody else does.
    """
    node = start_cluster().leader()
    with StompSocket(node.stomp_port) as first:
        first.connect(client_id="mine")
        first.subscribe("/queue/a")
        first.publish("/queue/a", b"x")
        name = first.read_message().headers["message-id"]
        with StompSocket(node.stomp_port) as second:
            second.send("CONNECT", {"accept-version": "1.2", "host": "h", "client-id": "mine"})
            assert second.read().headers["code"] == "client-id-in-use"
            with pytest.raises(ConnectionError):
                second.read()
    with StompSocket(node.stomp_port) as stranger, StompSocket(node.stomp_port) as again:
        stranger.connect(client_id="other")
        assert stranger.ask("ACK", {"id": name}).headers["code"] == "unknown-delivery"
        again.connect(client_id="mine")
        assert again.ask("ACK", {"id": name}).command == "RECEIPT"

"""
Sockets that nobody authenticated: whoever opens them by the hundred takes nothing from anybody.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress

import pytest

from holdfast.environment.descriptors import raise_limit
from holdfast.testing.local_cluster import LocalNode
from trials.clients.stomp_socket import StompSocket

pytestmark = [pytest.mark.processes, pytest.mark.slow]

OPEN_FILES = 256
SOCKETS = 400
PATIENCE_SECONDS = 0.1
ASKED_MAX = 300
BODY = b"x" * 16_384


@contextmanager
def idle_sockets(port: int, count: int) -> Iterator[None]:
    """
    Connections on which nothing is ever said.

    A node of few files has a short backlog. What finds it full is begun anew: the kernel would ask
    again after a second, two, four, and a busy node might not have its port full in a minute.
    """
    with ExitStack() as stack:
        for _ in range(count):
            stack.enter_context(idle_socket(port))
        yield


def idle_socket(port: int) -> socket.socket:
    for _ in range(ASKED_MAX):
        with suppress(TimeoutError):
            return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE_SECONDS)
    raise AssertionError(f"port {port} takes nobody")


def publish(node: LocalNode, count: int) -> None:
    """A megabyte and more, each message confirmed, so that the log needs file after file."""
    with StompSocket(node.stomp_port) as client:
        client.connect()
        for number in range(count):
            answer = client.publish("/queue/honest", b"%05d" % number + BODY)
            assert answer.command == "RECEIPT"


def lines_about(node: LocalNode, what: str) -> int:
    return sum(what in line for line in node.log_path.read_text(errors="replace").splitlines())


def all_are_told(node: LocalNode, lines: list[str]) -> bool:
    return all(lines_about(node, what) for what in lines)


@pytest.mark.parametrize("topology", ["single", "three"])
def test_idle_sockets_on_every_port_take_no_file_from_the_log(start_cluster, topology: str) -> None:
    """
    256 open files, 400 idle connections to each port: the node serves its clients, says one line
    about each port, and nothing ends. Without the bounds the first new file of the log fails for
    want of a descriptor, and the node ends itself.
    """
    raise_limit()  # the test holds them all
    cluster = start_cluster(topology, open_files_max=OPEN_FILES, is_patient=True)
    leader = cluster.leader()
    ports = [leader.stomp_port, leader.admin_port]
    full = ["the client port is full", "the admin port is full"]
    if topology == "three":
        ports.append(leader.peer_port)
        full.append("too many connections prove nothing")
    with ExitStack() as stack:
        for port in ports:
            stack.enter_context(idle_sockets(port, SOCKETS))
        leader.wait_until(lambda _: all_are_told(leader, full), "full at every port")
        publish(leader, 100)
        assert leader.status() is not None
        assert cluster.leader() is leader
    publish(leader, 20)
    assert all(node.is_running for node in cluster.nodes.values())
    assert [lines_about(leader, what) for what in full] == [1] * len(full)
    assert lines_about(leader, "too few files may be open") == 1
    assert all(node.stop() == 0 for node in cluster.nodes.values())

"""
A port that accepts while the process has no file descriptor left: accept itself fails, EMFILE.

The ports are bounded below the limit, so that this should never be; but the limit is the system's,
and may be lowered, or reached by all processes together (ENFILE).
"""

from __future__ import annotations

import resource
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from holdfast.testing.local_cluster import LocalNode
from trials.clients.stomp_socket import StompSocket

pytestmark = [pytest.mark.processes, pytest.mark.slow]


def open_files(process: int) -> set[int]:
    return {int(path.name) for path in Path(f"/proc/{process}/fd").iterdir()}


@contextmanager
def no_descriptor_left(process: int) -> Iterator[None]:
    """Every file that the process would open from now on fails with EMFILE; open ones stay."""
    soft, hard = resource.prlimit(process, resource.RLIMIT_NOFILE)
    taken = open_files(process)
    lowest_free = next(number for number in range(soft) if number not in taken)
    resource.prlimit(process, resource.RLIMIT_NOFILE, (lowest_free, hard))
    try:
        yield
    finally:
        resource.prlimit(process, resource.RLIMIT_NOFILE, (soft, hard))


def wake(node: LocalNode, port: int, stack: ExitStack) -> socket.socket:
    """Connect, as far as the system does that without the process."""
    waiting = stack.enter_context(socket.create_connection(("127.0.0.1", port), timeout=10))
    assert node.is_running
    return waiting


@pytest.mark.parametrize("topology", ["single", "three"])
def test_accept_without_a_descriptor_ends_nobody(start_cluster, topology: str) -> None:
    """
    Each port is dialled while no descriptor is left. Clients that are connected are served
    meanwhile, and when there are descriptors again every port takes connections as before.
    """
    cluster = start_cluster(topology, is_patient=True)
    leader = cluster.leader()
    process = leader.pid
    ports = [leader.stomp_port, leader.admin_port]
    if topology == "three":
        ports.append(leader.peer_port)
    with StompSocket(leader.stomp_port) as client, ExitStack() as stack:
        client.connect()
        assert client.publish("/queue/q", b"before").command == "RECEIPT"
        with no_descriptor_left(process):
            files = open_files(process)
            for port in ports:
                wake(leader, port, stack)
            for number in range(200):
                assert client.publish("/queue/q", b"%d" % number).command == "RECEIPT"
            assert open_files(process) <= files  # Nobody was let in.
            assert len(leader.log_path.read_text(errors="replace").splitlines()) < 500
        assert client.publish("/queue/q", b"after").command == "RECEIPT"
        leader.wait_until(lambda status: status["serving"], "its admin port answers again")
        with StompSocket(leader.stomp_port) as other:
            other.connect()
            assert other.publish("/queue/q", b"other").command == "RECEIPT"
    assert cluster.leader() is leader
    assert all(node.stop() == 0 for node in cluster.nodes.values())

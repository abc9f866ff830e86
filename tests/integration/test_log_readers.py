"""
Many who read the log of one node at once, and some who ask and then do not read.
"""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack
from http.client import HTTPConnection

import pytest

from holdfast.admin.reader_slots import LEADER_SLOTS
from holdfast.spark.log.client import RemoteLog
from holdfast.spark.log.entry_block import EntryBlock
from holdfast.testing.local_cluster import LocalNode
from trials.clients.stomp_socket import StompSocket

pytestmark = [pytest.mark.processes, pytest.mark.slow]

BODY = b"x" * (1 << 20)
BODIES = 12
"""More together than the buffers of a socket hold."""


def status_of(node: LocalNode, path: str) -> int:
    connection = HTTPConnection(node.admin, timeout=10)
    connection.request("GET", path, headers=node.proof())
    answer = connection.getresponse()
    answer.read()
    connection.close()
    return answer.status


def ask_and_leave_it(node: LocalNode) -> socket.socket:
    """Ask for much, and read nothing of it."""
    asking = socket.create_connection((node.host, node.admin_port))
    lines = [f"{name}: {value}" for name, value in node.proof().items()]
    head = ["GET /log?from=1&bytes=60000000 HTTP/1.1", f"Host: {node.admin}", *lines, "", ""]
    asking.sendall("\r\n".join(head).encode())
    return asking


def test_readers_that_do_not_read_are_as_many_as_there_are_slots(start_cluster) -> None:
    """
    The next one is told to come later, clients are served, and once they are gone all is read.
    """
    node = start_cluster("single").leader()
    with StompSocket(node.stomp_port) as client:
        client.connect()
        for _ in range(BODIES):
            assert client.publish("/queue/large", BODY).command == "RECEIPT"
        with ExitStack() as stack:
            for _ in range(LEADER_SLOTS):
                stack.enter_context(ask_and_leave_it(node))
            deadline = time.monotonic() + 10
            while status_of(node, "/log?from=1") != 429:
                assert time.monotonic() < deadline, "nobody is told to come later"
            assert status_of(node, "/log/position") == 200
            assert client.publish("/queue/large", BODY).command == "RECEIPT"
    log = RemoteLog((node.admin,))
    last = log.position().last_index
    blocks = list(log.blocks(1, last))
    assert all(isinstance(block, EntryBlock) for block in blocks)
    assert blocks[-1].last_index == last

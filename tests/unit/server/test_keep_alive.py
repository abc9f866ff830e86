"""
Sockets whose other end is gone without a word.
"""

from __future__ import annotations

import asyncio
import socket

import uvloop

from holdfast.server.connection import ClientConnection
from holdfast.server.keep_alive import (
    AGAIN_SECONDS,
    ASKED_COUNT_MAX,
    IDLE_SECONDS,
    keep_alive,
)


def test_the_kernel_asks_clients_whether_they_are_there(node) -> None:
    """
    A client without heart-beats whose machine has died kept its messages for ever.
    """

    async def opened_options() -> list[int]:
        listening = socket.create_server(("127.0.0.1", 0))
        with listening, socket.create_connection(listening.getsockname()):
            accepted, _ = listening.accept()
            transport, _ = await asyncio.get_running_loop().create_connection(
                lambda: ClientConnection(node.conductor), sock=accepted
            )
            opened = transport.get_extra_info("socket")
            asked = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
            found = [opened.getsockopt(socket.IPPROTO_TCP, each) for each in asked]
            transport.abort()
            return [opened.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE), *found]

    assert uvloop.run(opened_options()) == [1, IDLE_SECONDS, AGAIN_SECONDS, ASKED_COUNT_MAX]


def test_a_socket_that_is_closed_already_is_left_alone() -> None:
    """
    Its connection is told so by the loop.
    """
    opened = socket.socket()
    opened.close()
    keep_alive(opened)

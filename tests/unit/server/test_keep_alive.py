"""
Sockets whose other end is gone without a word.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from contextlib import suppress

import pytest
import uvloop

from holdfast.server.connection import ClientConnection
from holdfast.server.keep_alive import (
    AGAIN_SECONDS,
    ASKED_COUNT_MAX,
    IDLE_SECONDS,
    SILENT_SECONDS,
    has_vanished,
    keep_alive,
)


class ToldSocket:
    """A socket of which the kernel tells what a test says, in places of `struct tcp_info`."""

    def __init__(self, *, sent_again: int = 0, asked: int = 0, silent_seconds: float) -> None:
        self.told = bytearray(104)
        self.told[2], self.told[3] = sent_again, asked
        struct.pack_into("=I", self.told, 56, int(silent_seconds * 1000))

    def getsockopt(self, _level: int, _name: int, size: int) -> bytes:
        return bytes(self.told[:size])


class Closing(asyncio.Protocol):
    """Tells when its transport has closed."""

    def __init__(self) -> None:
        self.closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self.closed.set_result(None)


def test_the_kernel_asks_clients_whether_they_are_there(node) -> None:
    """
    A client without heart-beats whose machine has died kept its messages for ever.
    """

    async def opened_options() -> list[int]:
        listening = socket.create_server(("127.0.0.1", 0))
        with listening, socket.create_connection(listening.getsockname()):
            accepted, _ = listening.accept()
            transport, _ = await asyncio.get_running_loop().create_connection(
                lambda: ClientConnection(node.conductor.clients), sock=accepted
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


def test_who_answers_nothing_that_is_sent_is_gone_as_well(node) -> None:
    """
    The kernel does not ask while something is on its way: a dead consumer kept all it had been
    delivered for a quarter of an hour.
    """
    node.serve()
    lost, other = node.connect(), node.connect()
    lost.transport.opened = ToldSocket(sent_again=9, silent_seconds=SILENT_SECONDS)
    other.transport.opened = ToldSocket(sent_again=9, silent_seconds=SILENT_SECONDS - 1)
    node.conductor.tick()
    assert not lost.transport.is_aborted
    node.clock.now += AGAIN_SECONDS + 1
    node.conductor.tick()
    assert (lost.transport.is_aborted, other.transport.is_aborted) == (True, False)


@pytest.mark.parametrize(
    "known",
    [
        ToldSocket(silent_seconds=10 * SILENT_SECONDS),  # Nothing is on its way.
        ToldSocket(sent_again=1, silent_seconds=SILENT_SECONDS),
        ToldSocket(asked=1, silent_seconds=SILENT_SECONDS),  # Asked every two minutes.
        ToldSocket(sent_again=3, asked=3, silent_seconds=1),
    ],
)
def test_who_may_be_there_is_left_alone(known: ToldSocket) -> None:
    """
    Also who reads nothing for hours: it answers that it has no room.
    """
    assert not has_vanished(known)


def test_the_kernel_tells_it_in_these_places() -> None:
    """
    Of a client that answers and does not read, milliseconds ago.
    """
    with (
        socket.create_server(("127.0.0.1", 0)) as listening,
        socket.create_connection(listening.getsockname()),
        listening.accept()[0] as accepted,
    ):
        accepted.setblocking(False)
        with suppress(BlockingIOError):
            accepted.sendall(b"x" * (64 << 20))
        told = accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
        assert not has_vanished(accepted)
    silent_milliseconds = struct.unpack_from("=I", told, 56)[0]
    assert told[0] == 1, "established"
    assert silent_milliseconds < SILENT_SECONDS * 1000


def test_a_closed_socket_tells_nothing() -> None:
    """
    The loop knows of it.
    """
    opened = socket.socket()
    opened.close()
    assert not has_vanished(opened)

    async def of_closed_transport() -> bool:
        listening = socket.create_server(("127.0.0.1", 0))
        with listening, socket.create_connection(listening.getsockname()):
            loop = asyncio.get_running_loop()
            transport, protocol = await loop.create_connection(Closing, sock=listening.accept()[0])
            known = transport.get_extra_info("socket")
            transport.abort()
            await protocol.closed
            return has_vanished(known)

    assert not uvloop.run(of_closed_transport())

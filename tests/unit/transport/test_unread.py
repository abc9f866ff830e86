"""
Whether anything has come that nobody has read yet.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Any

from holdfast.transport.unread import UNREAD, holds_unread


class Told(asyncio.BaseTransport):
    """A transport that tells what a test says."""

    def __init__(self, **told: object) -> None:
        super().__init__(told)

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        found: Any = super().get_extra_info(name, default)
        return found


def test_a_byte_in_the_socket_is_unread_and_its_end_is_nothing() -> None:
    """It is looked at, and stays there for whoever reads."""
    here, there = socket.socketpair()
    with here:
        transport = Told(socket=here)
        with there:
            assert not holds_unread(transport)
            there.send(b"x")
            assert holds_unread(transport)
            assert here.recv(8) == b"x"
        assert not holds_unread(transport)
    assert not holds_unread(transport)


def test_what_a_transport_keeps_by_itself_is_unread() -> None:
    """By TLS it may have been taken from the socket, and wait to be decrypted."""
    assert holds_unread(Told(**{UNREAD: True}))
    assert not holds_unread(Told())

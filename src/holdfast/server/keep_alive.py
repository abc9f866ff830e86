"""
Clients without heart-beats whose machine or cable is gone: the kernel asks whether they are there.

Nothing is ever heard of such a client, and where its window is full nothing is sent to it. It would
keep its deliveries from everybody, and its client-id from itself, for ever. A client that lives and
does not read answers the kernel's question, and is left alone.
"""

from __future__ import annotations

import contextlib
import socket
from typing import Any, Final

IDLE_SECONDS: Final = 60
"""Silence after which the kernel asks."""

AGAIN_SECONDS: Final = 15
"""How long it waits for an answer before it asks once more."""

ASKED_COUNT_MAX: Final = 4
"""Questions without an answer that end the connection."""

_OPTIONS: Final = (
    (socket.SOL_SOCKET, "SO_KEEPALIVE", 1),
    (socket.IPPROTO_TCP, "TCP_KEEPIDLE", IDLE_SECONDS),
    (socket.IPPROTO_TCP, "TCP_KEEPINTVL", AGAIN_SECONDS),
    (socket.IPPROTO_TCP, "TCP_KEEPCNT", ASKED_COUNT_MAX),
)


def keep_alive(opened: Any) -> None:
    """Have a socket ended, after two minutes, whose other end does not answer any more."""
    for level, name, value in _OPTIONS:
        option = getattr(socket, name, None)
        if option is not None:
            with contextlib.suppress(OSError):  # It is closed already, or no TCP.
                opened.setsockopt(level, option, value)

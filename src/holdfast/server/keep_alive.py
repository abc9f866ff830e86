"""
Clients without heart-beats whose machine or cable is gone: the kernel asks whether they are there.

Nothing is ever heard of such a client, and where its window is full nothing is sent to it. It would
keep its deliveries from everybody, and its client-id from itself, for ever. A client that lives and
does not read answers the kernel's question, and is left alone.

While something is on its way to a client the kernel does not ask: it sends that again, for a
quarter of an hour. So it is looked here whether any of that was answered.
"""

from __future__ import annotations

import contextlib
import socket
import struct
import sys
from typing import Any, Final

IDLE_SECONDS: Final = 60
"""Silence after which the kernel asks."""

AGAIN_SECONDS: Final = 15
"""How long it waits for an answer before it asks once more."""

ASKED_COUNT_MAX: Final = 4
"""Questions without an answer that end the connection."""

SILENT_SECONDS: Final = IDLE_SECONDS + AGAIN_SECONDS * ASKED_COUNT_MAX
"""Whoever has answered nothing for so long is gone."""

_UNANSWERED_COUNT_MIN: Final = 2
"""Of who does not read the kernel asks less and less often, in the end every two minutes."""

_TCP_INFO: Final = struct.Struct("=2xBB52xI")
"""Linux, `struct tcp_info`: times that something was sent again, questions about room since the
last answer, and milliseconds since that."""

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


def has_vanished(opened: Any) -> bool:
    """Whether what is on its way to the other end of a socket was not answered for so long."""
    if sys.platform != "linux":
        return False
    try:
        told = opened.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _TCP_INFO.size)
    except (OSError, ValueError):
        return False  # It is closed already, or no TCP.
    if len(told) < _TCP_INFO.size:
        return False
    sent_again_count, asked_count, silent_milliseconds = _TCP_INFO.unpack(told)
    unanswered_count: int = max(sent_again_count, asked_count)
    is_silent: bool = silent_milliseconds >= SILENT_SECONDS * 1000
    return is_silent and unanswered_count >= _UNANSWERED_COUNT_MIN

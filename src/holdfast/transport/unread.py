"""
Whether something has come on a connection that nobody has read yet.

A loop that was stopped, or has ten thousand others to read, hears of what has come later than it
hears of the time that is up. Silence is the other end's only if nothing of it waits here.
"""

from __future__ import annotations

import asyncio
import fcntl
import struct
import termios
from typing import Final

UNREAD: Final = "holdfast.unread"
"""Of which a transport with a buffer of its own tells whether there is anything in it."""

_COUNT: Final = struct.Struct("=i")


def holds_unread(transport: asyncio.BaseTransport) -> bool:
    """Whether anything is left to be read; the end of a connection is nothing."""
    if transport.get_extra_info(UNREAD):
        return True
    opened = transport.get_extra_info("socket")
    if opened is None:
        return False
    try:
        told = fcntl.ioctl(opened.fileno(), termios.FIONREAD, bytes(_COUNT.size))
    except (OSError, ValueError):
        return False  # It is closed already.
    return bool(_COUNT.unpack(told)[0])

"""
What somebody answers at an admin port, before anybody knows who that is.

Any user of a machine can listen where a node is stopped, and answer as he likes: a byte now and
then, JSON without end or bottom, an object without what a node has in it. Whoever asks waits so
long for the whole answer and no longer, and ends with a sentence that says who answered so.

Invariants:
    An answer that does not come on ends, whatever comes of it: a large one may take longer by what
    has come of it, at `BYTES_A_SECOND_MIN`, and by no more than `ANSWER_BYTES_MAX` of that.

Blocking.
"""

from __future__ import annotations

import io
import json
import socket
import time
from contextlib import suppress
from http.client import HTTPResponse
from typing import Any, Final

from holdfast.model.limits import KiB, MiB

ANSWER_BYTES_MAX: Final = 64 * MiB
BYTES_A_SECOND_MIN: Final = 32 * KiB
"""A quarter of a megabit; a node sends what it has at once."""

_SECONDS: Final = 60.0
"""For who has said nothing of how long he waits."""


class BoundedResponse(HTTPResponse):
    """An answer that ends in time; a connection takes it as its `response_class`."""

    def __init__(self, sock: socket.socket, *more: Any, **named: Any) -> None:
        """Read it from here; the socket's own time-out is what is waited for its first byte."""
        super().__init__(sock, *more, **named)
        self.fp.close()
        self.fp = io.BufferedReader(_Bounded(sock))


class _Bounded(io.RawIOBase):
    """What comes by a socket, for so long."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._raw = sock.makefile("rb", buffering=0)
        self._seconds = sock.gettimeout() or _SECONDS
        self._until = time.monotonic() + self._seconds
        self._count = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        """
        Take what has come.

        Raises:
            TimeoutError: It has taken too long.
        """
        more = min(self._count, ANSWER_BYTES_MAX) / BYTES_A_SECOND_MIN
        left = self._until + more - time.monotonic()
        if left <= 0:
            raise TimeoutError("the answer did not come to its end in time")
        self._sock.settimeout(min(left, self._seconds))
        count = self._raw.readinto(buffer)
        self._count += count or 0
        return count

    def close(self) -> None:
        with suppress(OSError):
            self._sock.settimeout(self._seconds)  # For what is asked next on the connection.
        self._raw.close()
        super().close()


def read_object(data: bytes) -> dict[str, Any]:
    """
    Read an answer's JSON.

    Raises:
        ValueError: It is no object, or none that can be read.
    """
    try:
        value = json.loads(data)
    except RecursionError:
        raise ValueError("what is in one another goes too deep") from None
    if not isinstance(value, dict):
        raise ValueError(f"an object was expected, not {type(value).__name__}")
    return value

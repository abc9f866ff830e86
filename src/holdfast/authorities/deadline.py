"""
An end to talking with somebody, whatever he sends meanwhile.

The time-out of a socket is for each read: who sends a byte a second is never too late by it. So
when all the time is over the connection is shut down under whoever reads, and an error tells him.

Invariants:
    What is watched is shut down once the time is over, also what is watched only then.
    Nothing is left of it afterwards, neither a thread nor a descriptor.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from typing import Self


class Deadline:
    """Ends some connections after so many seconds; use as a context manager."""

    def __init__(self, seconds: float) -> None:
        self._lock = threading.Lock()
        self._watched: list[socket.socket] = []
        self._timer = threading.Timer(seconds, self._end)
        self._timer.daemon = True
        self.is_over = False
        """The time is over."""

    def __enter__(self) -> Self:
        self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._timer.cancel()
        with self._lock:
            for each in self._watched:
                each.close()
            self._watched.clear()

    def watch(self, connected: socket.socket) -> None:
        """
        Watch a connection, which may be handed to TLS afterwards.

        Raises:
            OSError: There is no descriptor left.
        """
        with self._lock:
            self._watched.append(connected.dup())
        if self.is_over:
            self._end()

    def _end(self) -> None:
        self.is_over = True
        with self._lock:
            for each in self._watched:
                with suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)

"""
Which connections a port takes, and which one goes when it is full.

A socket costs whoever opens it nothing, and each takes a file descriptor from the log. So every
port has a bound. Beyond it the oldest connection that has not said who it is makes room for the new
one: silent sockets, however many, keep nobody out who speaks. Where all have spoken, the new one is
closed.

Invariants:
    Never more than `count_max` connections are inside.
    A connection that has said who it is is never closed for another.

Pure: told of connections and of the time, it says which one is to be closed. Owned by the loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, Generic, TypeVar

TELL_SECONDS: Final = 60.0
"""A full port is told of at most once in this time, with the number of those turned away."""

logger = logging.getLogger("holdfast.transport")

T = TypeVar("T")


class Admission(Generic[T]):
    """The connections inside one port."""

    __slots__ = ("_inside", "_is_known", "_silent", "_told_at", "count_max", "port", "turned_away")

    def __init__(self, port: str, count_max: int, is_known: Callable[[T], bool]) -> None:
        """
        Make a port with nobody inside.

        Args:
            port: What it is called in the log: "client".
            is_known: Whether a connection has said who it is; once true it stays so.
        """
        self.port = port
        self.count_max = count_max
        self.turned_away = 0
        """Connections closed because the port was full, since the start."""
        self._is_known = is_known
        self._inside: dict[T, None] = {}
        self._silent: dict[T, None] = {}
        self._told_at: float | None = None

    def __len__(self) -> int:
        return len(self._inside)

    def enter(self, connection: T, now: float) -> T | None:
        """
        Take a new connection; `now` in seconds of the monotonic clock.

        Returns:
            The one to close: an older one that was silent, or the new one itself. None: nobody.
        """
        leaving = None
        if len(self._inside) >= self.count_max:
            self.turned_away += 1
            self._tell(now)
            leaving = self._oldest_silent()
            if leaving is None:
                return connection
            del self._inside[leaving]
        self._inside[connection] = None
        self._silent[connection] = None
        return leaving

    def leave(self, connection: T) -> None:
        """Forget a connection that is gone; fine if it is not inside."""
        self._inside.pop(connection, None)
        self._silent.pop(connection, None)

    def clear(self) -> None:
        """Forget all: the port was closed."""
        self._inside.clear()
        self._silent.clear()

    def _oldest_silent(self) -> T | None:
        # Who has spoken meanwhile is dropped from the list here, not when it speaks: that is when
        # messages come, and this is not.
        while self._silent:
            oldest = next(iter(self._silent))
            del self._silent[oldest]
            if not self._is_known(oldest):
                return oldest
        return None

    def _tell(self, now: float) -> None:
        if self._told_at is None or now - self._told_at >= TELL_SECONDS:
            self._told_at = now
            logger.warning(
                "the %s port is full with %d connections: the oldest silent ones are closed, and"
                " new ones if none is silent; %d closed so far",
                self.port,
                self.count_max,
                self.turned_away,
            )

"""
Which connections a port takes, and which one goes when it is full.

A socket costs whoever opens it nothing, and each takes a file descriptor from the log. So every
port has a bound. Beyond it the oldest connection that has not said who it is makes room for the new
one: silent sockets, however many, keep nobody out who speaks. Where all have spoken, one that does
nothing goes, of the sources that have the most; and where nobody is idle, the new one is closed.

Invariants:
    Never more than `count_max` connections are inside.
    A connection that has said who it is and does something is never closed for another.
    What it costs to find one is bounded, however many are inside and however many come.

Pure: told of connections and of the time, it says which one is to be closed. Owned by the loop.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from heapq import nlargest
from typing import Final, Generic, TypeVar

from holdfast.transport.inside import Inside, NowAndThen

LOOK_SECONDS: Final = 0.01
"""How often an idle connection is looked for at most."""

LOOKED_AT_MAX: Final = 64
"""So many are asked each time whether they are idle, others the next time."""

_OF_SOURCE_MAX: Final = 16

logger = logging.getLogger("holdfast.transport")

T = TypeVar("T")


class Admission(Generic[T]):
    """The connections inside one port."""

    __slots__ = (
        *("_inside", "_is_idle", "_is_known", "_looked_at", "_silent", "_source_of", "_telling"),
        *("count_max", "port", "turned_away"),
    )

    def __init__(
        self,
        port: str,
        count_max: int,
        is_known: Callable[[T], bool],
        *,
        is_idle: Callable[[T, float], bool] = lambda *_: False,
        source_of: Callable[[T], str] = lambda _: "",
    ) -> None:
        """
        Make a port with nobody inside.

        Args:
            port: What it is called in the log: "client".
            is_known: Whether a connection has said who it is; once true it stays so.
            is_idle: Whether one that has said so does nothing at this time.
            source_of: Where a connection is from; asked once.
        """
        self.port = port
        self.count_max = count_max
        self.turned_away = 0
        """Connections closed because the port was full, since the start."""
        self._is_known = is_known
        self._is_idle = is_idle
        self._source_of = source_of
        self._inside = Inside[T]()
        """By source, whoever was asked longest ago first."""
        self._looked_at: float | None = None
        self._silent: dict[T, None] = {}
        self._telling = NowAndThen()

    def __len__(self) -> int:
        return len(self._inside)

    def enter(self, connection: T, now: float) -> T | None:
        """
        Take a new connection; `now` in seconds of the monotonic clock.

        Returns:
            The one to close: an older one that was silent or is idle, or the new one itself. None:
            nobody.
        """
        leaving = None
        if len(self._inside) >= self.count_max:
            self.turned_away += 1
            self._tell(now)
            leaving = self._oldest_silent()
            if leaving is None:
                leaving = self._idle(now)
            if leaving is None:
                return connection
            self.leave(leaving)
        self._inside.put(connection, self._source_of(connection))
        self._silent[connection] = None
        return leaving

    def leave(self, connection: T) -> None:
        """Forget a connection that is gone; fine if it is not inside."""
        self._silent.pop(connection, None)
        self._inside.leave(connection)

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

    def _idle(self, now: float) -> T | None:
        """Find one that does nothing, of the sources that have the most connections first."""
        if self._looked_at is not None and now - self._looked_at < LOOK_SECONDS:
            return None
        self._looked_at = now
        left, sources = LOOKED_AT_MAX, self._inside.by_group
        for source in nlargest(LOOKED_AT_MAX, sources, key=self._inside.count):
            of_source = sources.pop(source)
            sources[source] = of_source  # Among equals another one is first next time.
            for _ in range(min(left, len(of_source), _OF_SOURCE_MAX)):
                left -= 1
                connection = next(iter(of_source))
                if self._is_idle(connection, now):
                    return connection
                of_source[connection] = of_source.pop(connection)
            if not left:
                break
        return None

    def _tell(self, now: float) -> None:
        if self._telling.is_due(now):
            logger.warning(
                "the %s port is full with %d connections: the oldest silent ones are closed, then"
                " idle ones, and new ones if there is none; %d closed so far",
                self.port,
                self.count_max,
                self.turned_away,
            )

"""
Frames that stand still: begun, and then nothing, or next to nothing, comes of the rest.

What there is of one is kept until its last byte is there. A client that withholds that would hold
its share of the memory for as long as it likes: its heart-beats are due only between frames where
it has asked for any at all. So a frame has to come on, by little enough for the slowest of links.

All are passed once a second at most, some in each tick. That a frame is another one than a second
ago its session tells by a number, so those who send small ones all the time are never taken for
somebody who stands still.

Invariants:
    Time in which a connection is not read, or something of it waits here, is not its own.

Owned by the loop.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Final, NamedTuple

from holdfast.model.limits import KiB
from holdfast.server.connection import ClientConnection

UNFINISHED_TOO_LONG: Final = "unfinished-too-long"

PROGRESS_BYTES: Final = KiB
"""So much has to come of a frame in the time that it may stand still, or its end."""

LOOK_SECONDS: Final = 1.0
_LOOKED_AT_PER_STEP: Final = 128


class _Seen(NamedTuple):
    """How far a frame was."""

    number: int
    size: int
    at: float


class StandingFrames:
    """Watches whose frames come on."""

    __slots__ = ("_began_at", "_left", "_seconds_max", "_seen", "_sizes")

    def __init__(self, sizes: Mapping[ClientConnection, int], seconds_max: float) -> None:
        """Watch those whose `sizes` are counted; each may stand still for so long."""
        self._sizes = sizes
        self._seconds_max = seconds_max
        self._seen: dict[ClientConnection, _Seen] = {}
        self._left: Iterator[ClientConnection] = iter(())
        self._began_at: float | None = None

    def look(self, now: float) -> list[tuple[ClientConnection, str]]:
        """Go on with a round; gives whom to close, with the sentence that says why."""
        looked_at = list(islice(self._left, _LOOKED_AT_PER_STEP))
        if not looked_at and (self._sizes or self._seen):
            looked_at = self._begin(now)
        return [
            (connection, why)
            for connection in looked_at
            if (why := self._judge(connection, now)) is not None
        ]

    def _begin(self, now: float) -> list[ClientConnection]:
        if self._began_at is not None and now - self._began_at < LOOK_SECONDS:
            return []
        self._began_at = now
        self._seen = {it: seen for it, seen in self._seen.items() if it in self._sizes}
        self._left = iter(list(self._sizes))
        return list(islice(self._left, _LOOKED_AT_PER_STEP))

    def _judge(self, connection: ClientConnection, now: float) -> str | None:
        size = self._sizes.get(connection)
        if size is None:
            return None  # Its end has come meanwhile.
        number, seen = connection.session.frame_number, self._seen.get(connection)
        if (
            seen is None
            or seen.number != number
            or not 0 <= size - seen.size < PROGRESS_BYTES
            or connection.is_paused
        ):
            self._seen[connection] = _Seen(number, size, now)
            return None
        if now - seen.at < self._seconds_max:
            return None
        self._seen[connection] = seen._replace(at=now)
        if connection.has_unread or connection.is_lost:
            return None
        return (
            f"of a frame that was begun {size:,} bytes are here, and less than"
            f" {PROGRESS_BYTES:,} of them came in the last {self._seconds_max:g} s; send it again,"
            f" as a whole"
        )

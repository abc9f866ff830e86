"""
SENDs of one connection for which there is no room now: set aside while the rest is served.

A client has one stream. Were it not read while a SEND waits, the ACK or the SUBSCRIBE behind it,
which would make the room, would wait as well; two clients that publish to each other could wait for
each other for ever. So what waits is set aside, in its order, and everything else goes on. What may
be set aside is bounded in bytes and in time: a SEND that has waited too long is refused, and so is
each after it until there is room. So nobody waits for ever, whatever the others do.

Owned by its session.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from holdfast.broker.settings import BrokerSettings
from holdfast.protocols.stomp.frames import Frame, SendFrame
from holdfast.sessions.context import SessionContext

_FRAME_BYTES: Final = 400
"""What a frame costs beside its body."""


class WaitingSends:
    """What is set aside, oldest first; a DISCONNECT behind it waits as well."""

    __slots__ = ("_context", "_frames", "_settings", "bytes", "is_refusing", "places")

    def __init__(self, context: SessionContext, settings: BrokerSettings) -> None:
        self._settings = settings
        self._context = context
        self._frames: deque[tuple[float, SendFrame | Frame]] = deque()
        self.bytes = 0
        self.places: set[object] = set()
        """The destinations and the producers of what waits: what is sent there, or by them, too
        goes behind it."""
        self.is_refusing = False
        """One has waited too long: those that find no room are refused at once."""

    def __bool__(self) -> bool:
        return bool(self._frames)

    @property
    def is_full(self) -> bool:
        """Whether the connection is not to be read for now."""
        return self.bytes > self._settings.waiting_bytes_max

    @property
    def is_allowed(self) -> bool:
        """Whether one more without room may wait."""
        return not self.is_refusing and self.has_place

    @property
    def has_place(self) -> bool:
        """Whether one more may be set aside: all clients' share a bound."""
        return self._context.waiting_bytes <= self._settings.waiting_total_bytes_max

    def holds(self, place: object, producer_id: str | None) -> bool:
        """Whether something waits that was sent there before, or has an earlier number."""
        return place in self.places or producer_id in self.places

    def add(self, frame: SendFrame | Frame, *places: object) -> None:
        """Set a frame aside; what is sent to these places later goes behind it."""
        self._frames.append((self._context.now, frame))
        size = _size(frame)
        self.bytes += size
        self._context.waiting_bytes += size
        self.places.update(places)

    def first(self) -> SendFrame | Frame:
        """Give the oldest, and leave it."""
        return self._frames[0][1]

    @property
    def is_late(self) -> bool:
        """Whether the oldest has waited too long."""
        return self._context.now - self._frames[0][0] > self._settings.send_wait_seconds_max

    def remove_first(self) -> None:
        """Take the oldest away."""
        size = _size(self._frames.popleft()[1])
        self.bytes -= size
        self._context.waiting_bytes -= size
        if not self._frames:
            self.places.clear()

    def clear(self) -> None:
        """Forget all of it: the connection is gone."""
        while self._frames:
            self.remove_first()


def _size(frame: SendFrame | Frame) -> int:
    return len(frame.body) + _FRAME_BYTES

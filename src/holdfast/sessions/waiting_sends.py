"""
SENDs of one connection for which there is no room now: set aside while the rest is served.

A client has one stream. Were it not read while a SEND waits, the ACK or the SUBSCRIBE behind it,
which would make the room, would wait as well; two clients that publish to each other could wait for
each other for ever. So what waits is set aside, in its order, and everything else goes on. What may
be set aside is bounded in bytes, headers and all, and in time: a SEND that has waited too long is
refused, and so is each after it until there is room. So nobody waits for ever, whatever the others
do.

Owned by its session.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.topic import Topic
from holdfast.broker.settings import BrokerSettings
from holdfast.sessions.context import SessionContext
from holdfast.sessions.target import Goodbye, Outgoing, Shared

_FRAME_BYTES: Final = 400
"""What a frame costs beside its body and its headers."""


class WaitingSends:
    """What is set aside, oldest first; a DISCONNECT behind it waits as well."""

    __slots__ = (
        "_blocks",
        "_context",
        "_frames",
        "_places",
        "_settings",
        "bytes",
        "is_full",
        "is_refusing",
    )

    def __init__(self, context: SessionContext, settings: BrokerSettings) -> None:
        self._settings = settings
        self._context = context
        self._frames: deque[tuple[float, Outgoing | Goodbye, tuple[object, ...]]] = deque()
        """Each with the time after which it has waited too long, and its `_places`."""
        self._blocks: dict[int, int] = {}
        """By identity of the header block: how many of the frames share it."""
        self.bytes = 0
        self.is_full = False
        """Whether the connection is not to be read for now; said by whoever changes `bytes`."""
        self._places: dict[object, int] = {}
        """The destinations and the producers of what waits, and of how much: what is sent there, or
        by them, too goes behind it. By name: a queue may be deleted meanwhile, and be another one
        then."""
        self.is_refusing = False
        """One has waited too long: those that find no room are refused at once."""

    def __bool__(self) -> bool:
        return bool(self._frames)

    @property
    def is_allowed(self) -> bool:
        """Whether one more without room may wait."""
        return not self.is_refusing and self.has_place

    @property
    def has_place(self) -> bool:
        """Whether one more may be set aside: all clients' share a bound."""
        return self._context.waiting_bytes <= self._settings.waiting_total_bytes_max

    def holds(self, destination: Queue | Topic) -> bool:
        """Whether something waits that was sent there before."""
        return bool(self._places) and _place(destination) in self._places

    def holds_producer(self, producer_id: str | None) -> bool:
        """Whether something with an earlier number of this producer waits; False without an id."""
        return producer_id in self._places

    def add(
        self,
        frame: Outgoing | Goodbye,
        *destinations: Queue | Topic,
        producer_id: str | None = None,
        wait_ms: int = 0,
    ) -> None:
        """
        Set a frame aside; what is sent there later, or by this producer, goes behind it.

        Args:
            wait_ms: So long it may wait; 0: as long as the settings say.
        """
        seconds = wait_ms / 1000 or self._settings.send_wait_seconds_max
        producers = () if producer_id is None else (producer_id,)
        places = (*map(_place, destinations), *producers)
        self._frames.append((self._context.now + seconds, frame, places))
        size = _size(frame)
        if not isinstance(frame, Goodbye):
            size += self._share_block(frame.block, 1)
        self._grow(size)
        for place in places:
            self._places[place] = self._places.get(place, 0) + 1

    def first(self) -> Outgoing | Goodbye:
        """Give the oldest, and leave it."""
        return self._frames[0][1]

    @property
    def is_late(self) -> bool:
        """Whether the oldest has waited too long."""
        return self._context.now > self._frames[0][0]

    def remove_first(self) -> None:
        """Take the oldest away."""
        _, frame, places = self._frames.popleft()
        size = _size(frame)
        if not isinstance(frame, Goodbye):
            size += self._share_block(frame.block, -1)
        self._grow(-size)
        for place in places:
            left = self._places.pop(place) - 1
            if left:
                self._places[place] = left

    def clear(self) -> None:
        """Forget all of it: the connection is gone."""
        while self._frames:
            self.remove_first()

    def _grow(self, size: int) -> None:
        self.bytes += size
        self.is_full = self.bytes > self._settings.waiting_bytes_max
        self._context.waiting_bytes += size

    def _share_block(self, block: Shared, count: int) -> int:
        """Note that so many frames more have these headers; gives what they cost, once for all."""
        before = self._blocks.pop(id(block), 0)
        if before + count:
            self._blocks[id(block)] = before + count
        return block.cost_bytes if before == 0 or before + count == 0 else 0


def _place(destination: Queue | Topic) -> tuple[bool, str]:
    return isinstance(destination, Topic), destination.name


def _size(frame: Outgoing | Goodbye) -> int:
    if isinstance(frame, Goodbye):
        return frame.cost_bytes
    size = len(frame.body) + _FRAME_BYTES + len(frame.receipt or b"")
    return size + len(frame.producer_sequence or b"")

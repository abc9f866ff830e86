"""
SENDs of one connection for which there is no room now: set aside while the rest is served.

A client has one stream. Were it not read while a SEND waits, the ACK or the SUBSCRIBE behind it,
which would make the room, would wait as well; two clients that publish to each other could wait for
each other for ever. So what waits is set aside, in its order, and everything else goes on. What may
be set aside is bounded in bytes, headers and all, of which each user has a share (`model.shares`),
and in time: a SEND that has waited too long is refused, and so is each after it until there is room
there. So nobody waits for ever, whatever the others do.

Invariants:
    What waits goes in its order wherever two go to the same place, or are of the same producer.
    What has room is held up by nothing that waits for another place.

Owned by its session.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import Final, NamedTuple

from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.topic import Topic
from holdfast.broker.settings import BrokerSettings
from holdfast.sessions.context import SessionContext
from holdfast.sessions.sending_room import named
from holdfast.sessions.target import Goodbye, Outgoing, Shared

_FRAME_BYTES: Final = 400
"""What a frame costs beside its body and its headers."""

_LOOKED_AT_MAX: Final = 256
"""So many are looked at in one go: about as many as may wait before a connection is not read."""

_REFUSING_MAX: Final = 1024
"""Of so many places that are full it is known that one has waited too long for them."""


class Waiting(NamedTuple):
    """Something that was set aside."""

    number: int
    late_at: float
    """After that it has waited too long."""
    frame: Outgoing | Goodbye
    places: tuple[object, ...]
    """Where it goes, and by which producer."""


class WaitingSends:
    """What is set aside, oldest first; a DISCONNECT behind it waits as well."""

    __slots__ = (
        "_blocks",
        "_context",
        "_frames",
        "_last_number",
        "_places",
        "_settings",
        "_user",
        "bytes",
        "is_full",
        "refusing",
    )

    def __init__(self, context: SessionContext, settings: BrokerSettings) -> None:
        self._settings = settings
        self._context = context
        self._frames: dict[int, Waiting] = {}
        self._last_number = 0
        self._user: str | None = None
        """Of whose share it is what waits."""
        self._blocks: dict[int, int] = {}
        """By identity of the header block: how many of the frames share it."""
        self.bytes = 0
        self.is_full = False
        """Whether the connection is not to be read for now; said by whoever changes `bytes`."""
        self._places: dict[object, int] = {}
        """The destinations and the producers of what waits, and of how much: what is sent there, or
        by them, too goes behind it. By name: a queue may be deleted meanwhile, and be another one
        then."""
        self.refusing: dict[int, None] = {}
        """Hashes of what one has waited for too long: who finds that full is refused at once."""

    def __bool__(self) -> bool:
        return bool(self._frames)

    def is_refusing(self, what: object) -> bool:
        """Whether one has waited too long for what is full there, and it was full ever since."""
        return bool(self.refusing) and hash(what) in self.refusing

    def refuse(self, what: object) -> None:
        """Let nothing more wait for what is full before there was room."""
        self.refusing.pop(hash(what), None)
        self.refusing[hash(what)] = None
        if len(self.refusing) > _REFUSING_MAX:
            del self.refusing[next(iter(self.refusing))]

    def wait_again(self, what: Iterable[object]) -> None:
        """Note that there was room for these."""
        if self.refusing:
            for each in what:
                self.refusing.pop(hash(each), None)

    def has_place(self, frame: Outgoing, user: str | None) -> bool:
        """Whether one more may be set aside: all clients' share a bound, of which each has some."""
        bytes_max = self._settings.waiting_total_bytes_max
        left = bytes_max - self._context.waiting_bytes
        if user is None:
            return left >= 0
        size = _size(frame) + (0 if id(frame.block) in self._blocks else frame.block.cost_bytes)
        return self._context.waiting_shares.has_room(user, size, left - size, bytes_max)

    def holds(self, destination: Queue | Topic) -> bool:
        """Whether something waits that was sent there before."""
        return bool(self._places) and named(destination) in self._places

    def holds_producer(self, producer_id: str | None) -> bool:
        """Whether something with an earlier number of this producer waits; False without an id."""
        return producer_id in self._places

    def add(
        self,
        frame: Outgoing | Goodbye,
        *destinations: Queue | Topic,
        producer_id: str | None = None,
        wait_ms: int = 0,
        user: str | None = None,
    ) -> None:
        """
        Set a frame aside; what is sent there later, or by this producer, goes behind it.

        Args:
            wait_ms: So long it may wait; 0: as long as the settings say.
            user: Of whose share it is; of one that waits already all are.
        """
        if not self._frames:
            self._user = user
        seconds = wait_ms / 1000 or self._settings.send_wait_seconds_max
        producers = () if producer_id is None else (producer_id,)
        places = (*map(named, destinations), *producers)
        self._last_number += 1
        late_at = self._context.now + seconds
        self._frames[self._last_number] = Waiting(self._last_number, late_at, frame, places)
        size = _size(frame)
        if not isinstance(frame, Goodbye):
            size += self._share_block(frame.block, 1)
        self._grow(size)
        for place in places:
            self._places[place] = self._places.get(place, 0) + 1

    def line(self) -> Iterator[Waiting]:
        """Give the oldest, each as it is come to, and leave them."""
        for each in list(islice(self._frames.values(), _LOOKED_AT_MAX)):
            if each.number in self._frames:
                yield each

    def all_goes_to(self, held: set[object]) -> bool:
        """Whether nothing waits but for these, which are of what waits: none of it has room."""
        return bool(held) and len(held) >= len(self._places)

    def is_late(self, waiting: Waiting) -> bool:
        """Whether something has waited too long."""
        return self._context.now > waiting.late_at

    def remove(self, number: int) -> None:
        """Take one of them away."""
        _, _, frame, places = self._frames.pop(number)
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
        for number in list(self._frames):
            self.remove(number)

    def _grow(self, size: int) -> None:
        self.bytes += size
        self.is_full = self.bytes > self._settings.waiting_bytes_max
        self._context.waiting_bytes += size
        self._context.waiting_shares.add(self._user, size)

    def _share_block(self, block: Shared, count: int) -> int:
        """Note that so many frames more have these headers; gives what they cost, once for all."""
        before = self._blocks.pop(id(block), 0)
        if before + count:
            self._blocks[id(block)] = before + count
        return block.cost_bytes if before == 0 or before + count == 0 else 0


def _size(frame: Outgoing | Goodbye) -> int:
    if isinstance(frame, Goodbye):
        return frame.cost_bytes
    size = len(frame.body) + _FRAME_BYTES + len(frame.receipt or b"")
    return size + len(frame.producer_sequence or b"")

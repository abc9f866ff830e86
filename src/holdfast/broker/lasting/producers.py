"""
What is stored of each producer: the last of its numbers.

The last number stored is replicated state. It is 24 bytes in one value that is replaced and never
changed: there may be very many of them. A floor under the numbers of producers that are done with
is kept as such a number too, under an id that no client may use (`FLOOR_ID` and a name).

Only `apply` writes it. What the leader has taken and not yet applied is its own
(`serving.numbers_taken`), which may vanish and is told of what is applied.

Invariants:
    Producers are forgotten by records of the log only, so every node forgets the same ones.
    A name is in `floor_names` as long as its floor's id is in `by_id`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Final, NamedTuple, Protocol

from holdfast.broker.lasting.producer_map import ProducerMap
from holdfast.model.counts import Counts
from holdfast.model.limits import FLOOR_ID
from holdfast.model.producer_ids import ROOM_ID, room_in

_STORED: Final = struct.Struct("<QQQ")
_pack = _STORED.pack
_unpack = _STORED.unpack


class Listener(Protocol):
    """The leader, as it is told of what was applied."""

    def stored(self, producer_id: str, sequence: int) -> None:
        """Take note that a record with this number is applied."""


class Producer(NamedTuple):
    """What is known of one producer."""

    last: int
    """The last number that is stored."""
    home: int
    """The record number of the newest record that carries `last`."""
    used_at: int
    """Log time of its last message, in microseconds."""


class Producers:
    """The producers of one broker by id."""

    __slots__ = (
        *("by_id", "floor_names", "forgotten_count", "id_bytes", "listener", "roomed_count"),
        "rooms",
    )

    def __init__(self) -> None:
        self.by_id = ProducerMap()
        """Who has stored something, each as `pack_producer` gives it."""
        self.floor_names: set[str] = set()
        """Of which there is a floor; asked for each message if there is any."""
        self.id_bytes = 0
        """The length of all ids in `by_id` together."""
        self.roomed_count = 0
        """How many are in the room of a user (`model.producer_ids`)."""
        self.rooms = Counts()
        """How many there are in each room, with its floors."""
        self.forgotten_count = 0
        """How many were forgotten since this process started."""
        self.listener: Listener | None = None
        """The leader, while there is one."""

    def get(self, producer_id: str) -> Producer | None:
        """Give what is stored of a producer, None if it is not known."""
        found = self.by_id.get(producer_id)
        return None if found is None else unpack_producer(found)

    def last(self, producer_id: str) -> int:
        """Give the last number stored of a producer, 0 if it is not known."""
        found = self.by_id.get(producer_id)
        return 0 if found is None else _unpack(found)[0]

    def as_they_are(self) -> Iterator[tuple[str, bytes]]:
        """Give all of them as they are now, whatever changes later."""
        return self.by_id.as_they_are()

    def stored(self, producer_id: str, sequence: int, record_number: int, used_at: int) -> None:
        """Note that a record with this number is applied."""
        by_id = self.by_id
        found = by_id.get(producer_id)
        if (found is None or sequence >= _unpack(found)[0]) and by_id.put(
            producer_id, _pack(sequence, record_number, used_at)
        ):
            self.id_bytes += len(producer_id)
            if producer_id.startswith(FLOOR_ID):
                self.floor_names.add(producer_id.removeprefix(FLOOR_ID))
            self.roomed_count += producer_id.startswith(ROOM_ID)
            self.rooms.add(room_in(producer_id), 1)
        if self.listener is not None:
            self.listener.stored(producer_id, sequence)

    def forget(self, producer_id: str) -> None:
        """Forget a producer; what the leader has taken of it is on its way to the log still."""
        if self.by_id.remove(producer_id):
            if producer_id.startswith(FLOOR_ID):
                self.floor_names.discard(producer_id.removeprefix(FLOOR_ID))
            self.roomed_count -= producer_id.startswith(ROOM_ID)
            self.rooms.add(room_in(producer_id), -1)
            self.id_bytes -= len(producer_id)
            self.forgotten_count += 1


def pack_producer(last: int, home: int, used_at: int) -> bytes:
    """Give the value that stands for a producer."""
    return _pack(last, home, used_at)


def used_at(value: bytes) -> int:
    """Give only the log time of its last message, in microseconds: quicker where many are asked."""
    return int.from_bytes(value[16:], "little")


def unpack_producer(value: bytes) -> Producer:
    """Give what such a value says."""
    return Producer._make(_unpack(value))

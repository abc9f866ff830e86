"""
Exactly one record per producer sequence.

A producer that carries an id numbers its messages from 1. The last number stored is replicated
state; a retry is confirmed again and not stored again, and a gap is refused, so that a producer's
messages stand in the log in order and without holes whatever failed in between.

What is stored of a producer is 24 bytes in one value that is replaced and never changed: there may
be very many of them. What the leader has
given out and not yet applied stands apart, for as long as it is on its way.

Invariants:
    last < assigned for whoever is in `assigned`: those numbers are on their way to the log.
    Producers are forgotten by records of the log only, so every node forgets the same ones.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import Enum
from typing import Final, NamedTuple

from holdfast.broker.lasting.producer_floors import ProducerFloors
from holdfast.broker.lasting.producer_map import ProducerMap
from holdfast.errors import ProducerForgottenError, SequenceGapError

_STORED: Final = struct.Struct("<QQQ")
_pack = _STORED.pack
_unpack = _STORED.unpack


class Verdict(Enum):
    """What a sequence number means now."""

    NEW = "new"
    STORED = "stored"
    """A retry of something that is stored already."""
    UNDER_WAY = "under way"
    """A retry of something that is on its way to the log."""


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

    __slots__ = ("assigned", "by_id", "floors", "forgotten_count", "id_bytes")

    def __init__(self) -> None:
        self.by_id = ProducerMap()
        """Who has stored something, each as `pack_producer` gives it."""
        self.assigned: dict[str, int] = {}
        """On the leader: the last number given out, where it is not applied yet."""
        self.floors = ProducerFloors(self)
        """Whose producers are done with."""
        self.id_bytes = 0
        """The length of all ids in `by_id` together."""
        self.forgotten_count = 0
        """How many were forgotten since this process started."""

    def get(self, producer_id: str) -> Producer | None:
        """Give what is stored of a producer, None if it is not known."""
        found = self.by_id.get(producer_id)
        return None if found is None else unpack_producer(found)

    def as_they_are(self) -> Iterator[tuple[str, bytes]]:
        """Give all of them as they are now, whatever changes later."""
        return self.by_id.as_they_are()

    def check(self, producer_id: str, sequence: int) -> Verdict:
        """
        Say what a message with this number is, and take the number if it is new.

        Raises:
            ProducerFinishedError: It is new, and this producer is done with.
            ProducerForgottenError: Nothing is known of this producer, and it does not begin.
            SequenceGapError: Earlier numbers are missing.
        """
        assigned = self.assigned.get(producer_id, 0)
        if assigned and sequence == assigned + 1:
            if self.floors.names:
                self.floors.check(producer_id)
            self.assigned[producer_id] = sequence
            return Verdict.NEW
        found = self.by_id.get(producer_id)
        last = _unpack(found)[0] if found is not None else 0
        assigned = assigned or last
        if sequence > assigned and self.floors.names:
            self.floors.check(producer_id)
        if sequence == assigned + 1:
            self.assigned[producer_id] = sequence
            return Verdict.NEW
        if not assigned and sequence > 1:
            raise ProducerForgottenError(producer_id, expected=1, found=sequence)
        if not assigned or sequence > assigned:
            raise SequenceGapError(producer_id, expected=assigned + 1, found=sequence)
        return Verdict.STORED if sequence <= last else Verdict.UNDER_WAY

    def has_taken(self, producer_id: str, sequence: int) -> bool:
        """Tell whether this number is stored or under way; takes nothing."""
        assigned = self.assigned.get(producer_id)
        if assigned is None:
            found = self.by_id.get(producer_id)
            if found is None:
                return False
            assigned = _unpack(found)[0]
        return sequence <= assigned

    def untake(self, producer_id: str) -> None:
        """Give back the newest number: what took it came to nothing."""
        assigned = self.assigned[producer_id] - 1
        known = self.get(producer_id)
        if assigned > (known.last if known is not None else 0):
            self.assigned[producer_id] = assigned
        else:
            del self.assigned[producer_id]

    def stored(self, producer_id: str, sequence: int, record_number: int, used_at: int) -> None:
        """Note that a record with this number is applied."""
        by_id = self.by_id
        found = by_id.get(producer_id)
        if (found is None or sequence >= _unpack(found)[0]) and by_id.put(
            producer_id, _pack(sequence, record_number, used_at)
        ):
            self.id_bytes += len(producer_id)
            self.floors.appeared(producer_id)
        assigned = self.assigned
        if assigned and assigned.get(producer_id, sequence + 1) <= sequence:
            del assigned[producer_id]

    def forget(self, producer_id: str) -> None:
        """Forget a producer, save the numbers it has on their way to the log."""
        if self.by_id.remove(producer_id):
            self.floors.forgotten(producer_id)
            self.id_bytes -= len(producer_id)
            self.forgotten_count += 1

    def forget_leadership(self) -> None:
        """Drop what was assigned and never applied."""
        self.assigned.clear()
        self.floors.forget_leadership()


def pack_producer(last: int, home: int, used_at: int) -> bytes:
    """Give the value that stands for a producer."""
    return _pack(last, home, used_at)


def used_at(value: bytes) -> int:
    """Give only the log time of its last message, in microseconds: quicker where many are asked."""
    return int.from_bytes(value[16:], "little")


def unpack_producer(value: bytes) -> Producer:
    """Give what such a value says."""
    return Producer._make(_unpack(value))

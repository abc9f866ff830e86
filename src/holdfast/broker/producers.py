"""
Exactly one record per producer sequence.

A producer that carries an id numbers its messages from 1. The last number stored is replicated
state; a retry is confirmed again and not stored again, and a gap is refused, so that a producer's
messages stand in the log in order and without holes whatever failed in between.

Invariants:
    last <= assigned: what is assigned and not applied is on its way to the log.
"""

from __future__ import annotations

from enum import Enum

from holdfast.errors import SequenceGapError


class Verdict(Enum):
    """What a sequence number means now."""

    NEW = "new"
    STORED = "stored"
    """A retry of something that is stored already."""
    UNDER_WAY = "under way"
    """A retry of something that is on its way to the log."""


class Producer:
    """What is known of one producer."""

    __slots__ = ("assigned", "home", "last", "used_at")

    def __init__(self) -> None:
        self.last = 0
        self.assigned = 0
        self.home = 0
        """The record number of the newest record that carries `last`."""
        self.used_at = 0
        """Log time of that record, in microseconds."""


class Producers:
    """The producers of one broker by id."""

    __slots__ = ("by_id",)

    def __init__(self) -> None:
        self.by_id: dict[str, Producer] = {}

    def check(self, producer_id: str, sequence: int) -> Verdict:
        """
        Say what a message with this number is, and take the number if it is new.

        Raises:
            SequenceGapError: Earlier numbers are missing.
        """
        producer = self.by_id.get(producer_id)
        if producer is None:
            if sequence != 1:
                raise SequenceGapError(producer_id, expected=1, found=sequence)
            producer = self.by_id[producer_id] = Producer()
        if sequence == producer.assigned + 1:
            producer.assigned = sequence
            return Verdict.NEW
        if sequence <= producer.last:
            return Verdict.STORED
        if sequence <= producer.assigned:
            return Verdict.UNDER_WAY
        raise SequenceGapError(producer_id, expected=producer.assigned + 1, found=sequence)

    def has_taken(self, producer_id: str, sequence: int) -> bool:
        """Tell whether this number is stored or under way; takes nothing."""
        producer = self.by_id.get(producer_id)
        return producer is not None and sequence <= producer.assigned

    def untake(self, producer_id: str) -> None:
        """Give back the newest number: what took it came to nothing."""
        producer = self.by_id[producer_id]
        producer.assigned -= 1
        if not producer.assigned:
            del self.by_id[producer_id]

    def stored(self, producer_id: str, sequence: int, record_number: int, used_at: int) -> None:
        """Note that a record with this number is applied."""
        producer = self.by_id.get(producer_id)
        if producer is None:
            producer = self.by_id[producer_id] = Producer()
        if sequence >= producer.last:
            producer.last = sequence
            producer.home = record_number
            producer.used_at = used_at
        producer.assigned = max(producer.assigned, sequence)

    def forget(self, producer_id: str) -> None:
        """Forget a producer, save the numbers it has on their way to the log."""
        producer = self.by_id.get(producer_id)
        if producer is None:
            return
        if producer.assigned > producer.last:
            producer.last = producer.home = producer.used_at = 0
        else:
            del self.by_id[producer_id]

    def forget_leadership(self) -> None:
        """Drop what was assigned and never applied."""
        for producer_id in [key for key, value in self.by_id.items() if not value.last]:
            del self.by_id[producer_id]
        for producer in self.by_id.values():
            producer.assigned = producer.last

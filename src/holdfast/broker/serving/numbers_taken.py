"""
Producers' numbers that the leader has taken, and has not yet seen applied.

A producer that carries an id numbers its messages from 1. The last number stored is lasting
(`lasting.producers`); what came since is on its way to the log and stands here for so long. A retry
is confirmed again and not stored again, and a gap is refused, so that a producer's messages stand
in the log in order and without holes whatever failed in between.

Each user's producers have numbers of their own (`model.producer_ids`). What was numbered elsewhere,
also before there were users, counts for nothing there: whoever begins with 1 is new, and if that is
refused nothing behind it is confirmed because somebody had once called his producer so.

Made for each leadership, as the listener of the lasting half, which tells it what is applied. The
next one begins with none: what never reached the log was never confirmed, and may be sent again.

Invariants:
    For whoever is in `under_way`, the last number stored is lower.

Lives on the leader only and may vanish; nothing here is lasting state.
"""

from __future__ import annotations

from enum import Enum

from holdfast.broker.lasting.producers import Producers
from holdfast.broker.serving.producer_floors import ProducerFloors
from holdfast.errors import ProducerForgottenError, SequenceGapError
from holdfast.model.producer_ids import said_id


class Verdict(Enum):
    """What a sequence number means now."""

    NEW = "new"
    STORED = "stored"
    """A retry of something that is stored already."""
    UNDER_WAY = "under way"
    """A retry of something that is on its way to the log."""


class NumbersTaken:
    """The numbers of one leader's producers that are on their way to the log."""

    __slots__ = ("_floor_names", "_producers", "_raised", "floors", "under_way")

    def __init__(self, producers: Producers) -> None:
        self._producers = producers
        self.under_way: dict[str, int] = {}
        """By producer: the last number taken, where it is not applied yet."""
        self.floors = ProducerFloors(producers, self.under_way)
        """Whose producers are done with."""
        # Looked at for each message.
        self._floor_names, self._raised = producers.floor_names, self.floors.raised
        producers.listener = self

    def take(self, producer_id: str, sequence: int) -> Verdict:
        """
        Say what a message with this number is, and take the number if it is new.

        Raises:
            ProducerFinishedError: It is new, and this producer is done with.
            ProducerForgottenError: Nothing is known of this producer, and it does not begin.
            SequenceGapError: Earlier numbers are missing.
        """
        taken = self.under_way.get(producer_id, 0)
        if taken and sequence == taken + 1:
            if self._floor_names or self._raised:
                self.floors.check(producer_id)
            self.under_way[producer_id] = sequence
            return Verdict.NEW
        last = self._producers.last(producer_id)
        taken = taken or last
        if sequence > taken and (self._floor_names or self._raised):
            self.floors.check(producer_id)
        if sequence == taken + 1:
            self.under_way[producer_id] = sequence
            return Verdict.NEW
        if not taken and sequence > 1:
            raise ProducerForgottenError(said_id(producer_id), expected=1, found=sequence)
        if not taken or sequence > taken:
            raise SequenceGapError(said_id(producer_id), expected=taken + 1, found=sequence)
        return Verdict.STORED if sequence <= last else Verdict.UNDER_WAY

    def has_taken(self, producer_id: str, sequence: int) -> bool:
        """Tell whether this number is stored or under way; takes nothing."""
        taken = self.under_way.get(producer_id) or self._producers.last(producer_id)
        return bool(taken) and sequence <= taken

    def give_back(self, producer_id: str) -> None:
        """Give back the newest number: what took it came to nothing."""
        taken = self.under_way[producer_id] - 1
        if taken > self._producers.last(producer_id):
            self.under_way[producer_id] = taken
        else:
            del self.under_way[producer_id]

    def stored(self, producer_id: str, sequence: int) -> None:
        """Take note that a record with this number is applied."""
        if self.under_way.get(producer_id, sequence + 1) <= sequence:
            del self.under_way[producer_id]
            if self._raised:
                self.floors.stored(producer_id)

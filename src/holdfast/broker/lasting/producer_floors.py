"""
Floors: producers that are done with send nothing more, also when nothing else is known of them.

What is forgotten could begin anew: a task of an application that was taken for dead, and is back
when its piece of the work is long forgotten, would have the same rows stored once more. So what the
cluster was told stays: under the name that ids begin with, the first number that may still come.

A floor is kept as a producer's last number, under an id that no client may use. So it is a record
of the log as any producer's is, and is carried on, counted against the bound on producers, and
forgotten when it was not told again for as long as a producer may be idle: its own producers are
forgotten no later.

Invariants:
    Of a number below a floor nothing new is stored, from the moment on when the leader was told.
    A floor stands in the log before the first record that forgets a producer because of it.
"""

from __future__ import annotations

from typing import Protocol

from holdfast.errors import ProducerFinishedError
from holdfast.model.limits import FLOOR_ID


class LastNumber(Protocol):
    """What is known of one producer, as far as a floor needs it."""

    @property
    def last(self) -> int:
        """The last number that is stored."""


class LastNumbers(Protocol):
    """The producers of one broker, as far as their floors look at them."""

    @property
    def assigned(self) -> dict[str, int]:
        """The last numbers given out, of those that are on their way to the log."""

    def get(self, producer_id: str) -> LastNumber | None:
        """What is stored of a producer; None if nothing."""


class ProducerFloors:
    """The floors of one broker's producers; their numbers stand with the producers."""

    __slots__ = ("_producers", "_raised", "names")

    def __init__(self, producers: LastNumbers) -> None:
        self._producers = producers
        self.names: set[str] = set()
        """Of which there is a floor; asked for each message if there is any."""
        self._raised: set[str] = set()
        """On the leader: of which it was told, and which may not have reached the log yet."""

    def of(self, name: str) -> int:
        """Give the first number that may still come; 0 if there is no floor."""
        assigned = self._producers.assigned.get(FLOOR_ID + name)
        if assigned is not None:
            return assigned
        found = self._producers.get(FLOOR_ID + name)
        return 0 if found is None else found.last

    def raise_to(self, name: str, before: int) -> bool:
        """Raise a floor at once; True if it must be recorded, False if it is as high already."""
        if before <= self.of(name):
            return False
        # As a number on its way to the log: so nobody finds it idle now.
        self._producers.assigned[FLOOR_ID + name] = before
        self._raised.add(name)
        self.names.add(name)
        return True

    def check(self, producer_id: str) -> None:
        """
        Let nobody send anew who is done with.

        Raises:
            ProducerFinishedError: Its number is below the floor of its name.
        """
        at = producer_id.find("-")
        while at >= 0:
            if (name := producer_id[:at]) in self.names:
                floor = self.of(name)
                if 0 <= number_behind(producer_id, at) < floor:
                    raise ProducerFinishedError(
                        f"producer {producer_id} is done with: its application has said that of"
                        f" {name} only numbers from {floor} on still come"
                    )
            at = producer_id.find("-", at + 1)

    def appeared(self, producer_id: str) -> None:
        """Note that this id is stored for the first time, whosever it is."""
        if producer_id.startswith(FLOOR_ID):
            self.names.add(producer_id.removeprefix(FLOOR_ID))

    def forgotten(self, producer_id: str) -> None:
        """Note that this id is forgotten, whosever it is; one that was raised since stays."""
        name = producer_id.removeprefix(FLOOR_ID)
        if name != producer_id and producer_id not in self._producers.assigned:
            self._raised.discard(name)
            self.names.discard(name)

    def forget_leadership(self) -> None:
        """Keep what is stored only: the rest, given out before, may never have reached the log."""
        for name in self._raised:
            if not self.of(name):
                self.names.discard(name)
        self._raised = set()


def number_behind(producer_id: str, at: int) -> int:
    """Give the number between this dash and the next one; -1 if there is none, or no dash."""
    number, dash, _ = producer_id[at + 1 :].partition("-")
    return int(number) if dash and number.isdecimal() else -1

"""
Floors: producers that are done with send nothing more, also when nothing else is known of them.

What is forgotten could begin anew: a task of an application that was taken for dead, and is back
when its piece of the work is long forgotten, would have the same rows stored once more. So what the
cluster was told stays: under the name that ids begin with, the first number that may still come.

A floor is kept as a producer's last number, under an id that no client may use. So it is a record
of the log as any producer's is, and is carried on, counted against the bound on producers, and
forgotten when it was not told again for as long as a producer may be idle: its own producers are
forgotten no later. The lasting half has the numbers and the names; the leader adds those that it
raises, which hold before they are in the log, as numbers on their way there.

A name is known in the room of its user, as his producers are. One from before there were users
stands under his as well, until he has said a number himself.

Invariants:
    Of a number below a floor nothing new is stored, from the moment on when the leader was told.
    A floor stands in the log before the first record that forgets a producer because of it.
    A name is in `raised` as long as its number is under way.
    Nobody's floor stands under another's producers.
"""

from __future__ import annotations

from holdfast.broker.lasting.producers import Producers
from holdfast.errors import ProducerFinishedError
from holdfast.model.digits import read_digits
from holdfast.model.limits import FLOOR_ID
from holdfast.model.producer_ids import room_length, said_id


class ProducerFloors:
    """The floors of one leader's producers."""

    __slots__ = ("_producers", "_under_way", "raised")

    def __init__(self, producers: Producers, under_way: dict[str, int]) -> None:
        self._producers = producers
        self._under_way = under_way
        """The last numbers taken, where they are not applied yet."""
        self.raised: set[str] = set()
        """Of which the leader was told, and which have not reached the log yet."""

    def of(self, name: str) -> int:
        """Give the first number that may still come; 0 if there is no floor."""
        floor_id = FLOOR_ID + name
        return self._under_way.get(floor_id) or self._producers.last(floor_id)

    def raise_to(self, name: str, before: int) -> bool:
        """Raise a floor at once; True if it must be recorded, False if it is as high already."""
        if before <= self.of(name):
            return False
        # As a number on its way to the log: so nobody finds it idle now.
        self._under_way[FLOOR_ID + name] = before
        self.raised.add(name)
        return True

    def check(self, producer_id: str) -> None:
        """
        Let nobody send anew who is done with.

        Raises:
            ProducerFinishedError: Its number is below the floor of its name.
        """
        room = room_length(producer_id)
        at = producer_id.find("-", room)
        while at >= 0:
            name = producer_id[:at]
            if room and not self._has(name):
                name = name[room:]
            if self._has(name):
                floor = self.of(name)
                if 0 <= number_behind(producer_id, at) < floor:
                    raise ProducerFinishedError(
                        f"producer {producer_id[room:]} is done with: its application has said that"
                        f" of {said_id(name)} only numbers from {floor} on still come"
                    )
            at = producer_id.find("-", at + 1)

    def is_below_own(self, producer_id: str) -> bool:
        """Whether its number is below a floor of its own room: another one may be taken back."""
        at = producer_id.find("-", room_length(producer_id))
        while at >= 0:
            name = producer_id[:at]
            if self._has(name) and 0 <= number_behind(producer_id, at) < self.of(name):
                return True
            at = producer_id.find("-", at + 1)
        return False

    def _has(self, name: str) -> bool:
        return name in self._producers.floor_names or name in self.raised

    def stored(self, producer_id: str) -> None:
        """Note that nothing of this id is under way any more, whosever it is."""
        if producer_id.startswith(FLOOR_ID):
            self.raised.discard(producer_id.removeprefix(FLOOR_ID))


def number_behind(producer_id: str, at: int) -> int:
    """Give the number between this dash and the next one; -1 if there is none, or no dash."""
    digits, dash, _ = producer_id[at + 1 :].partition("-")
    number = read_digits(digits) if dash else None
    return -1 if number is None else number

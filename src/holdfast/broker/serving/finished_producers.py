"""
Producers that are done with, forgotten because their application says so.

An application that sends in numbered pieces, each under producer ids of its own (a streaming query
its batches), knows when a piece can never be sent again. It tells by the name that its ids begin
with, and the first number that may still come: of `NAME-7-more` everything under a lower number
than 7 is forgotten. What was forgotten is records of the log, so every node forgets the same ones.
Before them stands a floor (`producer_floors`): who was forgotten, and lives, does not begin anew.

All producers are looked at, in short steps, by one errand for all who ask meanwhile: each is held
against the floors, however many there are, so nobody's names wait behind those of another. Who asks
while they are looked at has them looked at once more.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from holdfast.broker.destinations import Destinations
from holdfast.broker.errands import Errands
from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.receipts import Receipts
from holdfast.errors import RefusedError
from holdfast.model.limits import FLOOR_ID, PRODUCER_ID_BYTES_MAX
from holdfast.model.producer_ids import said_id
from holdfast.model.records import ForgetProducerRecord, ProducerRecord

NAME_BYTES_MIN: Final = 8
"""A shorter one is a mistake, and would go for the producers of others."""

NAME_BYTES_MAX: Final = PRODUCER_ID_BYTES_MAX - len(FLOOR_ID)

_LOOKED_AT_PER_STEP: Final = 1_000
"""Ids, and the dashes in them: behind each a name may end."""


class FinishedProducers:
    """What the leader was told about producers that are done with."""

    __slots__ = ("_destinations", "_errands", "_is_asked", "_is_under_way", "_receipts", "_state")

    def __init__(
        self,
        state: BrokerState,
        receipts: Receipts,
        destinations: Destinations,
        errands: Errands,
    ) -> None:
        self._state = state
        self._receipts = receipts
        self._destinations = destinations
        self._errands = errands
        self._is_asked = False
        """Whether somebody has asked since it was begun to look at them."""
        self._is_under_way = False

    def clear(self) -> None:
        """Drop what was asked: the leadership is over, and its errands are."""
        self._is_asked = False
        self._is_under_way = False

    def forget(self, name: str, before: int) -> None:
        """
        Forget who sent under this name and a lower number, and let nobody send so any more.

        The name is in the room of its user. The floor is part of the gathering batch; an errand
        that forgets is begun, or joined.

        Raises:
            RefusedError: The name is too short or too long.
        """
        said = said_id(name)
        if not NAME_BYTES_MIN <= len(said.encode()) <= NAME_BYTES_MAX:
            raise RefusedError(
                f"{said!r}: a name of {NAME_BYTES_MIN} to {NAME_BYTES_MAX} bytes is needed"
            )
        if self._destinations.leadership.numbers.floors.raise_to(name, before):
            self._receipts.record(ProducerRecord(FLOOR_ID + name, before))
        self._is_asked = True
        if not self._is_under_way:
            self._is_under_way = True
            self._errands.begin(self._run_whole())

    def _run_whole(self) -> Iterator[None]:
        try:
            yield from self._run()
        except Exception:
            self._is_under_way = False  # Else none would ever begin again.
            raise

    def _run(self) -> Iterator[None]:
        while self._is_asked:
            self._is_asked = False
            left = self._state.producers.as_they_are()
            while some := _some_of(left):
                self._forget(some)
                yield
        self._is_under_way = False

    def _forget(self, some: list[tuple[str, bytes]]) -> None:
        producers = self._state.producers
        numbers = self._destinations.leadership.numbers
        self._receipts.add_records(
            [
                ForgetProducerRecord(producer_id)
                for producer_id, value in some
                if numbers.floors.is_below_own(producer_id)
                # Not if it has sent since this was begun.
                and producers.by_id.get(producer_id) == value
                and producer_id not in numbers.under_way
            ]
        )


def _some_of(left: Iterator[tuple[str, bytes]]) -> list[tuple[str, bytes]]:
    """Take so many that a step is short, also where their ids have many dashes."""
    taken, room = [], _LOOKED_AT_PER_STEP
    while room > 0 and (one := next(left, None)) is not None:
        taken.append(one)
        room -= 1 + one[0].count("-")
    return taken

"""
Producers that are done with, forgotten because their application says so.

An application that sends in numbered pieces, each under producer ids of its own (a streaming query
its batches), knows when a piece can never be sent again. It tells by the name that its ids begin
with, and the first number that may still come: of `NAME-7-more` everything under a lower number
than 7 is forgotten. What was forgotten is records of the log, so every node forgets the same ones.
Before them stands a floor (`producer_floors`): who was forgotten, and lives, does not begin anew.

All producers are looked at, in short steps, by one errand for all who ask meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Final

from holdfast.broker.destinations import Destinations
from holdfast.broker.errands import Errands
from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.receipts import Receipts
from holdfast.broker.serving.producer_floors import number_behind
from holdfast.errors import RefusedError
from holdfast.model.limits import FLOOR_ID, PRODUCER_ID_BYTES_MAX
from holdfast.model.producer_ids import said_id
from holdfast.model.records import ForgetProducerRecord, ProducerRecord

NAMES_MAX: Final = 64
"""So many names may wait for the next look at all producers; each makes it slower."""

NAME_BYTES_MIN: Final = 8
"""A shorter one is a mistake, and would go for the producers of others."""

NAME_BYTES_MAX: Final = PRODUCER_ID_BYTES_MAX - len(FLOOR_ID)

_COMPARED_PER_STEP: Final = 1_000
"""Ids times names."""


class FinishedProducers:
    """What the leader was told about producers that are done with."""

    __slots__ = ("_before", "_destinations", "_errands", "_is_under_way", "_receipts", "_state")

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
        self._before: dict[str, int] = {}
        """The first number that may still come, by name; not begun yet."""
        self._is_under_way = False

    def clear(self) -> None:
        """Drop what was asked: the leadership is over, and its errands are."""
        self._before = {}
        self._is_under_way = False

    def forget(self, name: str, before: int) -> None:
        """
        Forget who sent under this name and a lower number, and let nobody send so any more.

        The name is in the room of its user. The floor is part of the gathering batch; an errand
        that forgets is begun, or joined.

        Raises:
            RefusedError: The name is too short or too long, or too many wait already.
        """
        said = said_id(name)
        if not NAME_BYTES_MIN <= len(said.encode()) <= NAME_BYTES_MAX:
            raise RefusedError(
                f"{said!r}: a name of {NAME_BYTES_MIN} to {NAME_BYTES_MAX} bytes is needed"
            )
        if name not in self._before and len(self._before) >= NAMES_MAX:
            raise RefusedError(f"at most {NAMES_MAX} names of finished producers may wait")
        if self._destinations.leadership.numbers.floors.raise_to(name, before):
            self._receipts.record(ProducerRecord(FLOOR_ID + name, before))
        self._before[name] = max(before, self._before.get(name, 0))
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
        while self._before:
            wanted = [(f"{name}-", before) for name, before in self._before.items()]
            self._before = {}
            left = self._state.producers.as_they_are()
            step = max(_COMPARED_PER_STEP // len(wanted), 1)
            while some := list(islice(left, step)):
                self._forget(some, wanted)
                yield
        self._is_under_way = False

    def _forget(self, some: list[tuple[str, bytes]], wanted: list[tuple[str, int]]) -> None:
        producers = self._state.producers
        under_way = self._destinations.leadership.numbers.under_way
        self._receipts.add_records(
            [
                ForgetProducerRecord(producer_id)
                for producer_id, value in some
                if any(_is_finished(producer_id, name, before) for name, before in wanted)
                # Not if it has sent since this was begun.
                and producers.by_id.get(producer_id) == value
                and producer_id not in under_way
            ]
        )


def _is_finished(producer_id: str, name: str, before: int) -> bool:
    return producer_id.startswith(name) and 0 <= number_behind(producer_id, len(name) - 1) < before

"""
How many answers from the log a node gives at once, and how far they stand back for its clients.

A Spark job asks with every core of its executors, and each answer takes the broker's loop a tenth
of a millisecond for each piece. Who comes beyond the slots is told to come later, and asks another
node; a leader has fewer. Between two pieces an answer leaves the loop several times as long as the
loop's turn just took: where nobody else needs it that is next to nothing.
"""

from __future__ import annotations

import asyncio
from typing import Final

from holdfast.errors import BusyError

SLOTS: Final = 16
LEADER_SLOTS: Final = 4
SLOT_SECONDS: Final = 20.0
"""A reader that takes no piece for so long is not counted any more."""

STAND_BACK: Final = 4
"""After a piece the loop is left to others for so many times what its turn took."""
STAND_BACK_SECONDS_MAX: Final = 0.25
_IDLE_TURN_SECONDS: Final = 0.000_5


class ReaderSlots:
    """The answers that one node is giving; belongs to its loop."""

    def __init__(self) -> None:
        self._slots: set[Slot] = set()

    def __len__(self) -> int:
        return len(self._slots)

    def take(self, *, leads: bool) -> Slot:
        """
        Take a slot for one answer.

        Raises:
            BusyError: All are taken.
        """
        slots = LEADER_SLOTS if leads else SLOTS
        if len(self._slots) >= slots:
            raise BusyError(
                f"{len(self._slots)} readers are answered from the log already, and"
                f" {'the leader' if leads else 'a node'} answers {slots} at once; ask another"
                " node, or again later"
            )
        slot = Slot(self._slots)
        self._slots.add(slot)
        return slot


class Slot:
    """One answer under way."""

    __slots__ = ("_slots", "_timer")

    def __init__(self, slots: set[Slot]) -> None:
        self._slots = slots
        self._timer = self._timed()

    def _timed(self) -> asyncio.TimerHandle:
        return asyncio.get_running_loop().call_later(SLOT_SECONDS, self.give_back)

    def keep(self) -> None:
        """A piece was taken: however slowly, this one reads, and counts."""
        self._timer.cancel()
        self._timer = self._timed()
        self._slots.add(self)

    def give_back(self) -> None:
        """Let another one be answered. Doing it twice does nothing."""
        self._timer.cancel()
        self._slots.discard(self)


async def stand_back() -> None:
    """Leave the loop to others for a while, if there are any. Cancelling ends the wait."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    await asyncio.sleep(0)
    turn = loop.time() - began
    if turn > _IDLE_TURN_SECONDS:
        await asyncio.sleep(min(STAND_BACK * turn, STAND_BACK_SECONDS_MAX))

"""
Whose records of TLS are worked on: a slice of each turn, whoever waits in line.

What a client sends in records of a byte costs a call for each, and what is large and goes to many
is sealed anew for each. Whatever the number of clients, a turn of the loop does a bounded amount of
that; the rest waits, and each in the line has one piece at a time.

Invariants:
    A turn does no more than its slice, and one piece.
    Whoever comes works at once only where nobody waits.

Owned by the loop.
"""

from __future__ import annotations

import asyncio
from typing import Final, Protocol

UNITS_PER_TURN: Final = 512
"""A unit is some five microseconds: a record is read, or a quarter of a whole one sealed."""


class Waiting(Protocol):
    """Somebody with records to be worked on."""

    def work(self) -> None:
        """Do one piece, and wait again for the next."""


class TurnSlice:
    """How much of this turn is left, and who waits for the next."""

    __slots__ = ("_is_planned", "_left", "_line")

    def __init__(self) -> None:
        self._left = UNITS_PER_TURN
        self._line: dict[Waiting, None] = {}
        self._is_planned = False

    @property
    def is_open(self) -> bool:
        """Whether work may be done at once."""
        return self._left > 0 and not self._line

    def spend(self, units: int) -> None:
        """Take note of work that was done."""
        self._left -= units
        self._plan()

    def wait(self, who: Waiting) -> None:
        """Call `work` when it is its turn; once, however often this is asked for."""
        self._line.setdefault(who)
        self._plan()

    def leave(self, who: Waiting) -> None:
        """Forget one that is gone; fine if it does not wait."""
        self._line.pop(who, None)

    def _plan(self) -> None:
        if not self._is_planned:
            self._is_planned = True
            asyncio.get_running_loop().call_soon(self._turn)

    def _turn(self) -> None:
        self._is_planned = False
        self._left = UNITS_PER_TURN
        try:
            while self._line and self._left > 0:
                who = next(iter(self._line))
                del self._line[who]
                self._left -= 1
                who.work()
        finally:
            if self._line:
                self._plan()

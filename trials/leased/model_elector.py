"""
A place that elects as a model: sessions in the order of their coming, and how it may be wrong.

An honest one ends a session when it was not heard of for its time, sometimes a while later. The
others are what no broker may trust: one that elects everybody, one that elects nobody, and one that
says something else each time, of sessions too.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from holdfast.leases.elector import Line

HONEST = "honest"
YES = "says yes to everybody"
NOBODY = "elects nobody"
FICKLE = "changes its mind"
ELECTORS = (HONEST, YES, NOBODY, FICKLE)
_NOBODY = "f" * 32


class ModelElector:
    """What it knows, shared by all who ask."""

    def __init__(
        self,
        manner: str,
        session_seconds: float,
        clock: Callable[[], float],
        chance: random.Random,
    ) -> None:
        """`clock` is the world's."""
        self.manner = manner
        self._session_seconds = session_seconds
        self._clock = clock
        self._chance = chance
        self._ends: dict[str, float] = {}
        """When each session ends, in the order of the line."""
        self._ever: list[str] = []
        self._newest: dict[str, int] = {}

    def stand(self, candidate: str, *, is_willing: bool, number: int) -> Line:
        """
        One request, as it takes effect.

        One that comes behind a later one of the same broker, by its number, changes nothing: it is
        of a session, or a standing, that was left.
        """
        now = self._clock()
        if number < self._newest.get(candidate, 0):
            return Line(holders=self._said(candidate))
        self._newest[candidate] = number
        self._ends = {it: end for it, end in self._ends.items() if end > now}
        if is_willing:
            late = self._chance.choice((1.0, 1.0, 1.1, 1.5))
            self._ends[candidate] = now + self._session_seconds * late
            if candidate not in self._ever:
                self._ever.append(candidate)
        else:
            self._ends.pop(candidate, None)
        return Line(holders=self._said(candidate), sure_seconds=self._session_seconds)

    def _said(self, candidate: str) -> tuple[str, ...]:
        if self.manner == YES:
            return (candidate,)
        if self.manner == NOBODY:
            return (_NOBODY, *self._ends)
        if self.manner == FICKLE:
            return tuple(self._chance.sample(self._ever, self._chance.randint(0, len(self._ever))))
        return tuple(self._ends)

    def leave(self, candidate: str) -> None:
        """Who ends in good order says so."""
        self._ends.pop(candidate, None)

    def restart(self) -> None:
        """It was away: every session gets its whole time again."""
        until = self._clock() + self._session_seconds
        self._ends = {it: max(end, until) for it, end in self._ends.items()}

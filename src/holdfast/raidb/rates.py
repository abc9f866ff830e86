"""
How fast each of several databases stores what is of some size.

A message that one of them cannot store in the time of a lease would leave that one out each time it
is sent, and the others would be alone until it is filled again. So it is measured where something
large is stored, also while a database is filled; what is known to be too large for the slowest one
is refused to its sender.

Each rate is written by the thread of its own database.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

from holdfast.errors import UnreachableError
from holdfast.leases.contract import Outcome
from holdfast.leases.throughput import GATHERED_BYTES, Throughput
from holdfast.raidb.member import ActOf, Member

_LATE_FRACTION: Final = 0.8
"""What took so much of its bound, and did not end well, was too slow."""


class Rates:
    """Of all that were ever asked."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """Nothing is known yet."""
        self._clock = clock
        self._known: dict[str, Throughput] = {}

    def measured(self, member: str, act: ActOf, count: int) -> ActOf:
        """Give an act that stores so many bytes, and is measured if that is much."""
        if count < GATHERED_BYTES:
            return act
        rate, clock = self._known.setdefault(member, Throughput()), self._clock

        def measured(it: Member, seconds: float) -> Any:
            began = clock()
            try:
                outcome = act(it, seconds)
            except UnreachableError:
                took = clock() - began
                if took >= _LATE_FRACTION * seconds:
                    rate.late(count, took, clock())
                raise
            if outcome is Outcome.STORED:
                rate.stored(count, clock() - began, clock())
            return outcome

        return measured

    def stored_in(self, member: str, seconds: float) -> int:
        """Give what one stores in this time, as it was seen lately; 0 if nothing is known."""
        known = self._known.get(member)
        return 0 if known is None else known.bytes_in(seconds, self._clock())

    def bytes_max(self, members: Iterable[str], sure_seconds: float) -> int:
        """Give what each of these stores in its part of a lease; 0 if none is known to be slow."""
        now = self._clock()
        known = [
            self._known[it].bytes_max(sure_seconds, now) for it in members if it in self._known
        ]
        return min(filter(None, known), default=0)

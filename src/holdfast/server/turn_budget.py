"""
How long a turn may go on with one kind of work.

The loop is one thread: while it does one client's work all others wait, and so do the members that
count on its heart-beats. So whatever can be long asks this budget between its steps, and leaves the
rest for the next turn.

Owned by the loop.
"""

from __future__ import annotations

from holdfast.environment.clock import Clock


class TurnBudget:
    """One slice of time, begun anew for each kind of work of a turn."""

    __slots__ = ("_ends_at", "_monotonic", "_seconds")

    def __init__(self, clock: Clock, seconds: float) -> None:
        self._monotonic = clock.monotonic
        self._seconds = seconds
        self._ends_at = 0.0

    def begin(self, now: float | None = None) -> None:
        """Start a slice now; who has just read the clock says what it said."""
        self._ends_at = (self._monotonic() if now is None else now) + self._seconds

    def is_spent(self) -> bool:
        """Whether the slice is over."""
        return self._monotonic() >= self._ends_at

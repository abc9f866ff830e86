"""
Going over what a store is to show to people, again and again, in slices of the loop's time.

What is found is told in pieces. After a takeover, or when something told was given up, what is
shown may be anything, so the next look is a whole one. What is given up again and again, as where
somebody holds a lock on what is shown, is told ever later.

Invariants:
    Nothing is gathered while something that was told is not yet written.

Owned by the loop.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Final, Protocol

from holdfast.leases.projection import Changes, MessageKey

SECONDS: Final = 5.0
"""From the end of one look to the next."""
SECONDS_MAX: Final = 300.0
"""The longest pause, where what is told is given up again and again."""


class Shown(Protocol):
    """Who has it written: the driver of a log that is kept under a lease."""

    @property
    def can_project(self) -> bool: ...
    @property
    def projections_lost(self) -> int: ...
    @property
    def term(self) -> int: ...
    @property
    def shown_keys(self) -> tuple[MessageKey, ...]: ...
    def project(self, changes: Changes) -> None: ...


class ShowingWalk(ABC):
    """One look after the other."""

    def __init__(self, shown: Shown) -> None:
        """Tell `shown` of what is found."""
        self._shown = shown
        self._walk: Iterator[None] | None = None
        self._due_at = 0.0
        self._pause = SECONDS
        self._told_under: tuple[int, int] | None = None
        """The lease under which all was told, and what had been given up then; None: nothing."""
        self._under = (0, 0)
        """The same as the look that is under way has found it."""

    @property
    def is_under_way(self) -> bool:
        """Whether a look has begun and not ended."""
        return self._walk is not None

    def step(self, now: float, is_spent: Callable[[], bool], *, is_serving: bool) -> bool:
        """Do a bounded piece of work, if there is any; whether something is to be written now."""
        if not is_serving:
            self._walk = None
            return False
        shown = self._shown
        while shown.can_project:
            if self._walk is None:
                if now < self._due_at:
                    return False
                self._walk = self._whole_look()
            if next(self._walk, self) is self:
                self._walk, self._due_at = None, now + self._pause
                return False
            if is_spent():
                return False
        return self._walk is not None

    def _whole_look(self) -> Iterator[None]:
        self._under = (self._shown.term, self._shown.projections_lost)
        is_whole = self._under != self._told_under
        if is_whole:
            self._told_under = None
        for _ in self._look(is_whole=is_whole):
            yield
            if self._is_lost():
                # What the rest would say was compared with what may not be there.
                self._told_under, self._pause = None, min(2 * self._pause, SECONDS_MAX)
                return
        self._told_under, self._pause = self._under, SECONDS

    def _is_lost(self) -> bool:
        """Whether something told in this look was given up."""
        return self._under != (self._shown.term, self._shown.projections_lost)

    @abstractmethod
    def _look(self, *, is_whole: bool) -> Iterator[None]:
        """
        Go over all that is to be shown, a short step each; one ends with each piece that is told.

        Args:
            is_whole: Nothing is known of what is shown.
        """

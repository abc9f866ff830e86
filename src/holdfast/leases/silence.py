"""
When a broker that waits may take the lease: pure, by its own clock.

The clock starts anew whenever the epoch or the beat differs from what was seen last. What counts is
the time between two readings that show the same beat: a holder that gave none in between wrote its
last one before the first of them, so its own clock has ended its lease by the second.
"""

from __future__ import annotations

from holdfast.leases.contract import Holding

_BEATS_ON_THE_WAY = 1
"""One order at a time: a process that has died left no more than one that takes effect later."""


class Silence:
    """How long the holder has given no sign of life."""

    __slots__ = (
        "_beat",
        "_beats_after",
        "_doubted",
        "_gone",
        "_gone_at",
        "_is_read_after",
        "_since",
        "_still_seconds",
    )

    def __init__(self) -> None:
        self._beat: tuple[int, int] | None = None
        self._since = 0.0
        self._gone = ""
        self._gone_at = 0.0
        self._still_seconds = 0.0
        """So long it must have given no sign of life before that is believed."""
        self._is_read_after = False
        """Whether a reading began since it was said to be gone: the first one may show what it gave
        while it lived."""
        self._beats_after = 0
        """Signs of life since then; its last one may have been on its way."""
        self._doubted = ""
        """A holder that lived when it was said to be gone: that is not believed again."""

    @property
    def since(self) -> float:
        """When the beat that was read last was first seen."""
        return self._since

    def is_gone(self, holder: str, now: float, still_seconds: float = 0.0) -> bool:
        """
        The process of this holder is gone, as far as is known now; whether that is news.

        A hint, which only the fence makes safe: two signs of life after it prove it wrong. What
        comes from another machine counts once it has given none for `still_seconds`.
        """
        if holder in (self._gone, self._doubted):
            return False
        self._gone, self._gone_at, self._still_seconds = holder, now, still_seconds
        self._is_read_after, self._beats_after = False, 0
        return True

    def forget_gone(self) -> None:
        """Whoever it was does not hold the lease any more."""
        self._gone = ""

    def note(self, holding: Holding, began: float, ended: float) -> float:
        """
        A reading that began and ended then shows this; how long it was silent before it, for sure.
        """
        beat = (holding.epoch, holding.beat)
        if beat != self._beat:
            self._beat, self._since = beat, ended
            if self._is_read_after:
                self._beats_after += 1
            if self._gone and self._beats_after > _BEATS_ON_THE_WAY:
                self._doubted, self._gone = self._gone, ""
        if self._gone and began >= self._gone_at:
            self._is_read_after = True
        return max(began - self._since, 0.0)

    def may_take(self, holding: Holding, silent_seconds: float, needed: float, own: str) -> bool:
        """Whether nobody can hold it any more, or it is ours, or was given back."""
        claimant = holding.claimant
        if claimant is None or holding.is_released:
            return True
        if claimant.holder == own:
            return True
        if claimant.holder == self._gone:
            needed = min(needed, self._still_seconds)
        return silent_seconds >= needed

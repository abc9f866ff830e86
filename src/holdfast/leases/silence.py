"""
When a broker that waits may take the lease: pure, by its own clock.

The clock starts anew whenever the epoch or the beat differs from what was seen last. What counts is
the time between two readings that show the same beat: a holder that gave none in between wrote its
last one before the first of them, so its own clock has ended its lease by the second.
"""

from __future__ import annotations

from holdfast.leases.contract import Holding


class Silence:
    """How long the holder has given no sign of life."""

    __slots__ = ("_beat", "_since", "gone")

    def __init__(self) -> None:
        self._beat: tuple[int, int] | None = None
        self._since = 0.0
        self.gone = ""
        """The holder whose process is known to be gone; a hint that only the fence makes safe."""

    def note(self, holding: Holding, began: float, ended: float) -> float:
        """
        A reading that began and ended then shows this; how long it was silent before it, for sure.
        """
        beat = (holding.epoch, holding.beat)
        if beat != self._beat:
            self._beat, self._since = beat, ended
        return max(began - self._since, 0.0)

    def may_take(self, holding: Holding, silent_seconds: float, needed: float, own: str) -> bool:
        """Whether nobody can hold it any more, or it is ours, or was given back."""
        claimant = holding.claimant
        if claimant is None or holding.is_released:
            return True
        if claimant.holder in (own, self.gone):
            return True
        return silent_seconds >= needed

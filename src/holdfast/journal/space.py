"""
Whether the disk has room for the log to grow.

"low" is said while less than the reserve is free, early enough that acknowledging and cleaning go
on, and taken back only when a segment more than that is free: the state does not flicker.

Owned by the loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from holdfast.journal.settings import JournalSettings

SpaceState = Literal["ok", "low"]


class SpaceWatch:
    """Looks at the free bytes now and then."""

    __slots__ = ("_checked_at", "_free_bytes", "_settings", "_state")

    def __init__(self, settings: JournalSettings, free_bytes: Callable[[], int]) -> None:
        self._settings = settings
        self._free_bytes = free_bytes
        self._state: SpaceState = "ok"
        self._checked_at = float("-inf")

    def state(self, now: float, *, is_out_of_space: bool) -> SpaceState:
        """Tell how it is; `is_out_of_space` if a file could not be made for lack of room."""
        settings = self._settings
        if is_out_of_space:
            self._state = "low"  # Whatever the last look said: a write has found no room.
        if now - self._checked_at >= settings.space_check_seconds:
            self._checked_at = now
            wanted = settings.reserve
            if self._state == "low":
                wanted += settings.segment_bytes
            is_low = is_out_of_space or self._free_bytes() < wanted
            self._state = "low" if is_low else "ok"
        return self._state

"""
Whether there is room for the log to grow: on the disk, and within what the operator lets it have.

"low" is said while less than the reserve is free, or the log is over its limit, early enough that
acknowledging and cleaning go on, and taken back only when there is a segment more than that: the
state does not flicker.

Owned by the loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from holdfast.journal.settings import JournalSettings

SpaceState = Literal["ok", "low"]


class SpaceWatch:
    """Looks at the free bytes now and then."""

    __slots__ = (
        *("_checked_at", "_free_bytes", "_is_disk_low", "_is_log_over"),
        *("_log_bytes", "_settings"),
    )

    def __init__(
        self,
        settings: JournalSettings,
        free_bytes: Callable[[], int],
        log_bytes: Callable[[], int] = lambda: 0,
    ) -> None:
        self._settings = settings
        self._free_bytes = free_bytes
        self._log_bytes = log_bytes
        self._is_disk_low = self._is_log_over = False
        self._checked_at = float("-inf")

    def state(self, now: float, *, is_out_of_space: bool) -> SpaceState:
        """Tell how it is; `is_out_of_space` if a file could not be made for lack of room."""
        settings = self._settings
        if is_out_of_space:
            self._is_disk_low = True  # Whatever the last look said: a write has found no room.
        if now - self._checked_at >= settings.space_check_seconds:
            self._checked_at = now
            wanted = settings.reserve
            if self._is_disk_low:
                wanted += settings.segment_bytes
            self._is_disk_low = is_out_of_space or self._free_bytes() < wanted
        if settings.log_bytes_max:
            most = settings.log_bytes_max - settings.segment_bytes * self._is_log_over
            self._is_log_over = self._log_bytes() > most
        return "low" if self._is_disk_low or self._is_log_over else "ok"

    @property
    def is_log_over(self) -> bool:
        """Whether the log is over its limit, whatever the disk has left."""
        return self._is_log_over

    @property
    def is_over_limit(self) -> bool:
        """Whether it is low as the log is over its limit, and not for want of room on the disk."""
        return self._is_log_over and not self._is_disk_low

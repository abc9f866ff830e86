"""
How long the loop waits between two looks at the clock.

A node on which nothing happens would spend some per cent of a core on looking whether something is
due. So it looks less often once it has sealed no batch for a while, and its looks had nothing to
do: what comes from a socket, a member or the disk is taken at once as ever, and what is due by the
clock may be late by such a pause.
"""

from __future__ import annotations

from typing import Final

from holdfast.server.counters import Counters

QUIET_SECONDS: Final = 1.0
"""After so long without a batch a node counts as quiet."""
QUIET_PAUSE_SECONDS_MAX: Final = 0.1
"""What is due by the clock is never later than this."""
_NOTHING_SECONDS: Final = 0.001
"""A look at the clock for which a core works no longer than this had nothing to do."""


class Pace:
    """Says how long to wait after each look."""

    __slots__ = ("_batches", "_busy_at", "_counters", "_quiet_seconds", "_tick_seconds")

    def __init__(self, counters: Counters, tick_seconds: float, quiet_seconds: float) -> None:
        """
        Begin as if something had just happened.

        Args:
            counters: What the loop has sealed.
            tick_seconds: How long to wait while something happens.
            quiet_seconds: How long otherwise, a tenth of a second at most; where it is less than
                that, `tick_seconds` counts.
        """
        self._counters = counters
        self._tick_seconds = tick_seconds
        self._quiet_seconds = max(tick_seconds, min(quiet_seconds, QUIET_PAUSE_SECONDS_MAX))
        self._batches = -1
        self._busy_at = 0.0

    def pause(self, now: float, cpu_seconds: float) -> float:
        """Give the seconds to wait after a look at a time, for which a core worked so long."""
        batches = self._counters.batches
        if batches != self._batches:
            self._batches = batches
            self._busy_at = now
        is_quiet = now - self._busy_at > QUIET_SECONDS and cpu_seconds <= _NOTHING_SECONDS
        return self._quiet_seconds if is_quiet else self._tick_seconds

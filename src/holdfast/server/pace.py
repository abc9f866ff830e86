"""
How long the loop waits between two looks at the clock.

A node on which nothing happens would spend some per cent of a core on looking whether something is
due. So it rests until something is, once it has sealed no batch for a while and its looks had
nothing to do; but not for long, as not all that is due says when.
What comes from a socket, a member or the disk is taken at once as ever, and cuts a rest short.
"""

from __future__ import annotations

from typing import Final

from holdfast.server.counters import Counters

QUIET_SECONDS: Final = 1.0
"""After so long without a batch a node counts as quiet."""
REST_SECONDS_MAX: Final = 0.08
"""What does not say when it is due is never later than this: with a look and a commit that is
within the tenth of a second that is promised of delays and time limits."""
_REST_SECONDS_MIN: Final = 0.001
_NOTHING_SECONDS: Final = 0.001
"""A look at the clock for which a core works no longer than this had nothing to do."""


class Pace:
    """Says how long to wait after each look."""

    __slots__ = ("_batches", "_busy_at", "_counters", "_tick_seconds", "quiet_seconds")

    def __init__(self, counters: Counters, tick_seconds: float, quiet_seconds: float) -> None:
        """
        Begin as if something had just happened.

        Args:
            counters: What the loop has sealed.
            tick_seconds: How long to wait while something happens.
            quiet_seconds: How long otherwise where something is under way or has just happened, 80
                ms at most; where it is less than `tick_seconds`, that counts.
        """
        self._counters = counters
        self._tick_seconds = tick_seconds
        self.quiet_seconds = max(tick_seconds, min(quiet_seconds, REST_SECONDS_MAX))
        self._batches = -1
        self._busy_at = 0.0

    def pause(self, now: float, cpu_seconds: float, due: float) -> float:
        """
        Give the seconds to wait after a look at a time.

        Args:
            now: When the look was.
            cpu_seconds: How long a core worked for it.
            due: When something is due by the clock at the soonest; not after `now` where it is to
                be seen by looking often.
        """
        batches = self._counters.batches
        if batches != self._batches:
            self._batches = batches
            self._busy_at = now
        if now - self._busy_at <= QUIET_SECONDS or cpu_seconds > _NOTHING_SECONDS:
            return self._tick_seconds
        if due <= now:
            return self.quiet_seconds
        longest = max(self.quiet_seconds, REST_SECONDS_MAX)
        return min(max(due - now, _REST_SECONDS_MIN), longest)

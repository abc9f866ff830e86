"""
Virtual time: one line of events for a whole simulated world, and a clock for each machine on it.

Time stands still while an event runs and jumps to the next one. A machine's clocks may be off:
its monotonic clock runs a little too fast or too slow, its wall clock may jump.

Invariants:
    Events run in the order of their time; those of one time in the order they were planned.
    A monotonic clock never goes back, whatever is done to its rate.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import Any

_EPOCH_MICROSECONDS = 1_800_000_000_000_000


class Timeline:
    """What happens when; `now` is true time in seconds, which no machine knows."""

    __slots__ = ("_events", "_serial", "now")

    def __init__(self) -> None:
        self.now = 0.0
        self._serial = 0
        self._events: list[tuple[float, int, Callable[..., object], tuple[Any, ...]]] = []

    def after(self, seconds: float, action: Callable[..., object], *arguments: object) -> None:
        """Plan something for `seconds` from now."""
        self._serial += 1
        heapq.heappush(self._events, (self.now + seconds, self._serial, action, arguments))

    def run(self, seconds: float) -> None:
        """Let time pass."""
        self.run_until(self.now + seconds)

    def run_until(self, end: float) -> None:
        """Let time pass up to `end`."""
        events = self._events
        pop = heapq.heappop
        while events and events[0][0] <= end:
            self.now, _, action, arguments = pop(events)
            action(*arguments)
        self.now = end


class SimulatedClock:
    """One machine's clocks; they outlive its processes."""

    __slots__ = (
        "_base",
        "_rate",
        "_since",
        "_timeline",
        "_wall_offset_seconds",
        "wall_ahead_seconds_max",
    )

    def __init__(self, timeline: Timeline, *, start: float = 0.0) -> None:
        self._timeline = timeline
        self._rate = 1.0
        self._since = timeline.now
        self._base = start
        self._wall_offset_seconds = 0.0
        self.wall_ahead_seconds_max = 0.0
        """How far the wall clock ever was ahead of true time."""

    @property
    def wall_offset_seconds(self) -> float:
        """How far the wall clock is ahead of true time."""
        return self._wall_offset_seconds

    @wall_offset_seconds.setter
    def wall_offset_seconds(self, seconds: float) -> None:
        """Put the wall clock so far ahead of true time, or behind."""
        self._wall_offset_seconds = seconds
        self.wall_ahead_seconds_max = max(self.wall_ahead_seconds_max, seconds)

    def monotonic(self) -> float:
        """Return this machine's monotonic seconds."""
        return self._base + (self._timeline.now - self._since) * self._rate

    def thread_cpu(self) -> float:
        """Return 0: no simulated time passes in a turn."""
        return 0.0

    def wall_microseconds(self) -> int:
        """Return this machine's wall clock in microseconds."""
        true = self._timeline.now + self._wall_offset_seconds
        return _EPOCH_MICROSECONDS + int(true * 1e6)

    def run_at(self, rate: float) -> None:
        """Let the monotonic clock run this much faster (1.05) or slower (0.95) from now on."""
        self._base = self.monotonic()
        self._since = self._timeline.now
        self._rate = rate

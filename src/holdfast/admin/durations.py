"""
How long something takes, counted in fixed buckets.

A sync of the disk happens thousands of times a second, so an observation is one bisection and two
additions, and memory does not grow. The bounds grow by about a half each, from 50 microseconds to
ten seconds: a percentile read from them is at most one such step too high.

Owned by the task that observes; a status may be taken from the same task only.
"""

from __future__ import annotations

from bisect import bisect_left
from itertools import accumulate

from holdfast.admin.counters import DurationStatus

SECONDS_BOUNDS = (
    *(0.00005, 0.000075, 0.0001, 0.00015, 0.0002, 0.0003, 0.0005, 0.00075),
    *(0.001, 0.0015, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.03, 0.05, 0.075),
    *(0.1, 0.15, 0.2, 0.3, 0.5, 0.75, 1.0, 2.0, 5.0, 10.0),
)


class DurationHistogram:
    """Counts durations by bucket; never forgets, never grows."""

    __slots__ = ("_counts", "_seconds_sum")

    def __init__(self) -> None:
        self._counts = [0] * (len(SECONDS_BOUNDS) + 1)
        self._seconds_sum = 0.0

    def observe(self, seconds: float) -> None:
        """Count one duration."""
        self._counts[bisect_left(SECONDS_BOUNDS, seconds)] += 1
        self._seconds_sum += seconds

    def status(self) -> DurationStatus:
        """What was counted so far, with the median and the 99th percentile, in seconds."""
        cumulative = list(accumulate(self._counts))
        return DurationStatus(
            count=cumulative[-1],
            seconds_sum=self._seconds_sum,
            seconds_p50=_percentile(cumulative, 0.50),
            seconds_p99=_percentile(cumulative, 0.99),
            buckets=tuple(zip(SECONDS_BOUNDS, cumulative, strict=False)),
        )


def _percentile(cumulative: list[int], share: float) -> float:
    """The upper bound of the bucket where that share of all is reached; 0 if nothing was seen."""
    if not cumulative[-1]:
        return 0.0
    place = bisect_left(cumulative, share * cumulative[-1])
    return SECONDS_BOUNDS[min(place, len(SECONDS_BOUNDS) - 1)]

"""
The histogram of durations.
"""

from __future__ import annotations

import pytest

from holdfast.admin.durations import SECONDS_BOUNDS, DurationHistogram


def test_nothing_observed_is_zero() -> None:
    """
    A node that has just started has percentiles of 0, not an error.
    """
    status = DurationHistogram().status()
    assert (status.count, status.seconds_p50, status.seconds_p99) == (0, 0.0, 0.0)


def test_percentiles_are_bucket_bounds_that_are_reached() -> None:
    """
    Of 99 short and one long duration the median is short, the 99th percentile still is.
    """
    histogram = DurationHistogram()
    for _ in range(99):
        histogram.observe(0.0009)
    histogram.observe(0.04)
    status = histogram.status()
    assert (status.count, status.seconds_p50, status.seconds_p99) == (100, 0.001, 0.001)
    histogram.observe(0.04)
    assert histogram.status().seconds_p99 == 0.05


def test_a_duration_beyond_all_bounds_is_counted() -> None:
    """
    A minute long stall counts, and the percentile says at least the last bound.
    """
    histogram = DurationHistogram()
    histogram.observe(60.0)
    status = histogram.status()
    assert (status.count, status.buckets[-1]) == (1, (10.0, 0))
    assert status.seconds_p99 == 10.0


def test_the_sum_and_the_bounds_are_exact() -> None:
    """
    A duration equal to a bound belongs to that bucket, as Prometheus has it.
    """
    histogram = DurationHistogram()
    histogram.observe(0.001)
    histogram.observe(0.002)
    status = histogram.status()
    assert dict(status.buckets)[0.001] == 1
    assert status.seconds_sum == pytest.approx(0.003)
    assert sorted(SECONDS_BOUNDS) == list(SECONDS_BOUNDS)

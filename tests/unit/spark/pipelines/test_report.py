"""
The report's arithmetic that needs no Spark: points in time, and curves made of counts.
"""

from __future__ import annotations

import pytest

from holdfast.spark.pipelines.report import POINTS_MAX, SECOND, Buckets, _backlog, _handed_out

HOUR = 3600 * SECOND


@pytest.mark.parametrize("length", [0, 1, 90 * SECOND, 119 * SECOND, HOUR, 90 * 24 * HOUR])
@pytest.mark.parametrize("first", [0, 1_700_000_000_123_456])
def test_buckets_cover_the_time_with_few_points(first: int, length: int) -> None:
    """The first and the last moment have a bucket, whatever the length."""
    found = Buckets.covering(first, first + length)
    assert found.start <= first
    assert 1 <= found.count <= POINTS_MAX
    assert found.start + found.count * found.step > first + length


def test_what_stands_above_the_mark_was_not_handed_out() -> None:
    """Ten stored, the mark at four: four; later the mark passes all that are there."""
    curves = {"stored": [10, 0, 5], "acknowledged": [0, 0, 0]}
    assert _handed_out(curves, [10, 0, 15], [4, 4096, 0]) == [4, 6, 5]


def test_what_was_acknowledged_was_handed_out() -> None:
    """A mark that was cleaned away does not make the report claim the impossible."""
    curves = {"stored": [10, 0], "acknowledged": [0, 7]}
    assert _handed_out(curves, [10, 0], [0, 0]) == [0, 7]


def test_the_backlog_is_what_came_less_what_went() -> None:
    """All three ways to go count."""
    curves = {"stored": [10, 5], "acknowledged": [3, 0], "dead-lettered": [0, 1], "purged": [0, 11]}
    curves |= {"moved": [0, 0], "removed": [0, 0]}
    assert _backlog(curves) == [7, 0]

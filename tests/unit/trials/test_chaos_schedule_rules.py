"""
What may be said of one scheduled message: how often it comes, and when at the earliest.
"""

from __future__ import annotations

import pytest

from trials.chaos.schedule_rules import Plan

ONCE = Plan(500)
OFTEN = Plan(500, period_ms=200, repeats=3)


def test_the_last_time_is_so_many_periods_after_the_first() -> None:
    """Whoever waits for all of it waits so long."""
    assert (ONCE.times, ONCE.last_ms) == (1, 500)
    assert (OFTEN.times, OFTEN.last_ms) == (4, 1100)


@pytest.mark.parametrize(
    ("place", "others", "elapsed_ms", "expected"),
    [
        (10, [], 499, 1),
        (10, [], 500, 0),
        (12, [10, 11], 899, 1),
        (12, [10, 11], 900, 0),
        (10, [11, 12], 500, 0),
        (12, [10, 11, 12], 900, 0),
    ],
)
def test_each_further_time_is_due_a_period_later(place, others, elapsed_ms, expected) -> None:
    """By how many of its times stand before it, in whatever order they came."""
    assert OFTEN.early_ms(place, others, elapsed_ms) == expected


@pytest.mark.parametrize(
    ("plan", "count", "is_stored", "expected"),
    [
        (ONCE, 1, True, ""),
        (ONCE, 0, True, "lost"),
        (ONCE, 0, False, ""),
        (ONCE, 2, False, "stored_twice"),
        (OFTEN, 4, True, ""),
        (OFTEN, 3, False, "lost"),
        (OFTEN, 0, False, ""),
        (OFTEN, 5, True, "stored_twice"),
    ],
)
def test_each_time_is_once(plan, count, is_stored, expected) -> None:
    """What was not confirmed may never come, or come each time."""
    assert plan.wrong_count(count, is_stored=is_stored) == expected

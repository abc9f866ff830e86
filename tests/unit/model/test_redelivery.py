"""
When a rejected message comes again: ActiveMQ's rule, worked out alike everywhere.
"""

from __future__ import annotations

import pytest

from holdfast.model.redelivery import DELAY_MS_MAX, Redelivery


def delays(rule: Redelivery, count: int = 5) -> list[int]:
    return [rule.delay_of(failures, "x") for failures in range(1, count + 1)]


@pytest.mark.parametrize(
    ("rule", "expected"),
    [
        (Redelivery(), [1000, 1000, 1000, 1000, 1000]),
        (Redelivery(initial_delay_ms=0, delay_ms=70), [0, 70, 70, 70, 70]),
        (Redelivery(initial_delay_ms=5, delay_ms=70), [5, 70, 70, 70, 70]),
        (
            Redelivery(initial_delay_ms=10, is_exponential=True, multiplier=2),
            [10, 20, 40, 80, 160],
        ),
        (
            Redelivery(initial_delay_ms=0, delay_ms=10, is_exponential=True, multiplier=3),
            [0, 10, 30, 90, 270],
        ),
        (
            Redelivery(
                initial_delay_ms=10,
                delay_ms=1,
                is_exponential=True,
                multiplier=2,
                delay_ms_max=50,
            ),
            [10, 20, 40, 50, 50],
        ),
        (Redelivery(delay_ms=70, is_exponential=True, multiplier=1), [1000, 70, 70, 70, 70]),
    ],
)
def test_delays_are_those_of_activemq(rule, expected) -> None:
    """The first is its own; then the delay, or each time so many times the last."""
    assert delays(rule) == expected


def test_no_delay_is_longer_than_the_longest() -> None:
    """However often it failed, and however fast the delays grow: no overflow, no endless work."""
    rule = Redelivery(is_exponential=True, multiplier=1000)
    assert rule.delay_of(255, "x") == DELAY_MS_MAX


def test_scattered_delays_differ_by_chance_and_by_no_more_than_they_may() -> None:
    """What failed together does not come together; the same chance gives the same delay."""
    rule = Redelivery(initial_delay_ms=1000, is_scattered=True, scatter=0.2)
    found = {rule.delay_of(1, f"1 {key} 1") for key in range(200)}
    assert len(found) > 100
    assert 800 <= min(found) < 850
    assert 1140 < max(found) <= 1200
    assert rule.delay_of(1, "1 7 1") == rule.delay_of(1, "1 7 1")


@pytest.mark.parametrize(
    ("maximum", "failures", "is_dead"),
    [(0, 1, True), (2, 2, False), (2, 3, True), (-1, 255, False), (254, 255, True)],
)
def test_it_comes_so_often_and_no_more(maximum, failures, is_dead) -> None:
    """Two redeliveries are three deliveries; without a limit it comes for ever."""
    assert Redelivery(maximum=maximum).is_exhausted(failures) is is_dead

"""
When dispatch of a queue starts.
"""

from __future__ import annotations

import pytest

from holdfast.broker.serving.effective import Sharing
from holdfast.broker.serving.router.gate import WAIT_MS, Gate

NOW = 1_000_000


@pytest.mark.parametrize(
    ("awaited", "start_ms", "opens_at"),
    [(0, 0, 0), (1, 0, 0), (1, 500, 0), (0, 500, 500), (3, 0, WAIT_MS), (3, 70, 70)],
)
def test_it_opens_after_a_while(awaited: int, start_ms: int, opens_at: int) -> None:
    """As long as is said, a second where only the number is; without either it is open."""
    gate = Gate(Sharing(consumers_awaited=awaited, start_ms=start_ms))
    assert gate.is_open is (opens_at == 0)
    assert gate.came(1) is (opens_at > 0)
    if opens_at:
        assert gate.wake(NOW) == NOW + opens_at
        assert gate.wake(NOW + opens_at - 1) == NOW + opens_at
        assert not gate.is_open
    assert gate.wake(NOW + opens_at) == 0
    assert gate.is_open


def test_it_opens_once_enough_have_come_and_closes_when_all_have_left() -> None:
    """Those who leave in between change nothing of what is open."""
    gate = Gate(Sharing(consumers_awaited=3, start_ms=60_000))
    assert [gate.came(count) for count in (1, 2)] == [True, False]
    assert not gate.is_open
    gate.came(3)
    assert gate.is_open
    for count in (2, 1):
        gate.left(count)
        assert gate.is_open
    gate.left(0)
    assert not gate.is_open
    assert gate.came(1)
    assert gate.wake(NOW) == NOW + 60_000


def test_time_alone_is_not_cut_short_by_how_many_come() -> None:
    """Nobody said how many are enough."""
    gate = Gate(Sharing(start_ms=10))
    gate.came(1)
    gate.came(2)
    assert not gate.is_open

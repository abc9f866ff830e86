"""
Waiting for what nobody calls back for.
"""

from __future__ import annotations

import asyncio
from types import SimpleNamespace

import pytest

from holdfast.server.waiting import wait_until


@pytest.mark.parametrize("looks", [0, 3])
def test_it_ends_when_the_condition_holds(looks: int) -> None:
    """
    At once, if it does already.
    """
    answers = iter([False] * looks + [True])
    clock = SimpleNamespace(monotonic=lambda: 1.0)
    assert asyncio.run(wait_until(lambda: next(answers), clock, 1.0))
    assert list(answers) == []


def test_it_ends_at_the_deadline() -> None:
    """
    By the clock it is given, and says that nothing came.
    """
    times = iter([1.0, 2.0, 3.5])
    clock = SimpleNamespace(monotonic=lambda: next(times))
    assert not asyncio.run(wait_until(lambda: False, clock, 3.0))

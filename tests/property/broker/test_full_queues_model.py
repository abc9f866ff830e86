"""
Queues with limits, whatever their clients do; see `full_machine`.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.property.broker.full_machine import FullMachine

STEPS = {
    "send": 4.0,
    "send_volatile": 1.0,
    "commit_transaction": 0.6,
    "subscribe": 1.0,
    "acknowledge": 3.0,
    "leave": 0.5,
    "seal": 1.5,
    "commit": 1.5,
    "turn": 3.0,
    "change_leader": 0.1,
}


@pytest.mark.parametrize("is_of_bytes", [False, True], ids=["count", "bytes"])
@pytest.mark.parametrize("limit", [1, 3, 12])
@pytest.mark.parametrize("overflow", ["drop-head", "reject"])
@given(seed=st.integers(0, 1 << 32))
def test_no_entry_leaves_more_than_may_be(
    overflow: str, limit: int, seed: int, *, is_of_bytes: bool
) -> None:
    """
    And what is dropped are the oldest that nobody has, never the newest; what is refused is not
    there. A queue whose messages are all in delivery but one has that one more.
    """
    random = Random(seed)
    machine = FullMachine(limit, overflow, is_of_bytes=is_of_bytes)
    for _ in range(80):
        (name,) = random.choices(list(STEPS), list(STEPS.values()))
        getattr(machine, name)(random)
    machine.turn(random)
    machine.turn(random)
    machine.check_count()

"""
Messages that expire, against a small model, walked far by weights; see `expiry_machine`.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.property.broker.expiry_machine import ExpiryMachine
from tests.property.broker.test_broker_model import STEPS, arguments, is_possible

EXPIRING = STEPS | {
    **dict.fromkeys(("subscribe", "turn", "send", "time_passes"), 3.0),
    **dict.fromkeys(("send_transient", "come_to_rest"), 0.7),
    "change_leader": 0.2,
    "raise_the_level": 0.0,
}
STORIES: dict[str, dict[str, float]] = {
    "of all kinds": {},
    "with much on its way": {"seal": 3, "commit": 2, "dispatch": 3, "turn": 1, "consumer_dies": 2},
    "with late words and transactions": {
        "begin": 4,
        "acknowledge_by_guess": 14,
        "acknowledge_in_transaction": 4,
        "abort_transaction": 3,
        "commit_transaction": 1,
        "consumer_dies": 2,
    },
    "with returns": {"reject_for_now": 6, "reject": 1, "change_leader": 0.4},
    "with moves and cleaning": {"move": 4, "clean": 4, "reject": 1, "change_leader": 0.4},
    "with purges": {"purge_or_delete": 2, "clean": 2},
}
POLICIES: dict[str, dict[str, object]] = {
    "dead letters": {"processNonPersistent": True},
    "dead for a while": {"expiration": 80},
    "nowhere": {"processExpired": False},
    "on their way out": {"expireMessagesPeriod": 0},
}


@pytest.mark.parametrize("story", STORIES)
@given(seed=st.integers(0, 1 << 32))
def test_nothing_expired_is_delivered_and_all_of_it_goes(story: str, seed: int) -> None:
    """
    M1, M2, M3, M6 and M11 with lives that end: whatever else becomes of a message, it goes to
    nobody after that, is taken from nobody, and is gone soon; each node has the same times.
    """
    walk(story, [*POLICIES][seed % len(POLICIES)], seed)


def walk(story: str, policy: str, seed: int) -> int:
    """Take 120 steps, and come to rest; gives how many messages expired."""
    random, machine = Random(seed), ExpiryMachine(**POLICIES[policy])
    weights = EXPIRING | STORIES[story]
    for step in range(120):
        (name,) = random.choices(list(weights), list(weights.values()))
        if name == "come_to_rest":
            machine.come_to_rest()
        elif is_possible(machine, name):
            getattr(machine, name)(**arguments(name, random))
        if step % 8 == 0:
            machine.check()
    machine.check()
    machine.teardown()
    return machine.expired_count

"""
Consumers that are not equal, against a small model, walked far by weights; see `claim_machine`.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.property.broker.claim_machine import CLAIMS, ClaimMachine
from tests.property.broker.test_broker_model import STEPS
from tests.property.broker.walking import walk

CLAIMING = STEPS | {
    **dict.fromkeys(("subscribe", "turn", "send"), 3.0),
    **dict.fromkeys(("deadlines_pass", "come_to_rest", "consumer_dies", "browse"), 0.7),
    "change_leader": 0.1,
}

STORIES = {
    "of all kinds": {},
    "with transactions": {
        "begin": 2,
        "acknowledge_in_transaction": 6,
        "commit_transaction": 2,
        "abort_transaction": 3,
        "deadlines_pass": 1.5,
    },
    "with returns": {"raise_the_level": 2, "reject_for_now": 5, "time_passes": 2},
}


@pytest.mark.parametrize("story", STORIES)
@given(seed=st.integers(0, 1 << 32))
@example(seed=785).via("a late word about what only a former leader had sent was rolled back")
def test_each_gets_what_it_may_claim_and_nobody_else(story: str, seed: int) -> None:
    """
    M3, M4 and M7: no two hold messages where one is the only one, the highest with room come first,
    order is kept over each change, and what may go goes; whatever else happens.
    """
    random = Random(seed)
    machine = ClaimMachine()
    weights = CLAIMING | STORIES[story]
    walk(machine, random, weights, lambda: {"claim": random.choice(CLAIMS)})

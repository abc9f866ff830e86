"""
Messages in groups, against a small model, walked far by weights; see `group_machine`.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.property.broker.claim_machine import CLAIMS
from tests.property.broker.group_machine import GroupMachine
from tests.property.broker.test_broker_model import STEPS
from tests.property.broker.walking import walk

GROUPING = STEPS | {
    **dict.fromkeys(("subscribe", "turn", "send"), 3.0),
    **dict.fromkeys(("deadlines_pass", "come_to_rest", "consumer_dies", "browse"), 0.7),
    "change_leader": 0.1,
}
STORIES = {
    "of all kinds": {},
    "with many who come and go": {"subscribe": 4, "consumer_dies": 3, "acknowledge": 3},
    "with transactions": {
        "begin": 2,
        "acknowledge_in_transaction": 6,
        "commit_transaction": 2,
        "abort_transaction": 3,
        "deadlines_pass": 1.5,
    },
    "with returns": {"reject_for_now": 5, "time_passes": 2, "change_leader": 0.3},
    "with moves and copies of the cleaner": {
        "move": 2,
        "reject": 2,
        "clean": 2,
        "purge_or_delete": 0,
    },
}


@pytest.mark.parametrize("claims", [False, True], ids=["equal", "unequal"])
@pytest.mark.parametrize("story", STORIES)
@given(seed=st.integers(0, 1 << 32))
def test_a_group_is_in_one_hand_and_in_order(
    story: str,
    claims: bool,
    seed: int,
) -> None:
    """
    M3, M4, M7 and M11 for groups: whoever comes, goes, rejects, rolls back or takes over.
    """
    random = Random(seed)
    machine = GroupMachine()
    machine.raise_the_level()
    machine.turn()
    weights = GROUPING | STORIES[story]
    walk(machine, random, weights, lambda: {"claim": random.choice(CLAIMS)} if claims else {})

"""
Users come while producers run, and all call theirs alike: what each is told is stored is (S7).
"""

from __future__ import annotations

import pytest

from tests.simulation.worlds import assert_kept
from trials.safeguards.ablation import catch
from trials.safeguards.user_producers import ABLATIONS, bent
from trials.simulation.faults import Plan, focused
from trials.simulation.user_producers import TAKEN_FIRST, USERS_CAME


@pytest.mark.slow
@pytest.mark.parametrize("topology", ["one", "three", "witness"])
def test_nobody_makes_another_users_message_vanish(topology: str) -> None:
    """Under crashes and hand-overs; and who ran before there were users goes on, nothing twice."""
    kinds = (USERS_CAME, "crash", "power cut", "transfer", "partition", "heal network")

    def made(seed: int) -> Plan:
        plan = focused(seed, kinds, topology=topology)
        bent(plan)
        return plan

    assert_kept(made, first=1, count=3, happened={USERS_CAME, TAKEN_FIRST})


@pytest.mark.slow
@pytest.mark.parametrize("ablation", ABLATIONS, ids=lambda it: it.name)
def test_a_safeguard_that_is_missing_is_noticed(ablation) -> None:
    """Each by one of some seeds: else the checker would prove nothing."""
    assert catch(ablation, range(1, 41)) is not None

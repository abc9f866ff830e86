"""
A fresh node is taken in by the old leader, and by a copy that an operator forces to go on.
"""

from __future__ import annotations

import pytest

from trials.safeguards.ablation import without
from trials.safeguards.generations import ABLATIONS
from trials.simulation.faults import Plan, focused
from trials.simulation.simulator import simulate
from trials.troubles.taken_in_twice import TAKEN_IN_TWICE


def plan(seed: int, topology: str) -> Plan:
    made = focused(seed, (TAKEN_IN_TWICE,), topology=topology)
    made.operations = 60
    return made


@pytest.mark.parametrize(("topology", "seed"), [("five", 4), ("learner", 4)])
def test_it_is_shut_out_though_the_copy_names_it(topology: str, seed: int) -> None:
    """The copy met it while it was fresh; it woke with the log of the former generation."""
    result = simulate(seed, plan(seed, topology))

    assert "" == result.violation
    assert 1 <= result.faults[TAKEN_IN_TWICE]


def test_who_follows_with_that_log_is_found_out() -> None:
    """What keeps it out is that the generation has been led, and it is not of it."""
    (ablation,) = (it for it in ABLATIONS if it.kinds == (TAKEN_IN_TWICE,))
    with without(ablation):
        violation = simulate(4, plan(4, "five")).violation

    assert "" != violation

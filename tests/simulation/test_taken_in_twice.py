"""
A fresh node is taken in by the old leader, and by a copy that an operator forces to go on.
"""

from __future__ import annotations

import pytest

from tests.simulation.worlds import first_with
from trials.safeguards.ablation import without
from trials.safeguards.generations import ABLATIONS
from trials.simulation.faults import Plan, focused
from trials.simulation.simulator import simulate
from trials.troubles.taken_in_twice import TAKEN_IN_TWICE

SEEDS = range(1, 25)
"""Lived through until it happened in one: which one that is changes with all that is drawn."""


def plan(seed: int, topology: str) -> Plan:
    made = focused(seed, (TAKEN_IN_TWICE,), topology=topology)
    made.operations = 60
    return made


@pytest.mark.slow
@pytest.mark.parametrize("topology", ["five", "learner"])
def test_it_is_shut_out_though_the_copy_names_it(topology: str) -> None:
    """The copy met it while it was fresh; it woke with the log of the former generation."""
    assert first_with(TAKEN_IN_TWICE, lambda seed: plan(seed, topology))


@pytest.mark.slow
def test_who_follows_with_that_log_is_found_out() -> None:
    """What keeps it out is that the generation has been led, and it is not of it."""
    (ablation,) = (it for it in ABLATIONS if it.kinds == (TAKEN_IN_TWICE,))
    for seed in SEEDS:
        with without(ablation):
            result = simulate(seed, plan(seed, "five"))
        if result.violation:
            break

    assert "" != result.violation
    assert 1 <= result.faults[TAKEN_IN_TWICE]
    assert "" == simulate(seed, plan(seed, "five")).violation

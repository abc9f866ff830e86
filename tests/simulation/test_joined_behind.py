"""
A member that joined anew behind a copy's end sleeps while an operator forces the copy to go on.
"""

from __future__ import annotations

import pytest

from tests.simulation.worlds import first_broken, first_with
from trials.safeguards.ablation import without
from trials.safeguards.generations import ABLATIONS
from trials.simulation.faults import Plan, focused
from trials.troubles.joined_behind import JOINED_BEHIND


def plan(seed: int, topology: str) -> Plan:
    made = focused(seed, (JOINED_BEHIND,), topology=topology)
    made.operations = 60
    return made


@pytest.mark.parametrize("topology", ["five", "learner"])
def test_it_is_shut_out_and_not_taken_in(topology: str) -> None:
    """Its link is older than the promotion, and the copy has never heard of its identity."""
    assert first_with(JOINED_BEHIND, lambda seed: plan(seed, topology))


def test_who_takes_it_in_is_found_out() -> None:
    """What keeps it out is what it said of its generation when the link was made."""
    (ablation,) = (it for it in ABLATIONS if it.kinds == (JOINED_BEHIND,))
    with without(ablation):
        violation = first_broken(lambda seed: plan(seed, "five"))

    assert "" != violation

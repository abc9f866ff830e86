"""
All that a promotion shut out are started again together, while the copy that went on is down.
"""

from __future__ import annotations

from tests.simulation.worlds import first_broken, first_with
from trials.safeguards.ablation import without
from trials.safeguards.generations import ABLATIONS
from trials.simulation.faults import Plan, focused
from trials.troubles.init_systems import AS_IT_IS
from trials.troubles.shut_out_together import OUT_TOGETHER


def plan(seed: int) -> Plan:
    made = focused(seed, (OUT_TOGETHER,))
    made.operations = 60
    return made


def test_they_elect_nobody() -> None:
    """They are a majority of the members that they know, and were told that another rules."""
    assert first_with(OUT_TOGETHER, plan)


def test_who_is_started_again_as_it_is_does_no_harm() -> None:
    """By an init system, before an operator empties its disk."""
    kinds = ("forced promotion", "crash", AS_IT_IS)
    assert first_with(AS_IT_IS, lambda seed: focused(seed, kinds, topology="two"))


def test_who_forgets_it_is_found_out() -> None:
    """What keeps them from it is what their ballots say."""
    (ablation,) = (it for it in ABLATIONS if it.kinds == (OUT_TOGETHER,))
    with without(ablation):
        violation = first_broken(plan)

    assert "leads, though it was shut out and told so" in violation

"""
A simulated node that is told of other members than the others: nobody forms a cluster until it is
told rightly, and then all form one.
"""

from __future__ import annotations

import pytest

from trials.safeguards.ablation import without
from trials.safeguards.membership import ABLATIONS
from trials.simulation.faults import Plan, focused
from trials.simulation.simulator import simulate
from trials.troubles.wrong_lists import UNTOLD_SITE, WRONG_LIST


def plan(seed: int, topology: str = "three") -> Plan:
    made = focused(seed, (WRONG_LIST, "crash"), topology=topology)
    made.operations = 200
    return made


@pytest.mark.parametrize("topology", ["two", "three", "witness", "five"])
def test_one_wrong_list_forms_no_cluster(topology: str) -> None:
    """Whatever is wrong in it; the world lives on as any other once it is right."""
    results = [simulate(seed, plan(seed, topology)) for seed in (1, 2)]

    assert ["", ""] == [it.violation for it in results]
    assert [1, 1] == [it.faults[WRONG_LIST] for it in results]


def test_a_site_that_its_own_node_was_not_told_forms_no_cluster() -> None:
    """Who was told of it would found another cluster than the one whose site it is."""
    result = simulate(3, plan(3, "two"))

    assert "" == result.violation
    assert (1, 1) == (result.faults[UNTOLD_SITE], result.faults[WRONG_LIST])


def test_founders_that_compare_nothing_are_found_out() -> None:
    """The safeguard is what keeps them from it."""
    (ablation,) = (it for it in ABLATIONS if it.kinds == (WRONG_LIST,))
    with without(ablation):
        violation = simulate(1, plan(1)).violation

    assert "formed a cluster on lists that differ" in violation

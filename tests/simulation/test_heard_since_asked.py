"""
One of those that an operator lets go on together hears more after it was asked how far it is.
"""

from __future__ import annotations

import pytest

from trials.safeguards.ablation import without
from trials.safeguards.generations import ABLATIONS
from trials.simulation.faults import Plan, focused
from trials.simulation.simulator import simulate
from trials.troubles.heard_since_asked import HEARD_SINCE
from trials.troubles.promoted_together import TOGETHER


def plan(seed: int) -> Plan:
    made = focused(seed, (HEARD_SINCE,), topology="far")
    made.operations = 60
    return made


@pytest.mark.parametrize("seed", [1, 2])
def test_nobody_goes_on_without_what_it_has_heard(seed: int) -> None:
    """The first act waits, the next one goes by what is true then, and all of them are voters."""
    result = simulate(seed, plan(seed))

    assert "" == result.violation
    assert 1 == result.faults[HEARD_SINCE]
    assert 1 <= result.faults[TOGETHER]


def test_going_by_what_was_said_is_found_out() -> None:
    """It ends over an entry that it has applied and that the first one lacks."""
    (ablation,) = (it for it in ABLATIONS if it.kinds == (HEARD_SINCE,))
    with without(ablation):
        violation = simulate(1, plan(1)).violation

    assert "committed here with" in violation

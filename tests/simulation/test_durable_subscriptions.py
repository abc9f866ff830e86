"""
Durable subscriptions get what was sent since they were made, while leaders change and they leave.
"""

from __future__ import annotations

import pytest

from tests.simulation.worlds import FAILOVERS, assert_kept, broken_without, busy
from trials.safeguards.ablation import Ablation
from trials.safeguards.durables import ABLATIONS
from trials.simulation.durable_clients import ANEW, AWAY, COPIED, DURABLE, OWN
from trials.simulation.faults import Plan

COUNT = 3


def plan(seed: int) -> Plan:
    return busy(seed, DURABLE, *FAILOVERS)


def test_each_gets_what_was_sent_since() -> None:
    """
    M8 over failovers and cleaning; and all of it is delivered in the end, to each.
    """
    assert_kept(plan, first=1, count=COUNT, happened=(AWAY, ANEW, COPIED, OWN))


@pytest.mark.parametrize(
    ("ablation", "naming"), list(zip(ABLATIONS, ("M8", "M8", "M8", "M8"), strict=True))
)
def test_what_is_not_guarded_is_found_out(ablation: Ablation, naming: str) -> None:
    """The ablations: what it does not want comes, or what it is done with, or it is not there."""
    assert broken_without(ablation, plan, range(1, 41), naming=naming)

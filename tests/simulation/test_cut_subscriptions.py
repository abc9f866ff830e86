"""
Durable subscriptions that keep the newest lose the oldest, and nothing that anybody has.
"""

from __future__ import annotations

import pytest

from tests.simulation.worlds import FAILOVERS, assert_kept, broken_without, busy
from trials.safeguards.ablation import Ablation
from trials.safeguards.cut_durables import ABLATIONS
from trials.simulation.cut_clients import CUT, DROPPED, GONE
from trials.simulation.faults import Plan


def plan(seed: int) -> Plan:
    return busy(seed, CUT, *FAILOVERS)


def test_the_oldest_go_that_nobody_has() -> None:
    """
    Q59 of subscriptions, with a consumer and without, over failovers; what is left arrives.
    """
    assert_kept(plan, first=1, count=2, happened=(GONE, DROPPED))


@pytest.mark.parametrize("ablation", ABLATIONS, ids=lambda it: it.name)
def test_a_safeguard_that_is_missing_is_found_out(ablation: Ablation) -> None:
    """The ablations: more goes than is too much, or what a consumer has."""
    assert broken_without(ablation, plan, range(1, 12), naming="Q59")

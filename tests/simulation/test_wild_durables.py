"""
Durable subscriptions of wildcards get what was sent since they were made to topics that come later.
"""

from __future__ import annotations

import pytest

from tests.simulation.worlds import FAILOVERS, assert_kept, broken_without, busy
from trials.safeguards.ablation import Ablation
from trials.safeguards.wild_durables import ABLATIONS
from trials.simulation.durable_clients import ANEW, AWAY, COPIED
from trials.simulation.faults import Plan
from trials.simulation.wild_durable_clients import EMPTIED, NEW_TOPIC, WILD_DURABLE

COUNT = 3


def plan(seed: int) -> Plan:
    return busy(seed, WILD_DURABLE, *FAILOVERS)


def test_each_gets_what_its_wildcard_means() -> None:
    """
    M8 over failovers and cleaning, from the first message of each topic on; all of it is delivered.
    """
    assert_kept(plan, first=1, count=COUNT, happened=(AWAY, ANEW, COPIED, NEW_TOPIC, EMPTIED))


@pytest.mark.parametrize("ablation", ABLATIONS)
def test_what_is_not_guarded_is_found_out(ablation: Ablation) -> None:
    """The ablations: it has no part where something was sent that it wants."""
    assert broken_without(ablation, plan, range(1, 41))

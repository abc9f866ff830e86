"""
What one SEND sends to several queues is on all of them or nowhere, while leaders change.
"""

from __future__ import annotations

import pytest

from tests.simulation.worlds import FAILOVERS, all_kept, broken_without, busy
from trials.safeguards.ablation import Ablation
from trials.safeguards.composite_destinations import ABLATIONS
from trials.simulation.composite_producer import COMPOSITE
from trials.simulation.faults import Plan
from trials.simulation.several_producer import SEVERAL

COUNT = 3


def plan(seed: int, what: str = SEVERAL) -> Plan:
    made = busy(seed, what, *FAILOVERS)
    made.segment_bytes = 16 * 1024
    return made


def test_it_is_on_all_queues_or_nowhere() -> None:
    """Whoever leads or dies, and while the log is cleaned under it; each queue gets its own."""
    results = all_kept(plan, COUNT)

    assert all(result.faults[SEVERAL] >= 40 for result in results)


def test_a_composite_destination_forwards_to_all_that_are_meant_or_to_none() -> None:
    """
    Q55: whoever leads asks the same of a message, and each queue has it once, by whichever ways.
    """
    results = all_kept(lambda seed: plan(seed, COMPOSITE), COUNT)

    assert all(result.faults[COMPOSITE] >= 40 for result in results)


@pytest.mark.parametrize("ablation", ABLATIONS, ids=lambda it: it.name)
def test_a_message_that_is_forwarded_otherwise_is_found_out(ablation: Ablation) -> None:
    """The ablations: to all, to none, and twice to the queue to which two ways lead."""
    broken = broken_without(ablation, lambda seed: plan(seed, COMPOSITE), range(1, 8))

    assert broken.partition(":")[0] in {"S14", "S6", "S8", "S9"}

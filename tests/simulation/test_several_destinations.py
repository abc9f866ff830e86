"""
What one SEND sends to several queues is on all of them or nowhere, while leaders change.
"""

from __future__ import annotations

from tests.simulation.worlds import FAILOVERS, busy
from trials.simulation.faults import Plan
from trials.simulation.several_producer import SEVERAL
from trials.simulation.simulator import simulate

COUNT = 3


def plan(seed: int) -> Plan:
    made = busy(seed, SEVERAL, *FAILOVERS)
    made.segment_bytes = 16 * 1024
    return made


def test_it_is_on_all_queues_or_nowhere() -> None:
    """Whoever leads or dies, and while the log is cleaned under it; each queue gets its own."""
    results = [simulate(seed, plan(seed)) for seed in range(1, COUNT + 1)]

    assert [""] * COUNT == [result.violation for result in results]
    assert all(result.faults[SEVERAL] >= 40 for result in results)

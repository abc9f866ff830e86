"""
What one SEND sends to several queues is on all of them or nowhere, while leaders change.
"""

from __future__ import annotations

from trials.simulation.faults import Plan, focused
from trials.simulation.several_producer import SEVERAL
from trials.simulation.simulator import simulate

FAILOVERS = ("crash", "power cut", "transfer", "pause", "partition", "heal network")
COUNT = 3


def plan(seed: int) -> Plan:
    made = focused(seed, (SEVERAL, *FAILOVERS))
    made.kinds |= {SEVERAL: 6}
    made.operations = 1_200
    made.segment_bytes = 16 * 1024
    made.chaos_seconds = max(made.chaos_seconds, 6.0)
    return made


def test_it_is_on_all_queues_or_nowhere() -> None:
    """Whoever leads or dies, and while the log is cleaned under it; each queue gets its own."""
    results = [simulate(seed, plan(seed)) for seed in range(1, COUNT + 1)]

    assert [""] * COUNT == [result.violation for result in results]
    assert all(result.faults[SEVERAL] >= 40 for result in results)

"""
Consumers stop working and are ended, others go on; nothing is lost or doubled, over failovers.
"""

from __future__ import annotations

import pytest

from tests.simulation.worlds import FAILOVERS, assert_kept, broken_without
from trials.safeguards.ablation import Ablation
from trials.safeguards.slow_consumers import ABLATIONS
from trials.simulation.faults import Plan, focused
from trials.simulation.stalling_clients import ENDED, ENDED_DURABLE, STALLED, WORKED


def plan(seed: int, *kinds: str) -> Plan:
    made = focused(seed, (STALLED, *kinds))
    made.kinds |= {STALLED: 6}
    made.operations = 1_500
    made.chaos_seconds = max(made.chaos_seconds, 14.0)
    return made


@pytest.mark.parametrize("kinds", [FAILOVERS, ("clock jump", "crash")])
def test_who_stops_is_ended_and_who_works_is_not(kinds: tuple[str, ...]) -> None:
    """Q60: what one had who is ended comes to the others, flagged, and once."""
    assert_kept(
        lambda seed: plan(seed, *kinds),
        first=3,
        count=2,
        happened=(STALLED, ENDED, ENDED_DURABLE, WORKED),
    )


@pytest.mark.parametrize("ablation", ABLATIONS, ids=lambda it: it.name)
def test_a_safeguard_that_is_missing_is_found_out(ablation: Ablation) -> None:
    """The ablation: who has stopped holds up the others, or who works is ended."""
    broken = broken_without(ablation, lambda seed: plan(seed, *FAILOVERS), range(1, 12))

    assert broken.startswith("Q60")

"""
Messages are kept for too long, and said to be done with late, while leaders change.
"""

from __future__ import annotations

import pytest

from holdfast.broker.serving.time_limits import TimeLimits
from trials.simulation.faults import Plan, focused
from trials.simulation.hoarding_consumer import HOARDED, TAKEN
from trials.simulation.simulator import simulate

FAILOVERS = ("crash", "power cut", "transfer", "pause", "partition", "heal network")


def plan(seed: int, *kinds: str) -> Plan:
    made = focused(seed, (HOARDED, *kinds))
    made.kinds |= {HOARDED: 8}
    made.operations = 2_500
    made.segment_bytes = 16_384
    return made


@pytest.mark.parametrize("kinds", [FAILOVERS, ("clock jump", "crash"), ("disk full", "crash")])
def test_what_is_kept_for_too_long_is_taken_and_nothing_else(kinds: tuple[str, ...]) -> None:
    """Whoever leads by then; what is said late of it counts once or is refused."""
    results = [simulate(seed, plan(seed, *kinds)) for seed in range(5, 9)]

    assert [""] * 4 == [result.violation for result in results]
    assert all(sum(result.faults[it] for result in results) for it in (HOARDED, TAKEN))


def test_who_is_let_keep_it_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ablation: nothing is ever taken from anybody."""
    monkeypatch.setattr(TimeLimits, "wake", lambda *_arguments: (0, 0))
    found = (simulate(seed, plan(seed, *FAILOVERS)).violation for seed in range(1, 12))

    assert next(filter(None, found), "").startswith("M13")

"""
Messages are kept for too long, and said to be done with late, while leaders change.
"""

from __future__ import annotations

import pytest

from holdfast.broker.serving.time_limits import TimeLimits
from tests.simulation.worlds import FAILOVERS, assert_kept
from trials.simulation.faults import Plan, focused
from trials.simulation.hoarding_consumer import HOARDED, TAKEN
from trials.simulation.simulator import simulate


def plan(seed: int, *kinds: str) -> Plan:
    made = focused(seed, (HOARDED, *kinds))
    made.kinds |= {HOARDED: 8}
    made.operations = 2_500
    made.segment_bytes = 16_384
    return made


@pytest.mark.parametrize("kinds", [FAILOVERS, ("clock jump", "crash"), ("disk full", "crash")])
def test_what_is_kept_for_too_long_is_taken_and_nothing_else(kinds: tuple[str, ...]) -> None:
    """Whoever leads by then; what is said late of it counts once or is refused."""
    acts = (HOARDED, TAKEN)

    assert_kept(lambda seed: plan(seed, *kinds), first=5, count=2, happened=acts)


def test_who_is_let_keep_it_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ablation: nothing is ever taken from anybody."""
    monkeypatch.setattr(TimeLimits, "wake", lambda *_arguments: (0, 0))
    found = (simulate(seed, plan(seed, *FAILOVERS)).violation for seed in range(1, 12))

    assert next(filter(None, found), "").startswith("M13")

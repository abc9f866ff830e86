"""
Messages of a higher priority go first, while leaders change and consumers die.
"""

from __future__ import annotations

import pytest

from tests.simulation.worlds import FAILOVERS, busy, first_broken
from trials.safeguards.ablation import Ablation
from trials.safeguards.priorities import ABLATIONS
from trials.simulation.priority_clients import OVERTAKEN, PRIORITIES
from trials.simulation.simulator import simulate

COUNT = 3


def test_the_highest_priority_goes_first() -> None:
    """M4 over failovers; and all of it is delivered in the end."""
    results = [simulate(seed, busy(seed, PRIORITIES, *FAILOVERS)) for seed in range(1, COUNT + 1)]

    assert [""] * COUNT == [result.violation for result in results]
    assert sum(result.faults[OVERTAKEN] for result in results) > COUNT


@pytest.mark.parametrize("ablation", ABLATIONS, ids=["by order", "beyond the mark"])
def test_what_is_not_guarded_is_found_out(
    monkeypatch: pytest.MonkeyPatch, ablation: Ablation
) -> None:
    """A lower one goes first; or one that was seen does not say so, and comes late as if new."""
    for owner, name, replacement in ablation.patches():
        monkeypatch.setattr(owner, name, replacement)

    assert first_broken(lambda seed: busy(seed, PRIORITIES, *FAILOVERS))

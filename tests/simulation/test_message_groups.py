"""
Each group of messages is in one hand and in order, while leaders change and consumers come and go.
"""

from __future__ import annotations

import pytest

from tests.simulation.worlds import FAILOVERS, busy
from trials.safeguards.message_groups import ABLATIONS
from trials.simulation.group_clients import CHANGED, GROUPS
from trials.simulation.simulator import simulate

COUNT = 3


def test_a_group_is_in_one_hand_and_in_order() -> None:
    """M4 over failovers, by what was committed; and all of it is delivered in the end."""
    results = [simulate(seed, busy(seed, GROUPS, *FAILOVERS)) for seed in range(1, COUNT + 1)]

    assert [""] * COUNT == [result.violation for result in results]
    assert sum(result.faults[CHANGED] for result in results) > COUNT


def test_a_group_that_changes_hands_too_early_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ablation: who has come has it while its owner still holds some."""
    for owner, name, replacement in ABLATIONS[0].patches():
        monkeypatch.setattr(owner, name, replacement)
    found = (simulate(seed, busy(seed, GROUPS, *FAILOVERS)).violation for seed in range(1, 12))

    assert next(filter(None, found), "").startswith("M4")

"""
Nothing expired is delivered, and nothing goes before its time, while leaders change.
"""

from __future__ import annotations

import pytest

from tests.simulation.worlds import FAILOVERS, busy
from trials.safeguards.expiry import ABLATIONS
from trials.simulation.mortal_clients import EXPIRED, MORTAL
from trials.simulation.simulator import simulate

COUNT = 3


def test_what_expires_is_a_dead_letter_then_and_comes_to_nobody() -> None:
    """M6 by what was committed; all that is sent is done, or is a dead letter, in the end."""
    results = [simulate(seed, busy(seed, MORTAL, *FAILOVERS)) for seed in range(1, COUNT + 1)]

    assert [""] * COUNT == [result.violation for result in results]
    assert sum(result.faults[EXPIRED] for result in results) > 10 * COUNT


@pytest.mark.parametrize("number", [0, 1, 2])
def test_a_safeguard_that_is_missing_is_found_out(
    monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    """The ablations: what is over is delivered, taken off early, or has no time at all."""
    for owner, attribute, replacement in ABLATIONS[number].patches():
        monkeypatch.setattr(owner, attribute, replacement)
    found = (simulate(seed, busy(seed, MORTAL, *FAILOVERS)).violation for seed in range(1, 12))

    assert next(filter(None, found), "").startswith("M6")

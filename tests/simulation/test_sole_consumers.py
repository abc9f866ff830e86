"""
One of several consumers gets messages, and the next goes on when it dies, while leaders change.
"""

from __future__ import annotations

import pytest

from holdfast.broker.serving.router.sole import Sole
from tests.simulation.worlds import FAILOVERS, busy
from trials.safeguards.sole_consumers import ABLATIONS
from trials.simulation.simulator import simulate
from trials.simulation.sole_consumers import FOLLOWED, SOLE

COUNT = 3


def test_no_two_hold_messages_at_once() -> None:
    """Q9, Q10: whoever comes, dies or leads; and all of it is delivered in the end."""
    results = [simulate(seed, busy(seed, SOLE, *FAILOVERS)) for seed in range(1, COUNT + 1)]

    assert [""] * COUNT == [result.violation for result in results]
    assert sum(result.faults[FOLLOWED] for result in results) > COUNT


def test_a_successor_that_does_not_wait_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ablation: the next one begins while the last one holds messages."""
    for owner, name, replacement in ABLATIONS[0].patches():
        assert owner is Sole
        monkeypatch.setattr(owner, name, replacement)
    found = (simulate(seed, busy(seed, SOLE, *FAILOVERS)).violation for seed in range(1, 12))

    assert next(filter(None, found), "").startswith("M4")

"""
Operators move, copy, remove and retry single messages, while leaders change and the log turns over.
"""

from __future__ import annotations

import pytest

from holdfast.server import moved_contents
from tests.simulation.worlds import FAILOVERS, assert_kept
from trials.simulation.faults import Plan, focused
from trials.simulation.simulator import simulate
from trials.troubles.moves import COPIED, MOVED, REMOVED, RETRIED


def plan(seed: int, *kinds: str) -> Plan:
    made = focused(seed, (MOVED, *kinds))
    made.kinds |= {MOVED: 10}
    made.operations = 1_200
    made.segment_bytes = 16 * 1024
    return made


@pytest.mark.parametrize("kinds", [FAILOVERS, ("wiped disk", "crash"), ("disk full", "crash")])
def test_what_operators_move_stands_in_one_place(kinds: tuple[str, ...]) -> None:
    """Nothing is lost and nothing doubled; what was moved away comes from there no more."""
    acts = (MOVED, COPIED, REMOVED, RETRIED)

    assert_kept(lambda seed: plan(seed, *kinds), first=1, count=4, happened=acts)


def test_bytes_that_go_with_the_old_log_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ablation: what was moved is not written again, as it does not stand where it was sent."""
    monkeypatch.setattr(moved_contents, "moved_from", lambda *_arguments: iter(()))
    found = (simulate(seed, plan(seed, *FAILOVERS)).violation for seed in range(1, 12))

    assert next(filter(None, found), "").startswith(("S18", "S6"))

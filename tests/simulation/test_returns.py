"""
Messages are sent back, at once or after a delay, while leaders change and the log turns over.
"""

from __future__ import annotations

import pytest

from holdfast.broker.serving.queue import Queue
from trials.simulation.faults import Plan, focused
from trials.simulation.returning_consumer import RESTED, RETURNED
from trials.simulation.simulator import simulate
from trials.troubles.moves import MOVED, REMOVED, RETRIED

FAILOVERS = ("crash", "power cut", "transfer", "pause", "partition", "heal network")
COUNT = 3


def plan(seed: int, *kinds: str, segment_bytes: int = 64 * 1024) -> Plan:
    made = focused(seed, (RETURNED, *kinds))
    made.kinds |= {RETURNED: 8}
    made.operations = 1_200
    made.segment_bytes = segment_bytes
    return made


@pytest.mark.parametrize(
    "kinds",
    [FAILOVERS, ("wiped disk", "crash"), ("disk full", "crash"), ("clock jump", "crash")],
)
def test_what_comes_back_is_counted_and_rests_until_it_is_due(kinds: tuple[str, ...]) -> None:
    """Whoever leads by then, and whatever the cleaner has written again."""
    results = [simulate(seed, plan(seed, *kinds, segment_bytes=16_384)) for seed in range(1, 4)]

    assert [""] * COUNT == [result.violation for result in results]
    assert all(sum(result.faults[it] for result in results) for it in (RETURNED, RESTED))


def test_what_comes_back_and_is_moved_is_counted_anew() -> None:
    """Beside operators; a message that somebody sent back stands in one place all the same."""
    results = [simulate(seed, plan(seed, MOVED, *FAILOVERS)) for seed in range(1, 6)]

    assert {""} == {result.violation for result in results}
    assert all(sum(result.faults[it] for result in results) for it in (RETURNED, MOVED, REMOVED))
    assert sum(result.faults[RETRIED] for result in results)


def test_a_delay_that_only_a_client_was_told_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ablation: nothing rests, so it comes before it is due."""
    monkeypatch.setattr(Queue, "rest", lambda *_arguments: None)
    found = (simulate(seed, plan(seed, *FAILOVERS)).violation for seed in range(1, 12))

    assert next(filter(None, found), "").startswith("M6")

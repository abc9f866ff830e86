"""
Messages are sent back, at once or after a delay, while leaders change and the log turns over.
"""

from __future__ import annotations

import pytest

from holdfast.broker.serving.queue import Queue
from tests.simulation.worlds import FAILOVERS, assert_kept
from trials.simulation.faults import Plan, focused
from trials.simulation.returning_consumer import RESTED, RETURNED
from trials.simulation.simulator import simulate
from trials.troubles.moves import MOVED, REMOVED, RETRIED

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
    acts = (RETURNED, RESTED)

    assert_kept(
        lambda seed: plan(seed, *kinds, segment_bytes=16_384), first=1, count=COUNT, happened=acts
    )


def test_what_comes_back_and_is_moved_is_counted_anew() -> None:
    """Beside operators; a message that somebody sent back stands in one place all the same."""
    acts = (RETURNED, MOVED, REMOVED, RETRIED)

    assert_kept(lambda seed: plan(seed, MOVED, *FAILOVERS), first=1, count=5, happened=acts)


def test_a_delay_that_only_a_client_was_told_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ablation: nothing rests, so it comes before it is due."""
    monkeypatch.setattr(Queue, "rest", lambda *_arguments: None)
    found = (simulate(seed, plan(seed, *FAILOVERS)).violation for seed in range(1, 12))

    assert next(filter(None, found), "").startswith("M6")

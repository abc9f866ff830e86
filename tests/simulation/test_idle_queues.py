"""
Queues that nobody uses go, and no message goes with them, over failovers.
"""

from __future__ import annotations

import pytest

from tests.simulation.worlds import FAILOVERS, assert_kept, broken_without, busy
from trials.safeguards.ablation import Ablation
from trials.safeguards.idle_queues import ABLATIONS
from trials.simulation.idle_clients import GONE, IDLE

COUNT = 3


def test_nothing_that_is_confirmed_goes_with_a_queue() -> None:
    """Q61: what is sent as a queue goes is stored, on that or on the next one of its name."""
    assert_kept(lambda seed: busy(seed, IDLE, *FAILOVERS), first=1, count=COUNT, happened=(GONE,))


@pytest.mark.parametrize("ablation", ABLATIONS, ids=lambda it: it.name)
def test_a_safeguard_that_is_missing_is_found_out(ablation: Ablation) -> None:
    """The ablation: a message that the log has not yet goes with its queue."""
    broken = broken_without(ablation, lambda seed: busy(seed, IDLE, *FAILOVERS), range(1, 12))

    assert broken.startswith("Q61")

"""
A queue that keeps the newest has no more than it may, and drops what nobody has, over failovers.
"""

from __future__ import annotations

import pytest

from tests.simulation.worlds import FAILOVERS, all_kept, broken_without, busy
from trials.safeguards.ablation import Ablation
from trials.safeguards.full_queues import ABLATIONS
from trials.simulation.ring_clients import DROPPED, RING

COUNT = 3


def test_the_oldest_that_nobody_has_go_with_what_is_too_much() -> None:
    """Q59 by what was committed; all that is sent is done, or is a dead letter, in the end."""
    results = all_kept(lambda seed: busy(seed, RING, *FAILOVERS), COUNT)

    assert sum(result.faults[DROPPED] for result in results) > 10 * COUNT


@pytest.mark.parametrize("ablation", ABLATIONS, ids=lambda it: it.name)
def test_a_safeguard_that_is_missing_is_found_out(ablation: Ablation) -> None:
    """The ablations: too much is dropped an entry later; what somebody has is dropped, too."""
    broken = broken_without(
        ablation, lambda seed: busy(seed, RING, *FAILOVERS), range(1, 8), naming="Q59"
    )

    # What somebody has may be acknowledged in the same entry: then M1 may be broken first.
    assert broken

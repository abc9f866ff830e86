"""
One subscription by wildcards has all that it means, now and later, and no more at once than it may.
"""

from __future__ import annotations

import pytest

from tests.simulation.worlds import FAILOVERS, all_kept, broken_without, busy
from trials.safeguards.ablation import Ablation
from trials.safeguards.wildcards import ABLATIONS
from trials.simulation.wildcard_clients import JOINED, WILD

COUNT = 3


def test_all_that_a_wildcard_means_arrives_over_failovers() -> None:
    """Q58: of queues that come while leaders change, with cumulative acknowledgements over all."""
    results = all_kept(lambda seed: busy(seed, WILD, *FAILOVERS), COUNT)

    assert sum(result.faults[JOINED] for result in results) > 10 * COUNT


@pytest.mark.parametrize("ablation", ABLATIONS, ids=lambda it: it.name)
def test_a_safeguard_that_is_missing_is_found_out(ablation: Ablation) -> None:
    """The ablations: new queues are not joined; what is settled, or held, is one queue's only."""
    broken = broken_without(ablation, lambda seed: busy(seed, WILD, *FAILOVERS), range(1, 8))

    assert broken.partition(":")[0] in {"L3", "S5", "S7", "Q58"}

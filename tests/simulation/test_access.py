"""
Users and grants in simulated worlds: changed under crashes and hand-overs, judged alike (S9).
"""

from __future__ import annotations

import pytest

from tests.simulation.worlds import assert_kept
from trials.safeguards.ablation import catch
from trials.safeguards.access import ABLATIONS
from trials.simulation.access_books import CHANGED, REMOVED
from trials.simulation.faults import focused

FIRST_SEEDS = {"one": 4, "three": 4, "witness": 1, "learner": 1}
"""Soon after these all that is wanted has happened."""


@pytest.mark.slow
@pytest.mark.parametrize("topology", FIRST_SEEDS)
def test_all_nodes_judge_alike_whatever_happens(topology: str) -> None:
    """By what was confirmed, whether they led, followed, or read the log again."""
    kinds = (CHANGED, "crash", "power cut", "transfer", "partition", "heal network")

    assert_kept(
        lambda seed: focused(seed, kinds, topology=topology),
        first=FIRST_SEEDS[topology],
        count=2,
        happened={CHANGED, REMOVED},
    )


@pytest.mark.slow
@pytest.mark.parametrize("ablation", ABLATIONS, ids=lambda it: it.name)
def test_a_safeguard_that_is_missing_is_noticed(ablation) -> None:
    """Each by one of some seeds: else the checker would prove nothing."""
    assert catch(ablation, range(1, 81)) is not None

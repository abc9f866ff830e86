"""
Policies in simulated worlds: changed under crashes and hand-overs, the same on all nodes, obeyed.
"""

from __future__ import annotations

import pytest

from tests.simulation.worlds import assert_kept
from trials.safeguards.ablation import catch
from trials.safeguards.policies import ABLATIONS
from trials.simulation.faults import focused
from trials.simulation.policy_books import FILED, SAID, STAYED

FIRST_SEEDS = {"one": 1, "two": 1, "three": 1, "witness": 21, "learner": 1}
"""Soon after these all that is wanted has happened."""


@pytest.mark.slow
@pytest.mark.parametrize("topology", FIRST_SEEDS)
def test_what_was_said_holds_whatever_happens(topology: str) -> None:
    """Also where a leader has a file of before, and where a copy is forced to go on."""
    wanted = {SAID, FILED} | ({STAYED} if topology in {"three", "witness"} else set())
    kinds = (SAID, FILED, "crash", "power cut", "transfer", "partition", "heal network")

    assert_kept(
        lambda seed: focused(seed, kinds, topology=topology),
        first=FIRST_SEEDS[topology],
        count=3,
        happened=wanted,
    )


@pytest.mark.slow
@pytest.mark.parametrize("ablation", ABLATIONS, ids=lambda it: it.name)
def test_a_safeguard_that_is_missing_is_noticed(ablation) -> None:
    """Each by one of some seeds: else the checker would prove nothing."""
    assert catch(ablation, range(1, 81)) is not None

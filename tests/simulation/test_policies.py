"""
Policies in simulated worlds: changed under crashes and hand-overs, the same on all nodes, obeyed.
"""

from __future__ import annotations

from collections import Counter

import pytest

from trials.safeguards.ablation import catch
from trials.safeguards.policies import ABLATIONS
from trials.simulation.faults import focused
from trials.simulation.policy_books import FILED, SAID, STAYED
from trials.simulation.simulator import simulate

SEEDS_MIN = 3
"""So many are lived through, and more where something did not happen in them."""


@pytest.mark.slow
@pytest.mark.parametrize("topology", ["one", "two", "three", "witness", "learner"])
def test_what_was_said_holds_whatever_happens(topology: str) -> None:
    """Also where a leader has a file of before, and where a copy is forced to go on."""
    wanted = {SAID, FILED} | ({STAYED} if topology in {"three", "witness"} else set())
    found: Counter[str] = Counter()
    for count, seed in enumerate(range(1, 41)):
        if count >= SEEDS_MIN and wanted <= found.keys():
            break
        kinds = [SAID, FILED, "crash", "power cut", "transfer", "partition", "heal network"]
        result = simulate(seed, focused(seed, kinds, topology=topology))
        assert result.violation == "", f"seed {seed}"
        found += result.faults

    assert wanted <= found.keys()


@pytest.mark.slow
@pytest.mark.parametrize("ablation", ABLATIONS, ids=lambda it: it.name)
def test_a_safeguard_that_is_missing_is_noticed(ablation) -> None:
    """Each by one of some seeds: else the checker would prove nothing."""
    assert catch(ablation, range(1, 81)) is not None

"""
Poison is found among what is lost with it, while leaders change and consumers die of it.
"""

from __future__ import annotations

import pytest

from tests.simulation.worlds import FAILOVERS, all_kept, broken_without, busy
from trials.safeguards.ablation import Ablation
from trials.safeguards.poison import ABLATIONS
from trials.simulation.poison_clients import DIED, FOUND, POISONED, POISONED_CHOICE, POISONED_GROUPS

COUNT = 3


@pytest.mark.parametrize("trouble", [POISONED, POISONED_GROUPS, POISONED_CHOICE])
def test_nothing_but_poison_is_dead_lettered(trouble: str) -> None:
    """
    Q25 over failovers, with messages in groups and with selectors, too: it is found, what was lost
    with it is not blamed, and all is drained.
    """
    results = all_kept(lambda seed: busy(seed, trouble, *FAILOVERS), COUNT)

    assert sum(result.faults[FOUND] for result in results) > COUNT
    assert sum(result.faults[DIED] for result in results) > COUNT


NAMES = ("L3", "L3", "L3", "Q25")


@pytest.mark.parametrize(("ablation", "naming"), list(zip(ABLATIONS, NAMES, strict=True)))
def test_poison_is_missed_without_a_safeguard(ablation: Ablation, naming: str) -> None:
    """The ablations: poison goes round for ever, or takes its neighbours along."""
    assert broken_without(
        ablation,
        lambda seed: busy(seed, ablation.kinds[0], *FAILOVERS),
        range(1, 41),
        naming=naming,
    )

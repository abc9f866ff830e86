"""
Each time of each scheduled message is sent once, while leaders die and the log is cleaned.
"""

from __future__ import annotations

import pytest

from tests.simulation.worlds import FAILOVERS, all_kept, broken_without, busy
from trials.safeguards.ablation import Ablation
from trials.safeguards.schedules import ABLATIONS
from trials.simulation.schedule_clients import SCHEDULED

COUNT = 3


def test_each_time_is_sent_once_over_failovers() -> None:
    """M9, by what was committed; and all of it is delivered in the end."""
    results = all_kept(lambda seed: busy(seed, SCHEDULED, *FAILOVERS), COUNT)

    assert sum(result.faults[SCHEDULED] for result in results) >= COUNT


@pytest.mark.parametrize("ablation", ABLATIONS[:2], ids=lambda it: it.name)
def test_what_is_sent_twice_is_found_out(ablation: Ablation) -> None:
    """The ablations: the next time in an entry of its own; what is on its way, once more."""
    broken = broken_without(ablation, lambda seed: busy(seed, SCHEDULED, *FAILOVERS), range(1, 8))

    assert broken.startswith("M9")

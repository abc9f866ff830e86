"""
A cluster whose nodes know different levels of the log's format, under crashes and partitions.
"""

from __future__ import annotations

import pytest

from holdfast.replication import format_levels
from trials.ablations import ABLATIONS
from trials.promises.simulations import SCENARIOS, run_seed
from trials.safeguards.ablation import catch
from trials.troubles.rolling_upgrade import RAISED, TAKEN_BACK, UPGRADED

SCENARIO = SCENARIOS["a rolling upgrade, and back"]


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_level_is_raised_when_the_last_one_is_upgraded(seed: int) -> None:
    """Nothing is lost on the way, and nodes of both kinds have the same state."""
    result = run_seed(SCENARIO, seed)

    assert "" == result.violation
    assert all(result.faults[kind] for kind in (UPGRADED, TAKEN_BACK, RAISED))


def test_a_level_that_is_raised_without_asking_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """By the script, or because an old member ends; where a new one leads before all are new."""
    monkeypatch.setattr(format_levels, "known_by_all", lambda *_: 2)

    assert any(run_seed(SCENARIO, seed).violation for seed in range(1, 9))


def test_a_level_that_cleaning_forgets_is_noticed() -> None:
    """A replica that has but the rest of the log would take it for one of before."""
    (ablation,) = (it for it in ABLATIONS if it.name == "forget the level when cleaning")

    assert catch(ablation, range(1, 60)) is not None

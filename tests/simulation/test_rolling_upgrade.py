"""
A cluster whose nodes know different levels of the log's format, under crashes and partitions.
"""

from __future__ import annotations

import pytest

from holdfast.replication import format_levels
from trials.ablations import ABLATIONS
from trials.promises.simulations import SCENARIOS, run_seed
from trials.safeguards.ablation import Ablation, catch
from trials.safeguards.levels import ABLATIONS as ABLATIONS_OF_LEVELS
from trials.simulation.faults import focused
from trials.simulation.levels import ENDED
from trials.simulation.returning_consumer import RETURNED
from trials.simulation.simulator import simulate
from trials.troubles.mixed_levels import BACK, MIXED
from trials.troubles.moves import MOVED
from trials.troubles.policies import SAID
from trials.troubles.rolling_upgrade import RAISED, TAKEN_BACK, UPGRADED
from trials.troubles.taken_back import TAKEN_BACK_LATE

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


@pytest.mark.promise("F38")
@pytest.mark.parametrize("topology", ["three", "witness", "learner"])
def test_who_is_taken_back_while_the_level_is_raised_ends(topology: str) -> None:
    """
    It hears what is asked for before it is sent that; upgraded it is a member as before.

    Not in each seed: where the leader dies alone with what it asked for, the old one goes on.
    """
    plans = [(seed, focused(seed, (TAKEN_BACK_LATE,), topology=topology)) for seed in (1, 2, 3)]
    results = [simulate(seed, made) for seed, made in plans]

    assert ["", "", ""] == [result.violation for result in results]
    assert all(result.faults[TAKEN_BACK_LATE] for result in results)
    assert any(result.faults[ENDED] for result in results)


@pytest.mark.promise("F38")
@pytest.mark.parametrize("topology", ["three", "witness", "five"])
def test_versions_of_all_levels_keep_one_log(topology: str) -> None:
    """What a level brings is in the log once all can read it, and their state is the same."""
    kinds = (MIXED, RETURNED, MOVED, SAID, "crash", "transfer", "partition", "heal network")
    plans = [(seed, focused(seed, kinds, topology=topology)) for seed in range(1, 5)]
    for _, made in plans:
        made.kinds |= {MIXED: 6, RETURNED: 4, MOVED: 4}
    results = [simulate(seed, made) for seed, made in plans]

    assert [""] * 4 == [result.violation for result in results]
    assert all(sum(it.faults[kind] for it in results) for kind in (MIXED, BACK, RETURNED))


@pytest.mark.parametrize("ablation", ABLATIONS_OF_LEVELS, ids=lambda it: it.name)
def test_who_keeps_what_it_cannot_read_is_noticed(ablation: Ablation) -> None:
    """For it was not told, or takes no notice."""
    caught = catch(ablation, range(1, 5))

    assert caught is not None
    assert "F38" in caught[1]

"""
Brokers over one log in several databases: a short run of worlds, and safeguards left out.

`python -m trials.simulate --several --count ...` runs as many seeds as one likes.
"""

from __future__ import annotations

import pytest

from holdfast.raidb.settings import Confirm
from tests.simulation.test_leased_stores import all_kept
from trials.leased import plan as plans
from trials.leased.judge import CONFIRMED_WITHOUT
from trials.leased.plan import plan_of_several
from trials.leased.simulator import simulate
from trials.leased.walk import walk
from trials.safeguards.ablation import catch, without
from trials.safeguards.several_databases import ABLATIONS

BY_NAME = {it.name: it for it in ABLATIONS}


@pytest.mark.slow
def test_worlds_as_they_are_drawn_keep_their_promises() -> None:
    """What is confirmed is in all databases in the end, and one broker dispatches at a time."""
    happened = all_kept([simulate(seed, plan_of_several(seed)) for seed in range(1, 7)])

    assert happened["confirmed"] > 4_000
    assert happened["applied"] > happened["confirmed"]


@pytest.mark.slow
@pytest.mark.parametrize("databases", [2, 3])
@pytest.mark.parametrize(
    "kinds",
    [
        (plans.DATABASE_AWAY, plans.KILL),
        (plans.DATABASE_CUT, plans.PAUSE, plans.CALL),
        (plans.DATABASE_FULL, plans.DATABASE_DISABLED, plans.CLEAN_STOP),
        (plans.DATABASE_ROT, plans.CLEAN_STOP),
        (plans.DATABASE_CROWDED, plans.DATABASE_FULL, plans.KILL),
    ],
    ids=lambda kinds: kinds[0],
)
def test_each_kind_of_trouble_is_lived_through(kinds: tuple[str, ...], databases: int) -> None:
    """Away, cut off from one broker, full, disabled: it happens, and all are filled again."""
    results = []
    for seed in range(1, 4):
        made = plan_of_several(seed)
        made.databases, made.kinds = databases, dict.fromkeys(kinds, 1)
        results.append(simulate(seed, made))
    happened = all_kept(results)

    assert not [it for it in kinds if not happened[it]]


@pytest.mark.slow
@pytest.mark.parametrize("databases", [2, 3])
def test_a_large_entry_that_nobody_was_told_of_ends_no_service(databases: int) -> None:
    """Its holder dies where most databases are slow, or have no room for it; others go on."""
    results = []
    for seed in range(1, 3):
        made = plan_of_several(seed)
        made.databases, made.chaos_seconds = databases, 3.0
        plans.with_large(made)
        results.append(simulate(seed, made))
    happened = all_kept(results)

    assert happened[plans.LARGE_LEFT] == len(results)


@pytest.mark.slow
@pytest.mark.parametrize(
    "seed",
    [
        pytest.param(191, id="a read that takes longer than one call holds up nothing else"),
        pytest.param(224, id="the same where all must confirm"),
        pytest.param(228, id="two that were full are filled as soon as there is room"),
        pytest.param(897, id="one that was full is filled soon after what was read is lost"),
    ],
)
def test_what_once_broke_is_whole(seed: int) -> None:
    """Seeds that broke a promise: nobody served after five leases, or one was never filled."""
    all_kept([simulate(seed, plan_of_several(seed))])


@pytest.mark.slow
@pytest.mark.parametrize("databases", [3, 4, 5])
def test_by_majority_every_confirm_is_in_most(databases: int) -> None:
    """Others lack what is confirmed at many a moment, and nothing is lost by that."""
    results = []
    for seed in range(1, 3):
        made = plan_of_several(seed)
        made.databases, made.is_by_majority = databases, True
        results.append(simulate(seed, made))
    happened = all_kept(results)

    assert happened["confirmed"] > 1_000
    assert happened[CONFIRMED_WITHOUT] > 50


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("by majority, what is stored is in most databases", 1),
        ("what rots in one is mended from another", 1),
        ("what cannot be stored is given up", 5),
        ("who is needed is copied to for as long as it takes", 12),
        ("signs of life are given while it is copied", 12),
        ("a take goes on over several calls", 26),
        ("a copy that others went on with is not gone by", 1),
        ("two starts of one number are told apart", 12),
    ],
)
def test_a_safeguard_that_is_left_out_is_noticed(name: str, first: int) -> None:
    """Some seed loses what was confirmed, never gets a database back, or is served by nobody."""
    assert catch(BY_NAME[name], range(first, first + 15)) is not None


@pytest.mark.slow
@pytest.mark.parametrize("confirm", ["all", "majority"])
def test_short_walks_keep_what_was_stored(confirm: Confirm) -> None:
    """One holder after the other over databases that are away, full, cut off or disabled."""
    assert [it for it in range(60) if walk(it, confirm)] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "who is left out is written before anything is stored",
        "more than half of the databases are needed to start",
        "what was in flight is copied to all before anybody serves",
        "by majority, what is stored is in most databases",
        "what more than half may have is never cut",
    ],
)
def test_a_walk_notices_a_safeguard_that_is_left_out(name: str) -> None:
    """Something that was stored is not there, or is in too few."""
    with without(BY_NAME[name]):
        assert any(walk(seed) for seed in range(150))


def test_a_seed_lives_the_same_life_again() -> None:
    """Event by event."""
    once, again = (simulate(3, plan_of_several(3)) for _ in range(2))

    assert once.digest == again.digest
    assert once.transcript == again.transcript

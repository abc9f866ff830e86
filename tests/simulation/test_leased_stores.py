"""
Brokers over one log that several reach: a short run of leased worlds, and safeguards left out.

`python -m trials.simulate --leased --count ...` runs as many seeds as one likes.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest

from trials.leased import model_elector as electors
from trials.leased import plan as plans
from trials.leased.judge import OUTLIVED
from trials.leased.plan import Plan, plan
from trials.leased.simulator import LeasedResult, simulate
from trials.safeguards.ablation import Ablation, catch
from trials.safeguards.elected_leases import ABLATIONS as OF_ELECTORS
from trials.safeguards.leased_stores import ABLATIONS

SEEDS = range(1, 13)
BY_NAME = {it.name: it for it in (*ABLATIONS, *OF_ELECTORS)}
QUICKLY_CAUGHT = [
    ("an append is stored only behind its own end", "T2"),
    ("a beat starts the waiting anew", "T4"),
    ("what is not known is sent again", "T6"),
    ("a cache of another past begins anew", "T7"),
    ("nothing is dispatched while giving back", "T4"),
    ("the lease clock goes on in a suspend", "T4"),
    ("a log that went back is refused", "T9"),
    ("a session's end is read after the shorter time", "T4"),
    ("an elector that elects nobody is not waited for", "T7"),
    ("whoever is elected, the fence is a write", "T6"),
    ("what is shown is written under the lease", "T10"),
    ("a broker of a living one's name is refused", "T13"),
    ("of two that start at once one ends", "T13"),
    ("without room nothing is stored in the end", "T15"),
    ("who waits is heard before the level is raised", "T16"),
]
"""And the promise that is broken first; the others take more seeds: `make ablations`."""


def lived(seed: int, *, is_fence: bool, ending: str = plans.HEALED, kinds: tuple[str, ...]) -> Plan:
    made = plan(seed)
    made.is_fence, made.ending = is_fence, ending
    made.kinds = dict.fromkeys(kinds or plans.KINDS, 1)
    return made


def all_kept(results: list[LeasedResult]) -> Counter[str]:
    """What happened in worlds in which no promise was broken."""
    assert not [f"seed {it.seed}: {it.violation}" for it in results if it.violation]
    return sum((it.faults + it.counts for it in results), Counter[str]())


@pytest.mark.slow
def test_worlds_as_they_are_drawn_keep_their_promises() -> None:
    """What is confirmed is in the log, one dispatches at a time, and all caches end as the log."""
    happened = all_kept([simulate(seed) for seed in SEEDS])

    assert happened["confirmed"] > 4_000
    assert happened["applied"] > happened["confirmed"]


@pytest.mark.slow
def test_a_store_that_was_away_for_long_is_served_soon_after() -> None:
    """Seed 1620: who waits for it had ever more patience to hear of the lease, up to 160 s."""
    all_kept([simulate(1620)])


@pytest.mark.slow
@pytest.mark.parametrize("is_fence", [True, False])
@pytest.mark.parametrize(
    "kinds",
    [
        (plans.PAUSE, plans.CALL, plans.KILL),
        (plans.CUT_OFF, plans.AWAY, plans.LONG_AWAY, plans.FULL),
        (plans.TRANSFER, plans.CLEAN_STOP, plans.SLOW),
        (plans.WIPE, plans.ROT, plans.POWER),
    ],
    ids=lambda kinds: kinds[0],
)
def test_each_kind_of_trouble_is_lived_through(kinds: tuple[str, ...], *, is_fence: bool) -> None:
    """Over a database and over a directory; all of it happens."""
    made = [lived(seed, is_fence=is_fence, kinds=kinds) for seed in range(1, 5)]
    happened = all_kept([simulate(seed, it) for seed, it in enumerate(made, start=1)])

    assert not [it for it in kinds if not happened[it]]


@pytest.mark.slow
def test_want_of_room_for_the_cache_costs_no_promise_and_no_memory_without_bound() -> None:
    """Whoever holds the lease goes on, hands it over, or stores nothing until there is room."""
    kinds = (plans.CACHE_FULL, plans.KILL, plans.TRANSFER)
    made = [lived(seed, is_fence=seed % 2 == 0, kinds=kinds) for seed in range(1, 5)]
    for each in made:
        each.propose_seconds = 0.03
    happened = all_kept([simulate(seed, it) for seed, it in enumerate(made, start=1)])

    assert happened["waits for room"] > 100
    assert happened["confirmed"] > 2_000


@pytest.mark.slow
def test_what_is_shown_to_people_costs_no_promise_and_keeps_its_own() -> None:
    """A holder that tells it all the time, in pauses, deaths and with replies lost."""
    made = [lived(seed, is_fence=True, kinds=()) for seed in range(1, 7)]
    for each in made:
        each.is_shown = True
    happened = all_kept([simulate(seed, it) for seed, it in enumerate(made, start=1)])

    assert happened["shown"] > 300
    assert happened["confirmed"] > 1_000


@pytest.mark.slow
@pytest.mark.parametrize("is_fence", [True, False])
def test_of_two_brokers_of_one_name_one_goes_on(*, is_fence: bool) -> None:
    """
    One starts beside a living one, as a killed one, or both at once; the killed one comes back.

    Seeds 24, 25 and 45: a holder that never rested on a slow directory told nobody of itself.
    """
    seeds = (1, 2, 3, 24, 25, 45)
    made = [lived(seed, is_fence=is_fence, kinds=()) for seed in seeds]
    for seed, each in zip(seeds, made, strict=True):
        plans.judge_names(each, random.Random(seed))
    happened = all_kept([simulate(seed, it) for seed, it in zip(seeds, made, strict=True)])

    assert not [it for it in plans.OF_NAMES if not happened[it]]
    assert happened[OUTLIVED] > len(seeds)


def test_a_holder_without_rest_on_a_slow_directory_is_known_to_live() -> None:
    """Seed 24 as it was drawn: its beats stood for pauses, and it told nothing for a minute."""
    made = plan(24)
    plans.judge_names(made, random.Random(24))

    all_kept([simulate(24, made)])


@pytest.mark.slow
@pytest.mark.parametrize("ending", plans.ENDINGS[1:])
def test_a_medium_that_was_harmed_is_refused(ending: str) -> None:
    """Restored from a backup, its lease row gone, an entry rotten: nobody passes it over."""
    made = [lived(seed, is_fence=True, ending=ending, kinds=()) for seed in range(1, 5)]
    happened = all_kept([simulate(seed, it) for seed, it in enumerate(made, start=1)])

    assert happened[ending]
    assert happened["ended"]


@pytest.mark.slow
@pytest.mark.parametrize("manner", electors.ELECTORS)
def test_whatever_an_elector_says_nothing_is_lost_and_somebody_serves(manner: str) -> None:
    """It says yes to two, elects nobody, or lies of sessions: the store's fence holds."""
    made = [plan(seed) for seed in range(1, 7)]
    for seed, each in enumerate(made, start=1):
        plans.let_elect(each, manner, random.Random(seed))
    happened = all_kept([simulate(seed, it) for seed, it in enumerate(made, start=1)])

    assert not [it for it in plans.ELECTOR_KINDS if not happened[it]]
    assert happened["elector asked"] > 1_000
    assert happened["confirmed"] > 1_000


@pytest.mark.slow
def test_a_session_that_ended_lets_the_lease_be_taken_sooner() -> None:
    """An honest elector is believed: it happens, and no two ever dispatch at once."""
    made = [lived(seed, is_fence=True, kinds=(plans.PAUSE, plans.KILL)) for seed in range(1, 9)]
    for seed, each in enumerate(made, start=1):
        plans.let_elect(each, electors.HONEST, random.Random(seed))
    happened = all_kept([simulate(seed, it) for seed, it in enumerate(made, start=1)])

    assert happened["taken of a session that ended"]


@pytest.mark.slow
def test_the_same_seed_lives_the_same_life() -> None:
    """To the last entry's chain, threads or not."""
    assert simulate(7).digest == simulate(7).digest


@pytest.mark.slow
@pytest.mark.parametrize(("name", "promise"), QUICKLY_CAUGHT, ids=[it for it, _ in QUICKLY_CAUGHT])
def test_a_safeguard_that_is_missing_is_found_out(name: str, promise: str) -> None:
    """The ablation: without it a promise is broken that is kept with it."""
    ablation: Ablation = BY_NAME[name]
    found = catch(ablation, range(1, 16))

    assert found is not None
    assert found[1].startswith(promise)

"""
Several brokers on one simulated shared directory, and each safeguard of it switched off.

Caches that are old, names that are not seen, replies that are lost, pauses at every step, processes
and servers that go, writes that arrive late or torn: from a seed, which repeats itself.
"""

from __future__ import annotations

import os

import pytest

from holdfast.leases.contract import Holding, Place
from trials.safeguards.shared_directory import (
    ABLATIONS,
    COPIES,
    FLAPS,
    FULL,
    STAYING,
    ShareAblation,
    catch,
)
from trials.simulation.local_share import end_of, seal
from trials.simulation.shared_brokers import Books, BrokenPromise, Troubles, World, simulate_share

SEEDS = int(os.environ.get("HOLDFAST_SEEDS", "20"))
FIRST_SEED = int(os.environ.get("SEED", "1"))
CAUGHT_WITHIN = 100

# Found by these, with what was wrong.
FOUND = [
    (28, "a taker that slept through its lease read what was no longer the end"),
    (59, "an epoch that was won and never begun had a beat without content"),
    (1118, "a zombie's segment was dropped while it made it"),
    (3279, "a segment was written that could not be announced"),
    (1822, "an entry that was seen before its sync was called damaged when it went"),
]


@pytest.mark.parametrize("seed", range(FIRST_SEED, FIRST_SEED + SEEDS))
def test_nothing_stored_is_lost(seed: int) -> None:
    """Whatever goes wrong, what was stored is what every later holder finds (L5, L7, L10-L19)."""
    books = simulate_share(seed)

    assert books.happened["taken"]


def test_a_share_that_others_fill_is_taken_by_what_is_kept() -> None:
    """Whatever fails for want of room, nothing stored is lost, and the last one can take it."""
    happened = Books().happened
    for seed in range(FIRST_SEED, FIRST_SEED + SEEDS):
        happened += simulate_share(seed, FULL).happened

    assert happened["share filled"] > 5 * SEEDS
    assert happened["taken of what was kept"] > SEEDS // 2
    assert happened["given up for want of room"] > SEEDS // 2


def test_a_share_that_flaps_ends_nobody() -> None:
    """Away for a moment or for seconds, between any two calls: each broker goes on."""
    happened, confirmed = Books().happened, 0
    for seed in range(FIRST_SEED, FIRST_SEED + SEEDS):
        books = simulate_share(seed, FLAPS)
        happened += books.happened
        confirmed += books.confirmed

    assert confirmed > 10 * SEEDS
    assert happened["away"] > 5 * SEEDS


@pytest.mark.parametrize("troubles", [COPIES, STAYING], ids=["for a while", "for good"])
def test_a_copy_in_the_place_of_the_directory_loses_nothing_unseen(troubles: Troubles) -> None:
    """
    Whenever it comes and goes, what is confirmed stands in what was there, or it is told.

    Where what a broker has seen comes back it goes on; and none takes a log that lacks what it
    knew to be stored.
    """
    happened, confirmed = Books().happened, 0
    for seed in range(FIRST_SEED, FIRST_SEED + SEEDS):
        books = simulate_share(seed, troubles)
        happened += books.happened
        confirmed += books.confirmed

    assert confirmed > 10 * SEEDS
    assert happened["a copy came in its place"] > SEEDS // 2
    assert happened["it was brought back"] > SEEDS // 4
    assert bool(happened["it stayed"]) is bool(troubles.stays)
    assert happened["told that it went back"]


@pytest.mark.parametrize(("seed", "what"), FOUND, ids=str)
def test_what_was_found_once_stays_mended(seed: int, what: str) -> None:
    """Seeds that failed while this was built."""
    assert simulate_share(seed).confirmed, what


def test_the_same_seed_is_the_same_run() -> None:
    """A failure can be repeated."""
    first, second = simulate_share(3), simulate_share(3)

    assert first == second
    assert first.stored != simulate_share(4).stored


def test_all_trouble_happens() -> None:
    """A run in which nothing goes wrong would prove nothing."""
    troubles = Troubles(pause=0.005, kill=0.001, error=0.002, server_loss=0.001, is_coherent=False)
    happened: Books = Books()
    for seed in range(1, 13):
        world = World(seed, troubles=troubles)
        happened.happened += world.run().happened
        for machine in world.machines:
            happened.happened += machine.happened

    expected = {
        "taken",
        "deposed",
        "killed",
        "paused",
        "released",
        "segment removed",
        "too late",
        "the same again",
        "unreachable",
        "server lost its power",
        "input or output error",
        "old page",
        "old listing",
        "lost reply of a link",
        "late write",
    }
    assert expected <= set(happened.happened)


@pytest.mark.parametrize("ablation", ABLATIONS, ids=lambda it: it.name)
def test_each_safeguard_is_missed(ablation: ShareAblation) -> None:
    """Without it some seed breaks a promise; with it that seed does not."""
    found = catch(ablation, range(ablation.seed, ablation.seed + CAUGHT_WITHIN))

    assert found is not None, "no seed notices"
    simulate_share(found[0], ablation.troubles)


# The books themselves ---------------------------------------------------------------------------


def holding(first_index: int, end: Place) -> Holding:
    return Holding(
        epoch=2,
        beat=1,
        claimant=None,
        is_released=False,
        first_index=first_index,
        end=end,
        sure=end,
    )


def test_the_books_notice_what_is_missing() -> None:
    """A stored entry that is not there, half an append, a broken chain, a wrong end."""
    entries = seal(Place(0, bytes(16)), 1, b"a", b"b", b"c")
    books = Books()
    books.note_stored(entries)
    books.note_taken(holding(1, end_of(entries)), entries)
    with pytest.raises(BrokenPromise, match="entry 3, stored, is not in the log"):
        books.note_taken(holding(1, end_of(entries[:2])), entries[:2])
    with pytest.raises(BrokenPromise, match="ends otherwise"):
        books.note_taken(holding(1, end_of(entries)), entries[:2])
    with pytest.raises(BrokenPromise, match="chain breaks at entry 3"):
        books.note_taken(holding(1, end_of(entries)), [entries[0], entries[2]])
    with pytest.raises(BrokenPromise, match="begins at 2"):
        books.note_taken(holding(2, end_of(entries)), entries[1:])

    books = Books(groups=[[(it.index, it.chain) for it in entries]])
    with pytest.raises(BrokenPromise, match="half an append from 1"):
        books.note_taken(holding(1, end_of(entries[:2])), entries[:2])


def test_the_books_notice_two_histories_and_two_holders() -> None:
    """Another entry in the same place, and a confirm under an older epoch."""
    one, other = (seal(Place(0, bytes(16)), 1, body) for body in (b"a", b"b"))
    books = Books()
    books.note_stored(one)
    with pytest.raises(BrokenPromise, match="entry 1 is another one"):
        books.note_stored(other)
    with pytest.raises(BrokenPromise, match="entry 1 is another one"):
        books.note_sure(end_of(other))

    books = Books()
    books.note_taken(holding(1, end_of(one)), one)
    books.note_confirmed(2, 1)
    with pytest.raises(BrokenPromise, match="epoch 1 confirms while 2 serves"):
        books.note_confirmed(1, 1)

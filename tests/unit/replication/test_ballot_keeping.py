"""
Tests of replication/ballot_keeping.py: what the ballot must say, and whether it is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from holdfast.journal.ballot import Ballot
from holdfast.replication.ballot_keeping import BallotKeeper


def keeper_of(bench: Any) -> BallotKeeper:
    state, file = bench.state, bench.journal.ballot_file
    file.save(Ballot(node_id=bytes.fromhex(state.node_id), generation=state.generation))
    return BallotKeeper(state, file)


def test_a_ballot_is_written_only_when_it_must_say_something_else(
    member: Callable[..., Any],
) -> None:
    """A turn that changed neither term nor vote nor members costs no write."""
    bench = member()
    keeper = keeper_of(bench)
    assert keeper.take_changed() is None

    bench.state.enter_term(bench.state.term + 1)
    job = keeper.take_changed()

    assert job is keeper.job
    assert job is not None and job.ballot.term == bench.state.term
    assert keeper.take_changed() is None


def test_only_the_newest_ballot_counts_as_stored(member: Callable[..., Any]) -> None:
    """An older one that is done says nothing of the vote that was given since."""
    bench = member()
    keeper = keeper_of(bench)
    bench.state.enter_term(5)
    older = keeper.take_changed()
    bench.state.voted_for = "22" * 16
    newer = keeper.take_changed()
    assert older is not None and newer is not None

    older.is_done = True
    assert keeper.take_stored() is None
    assert keeper.job is newer
    newer.is_done = True
    assert keeper.take_stored() is newer.ballot
    assert keeper.job is None
    assert keeper.take_stored() is None


def test_a_later_generation_that_shuts_this_node_out_is_what_the_ballot_must_say(
    member: Callable[..., Any],
) -> None:
    """Started again while that one is down, it must not know only its own."""
    bench = member()
    keeper = keeper_of(bench)
    bench.state.fenced_by, bench.state.is_shut_out = 7, True

    job = keeper.take_changed()

    assert job is not None
    assert (7, True) == (job.ballot.generation, job.ballot.is_shut_out)


def test_a_generation_is_kept_once_it_is_on_disk(member: Callable[..., Any]) -> None:
    """What is only in memory may never have been, after a crash."""
    bench = member()
    keeper = keeper_of(bench)
    assert keeper.is_generation_kept

    bench.state.generation += 1
    assert not keeper.is_generation_kept
    keeper.file.save(replace(keeper.kept, generation=bench.state.generation))

    assert keeper.is_generation_kept

"""Tests of replication/run_proof.py: the end of what is lost proves it, backwards."""

from __future__ import annotations

import pytest

from holdfast.replication import run_proof
from holdfast.replication.messages import NO_CHAIN
from holdfast.replication.run_proof import RunProof


@pytest.fixture
def bench(member):
    """A log of nine entries, of which 4 to 7 are lost."""
    made = member(terms=[2] * 8)
    made.state.log.damaged.update(range(4, 8))
    return made


@pytest.fixture
def copies(bench):
    return {index: bench.journal.entry(index) for index in range(1, 10)}


def test_copies_are_wanted_from_the_end_backwards(bench, copies) -> None:
    """Some at once; those behind the ones that are proven come next."""
    run, log = RunProof(), bench.state.log
    assert [7, 6] == run.wanted(log, 4, 2)
    assert {} == run.take(log, copies[7])
    assert [6, 5] == run.wanted(log, 4, 2)
    assert [copies[7].chain, NO_CHAIN] == [run.chain_at(7), run.chain_at(6)]


def test_they_come_in_any_order_and_are_given_once_all_are_proven(bench, copies) -> None:
    """Nothing before that may be written: the place of the first one alone is known."""
    run, log = RunProof(), bench.state.log
    run.wanted(log, 4, 8)
    for index in (5, 7, 4):
        assert {} == run.take(log, copies[index])
    assert {index: copies[index] for index in (4, 5, 6, 7)} == run.take(log, copies[6])
    assert [copies[index].chain for index in (4, 7)] == [run.chain_at(4), run.chain_at(7)]
    assert not any(run.is_wanted(index) for index in range(10))


def test_a_copy_that_nothing_behind_proves_is_wanted_again(bench, copies, member) -> None:
    """Of the right place and length, and of another history."""
    other = member(terms=[2, 2, 3, 3, 3, 3, 3, 3])
    run, log = RunProof(), bench.state.log
    run.wanted(log, 4, 8)
    assert {} == run.take(log, other.journal.entry(7))
    assert NO_CHAIN == run.chain_at(7)
    assert [7, 6, 5, 4] == run.wanted(log, 4, 8)
    run.take(log, copies[7])
    assert {} == run.take(log, other.journal.entry(6))
    assert [6, 5, 4] == run.wanted(log, 4, 8)


def test_the_last_entry_of_the_log_is_proven_by_what_the_log_knows_of_it(bench, copies) -> None:
    """Nothing stands behind it."""
    run, log = RunProof(), bench.state.log
    log.damaged.update({8, 9})
    assert [9, 8] == run.wanted(log, 4, 2)
    run.take(log, copies[9])
    run.take(log, copies[8])
    assert copies[8].chain == run.chain_at(8)


def test_the_end_of_a_very_long_run_is_looked_for_in_parts(bench, copies, monkeypatch) -> None:
    """Until it is found nothing is wanted; then all is as with a short one."""
    monkeypatch.setattr(run_proof, "_SOUGHT_MAX", 2)
    run, log = RunProof(), bench.state.log
    assert [] == run.wanted(log, 4, 8)
    assert run.is_seeking
    assert [7, 6, 5, 4] == run.wanted(log, 4, 8)
    assert not run.is_seeking
    run.take(log, copies[7])
    assert [6, 5, 4] == run.wanted(log, 4, 8)


def test_what_is_missing_behind_the_log_does_not_undo_what_is_proven(bench, copies) -> None:
    """The leader brings that; the run ends where the log does."""
    run, log = RunProof(), bench.state.log
    log.damaged.update({8, 9, 10})
    assert [9, 8] == run.wanted(log, 4, 2)
    run.take(log, copies[9])
    assert [8, 7] == run.wanted(log, 4, 2)


def test_it_begins_again_where_the_run_is_another_one(bench, copies) -> None:
    """The log was begun anew, its end was cut, or its neighbours are lost as well."""
    run, log = RunProof(), bench.state.log
    run.wanted(log, 4, 8)
    run.take(log, copies[7])
    log.epoch += 1
    assert [7, 6, 5, 4] == run.wanted(log, 4, 8)
    run.take(log, copies[7])
    log.damaged.add(8)
    assert [8, 7, 6, 5, 4] == run.wanted(log, 4, 8)
    log.damaged.discard(8)
    log.damaged.discard(7)
    assert [6, 5, 4] == run.wanted(log, 4, 8)


def test_what_is_kept_of_copies_is_bounded(bench, copies, monkeypatch) -> None:
    """The first ones are needed first; the others are asked for again."""
    monkeypatch.setattr(run_proof, "_KEPT_BYTES_MAX", len(copies[4].raw) + len(copies[5].raw))
    run, log = RunProof(), bench.state.log
    run.wanted(log, 4, 8)
    given = {}
    for index in (7, 6, 5, 4):
        given = run.take(log, copies[index])
    assert {4, 5} == set(given)
    assert copies[7].chain == run.chain_at(7)

"""
Tests of journal/claim.py: what was cut unknown stays claimed until it is settled.
"""

from __future__ import annotations

import pytest

from holdfast.journal.claim import StandingClaim
from holdfast.journal.jobs import Piece, TruncateJob
from trials.simulation.local_journal import LocalJournal


@pytest.fixture
def log() -> LocalJournal:
    log = LocalJournal()
    for number in range(1, 6):
        log.append(bytes([number]) * 100)
    log.writer.save_floor()
    return log


def cut_to(log: LocalJournal, index: int, claim: tuple[int, int] | None) -> TruncateJob:
    segment = log.journal.tail.segments.last
    chain = log.journal.entry(index).chain
    return TruncateJob(index, chain, segment, 0, 0, [], claim)


def run_of(log: LocalJournal, *, term: int) -> Piece:
    run = Piece(log.journal.tail.segments.last, 0, opens=False)
    entry = log.make(b"x", term=term)
    run.add(entry, len(entry.raw))
    return run


def test_a_cut_of_what_is_known_gives_up_what_the_floor_claimed(log: LocalJournal) -> None:
    """A leader said what belongs there instead: a shorter log is no damaged one."""
    claim = StandingClaim(log.journal.ballot_file)

    claim.note_cut(cut_to(log, 3, None))

    ballot = log.journal.ballot_file.current
    assert ballot is not None
    assert (None, 3) == (claim.value, ballot.durable_floor)


def test_a_cut_of_what_nobody_knows_stays_claimed(log: LocalJournal) -> None:
    """This node may have acknowledged it: started again it must not vote as if it had not."""
    claim = StandingClaim(log.journal.ballot_file)

    claim.note_cut(cut_to(log, 3, (1, 5)))

    ballot = log.journal.ballot_file.current
    assert ballot is not None
    assert ((1, 5), 5) == (claim.value, ballot.durable_floor)


@pytest.mark.parametrize(("term", "is_settled"), [(1, False), (2, True)])
def test_a_later_term_settles_what_an_earlier_one_claimed(
    log: LocalJournal, term: int, is_settled: bool
) -> None:
    """An entry of the claim's own term may be followed by the very ones that were claimed."""
    claim = StandingClaim(log.journal.ballot_file)
    claim.note_cut(cut_to(log, 3, (1, 9)))

    claim.settle(run_of(log, term=term))

    assert is_settled is (claim.value is None)


def test_a_log_that_is_durable_beyond_it_settles_a_claim(log: LocalJournal) -> None:
    """Whatever stood there, as much is known again."""
    claim = StandingClaim(log.journal.ballot_file)
    claim.note_cut(cut_to(log, 3, (1, 6)))
    run = run_of(log, term=1)
    assert run.last_index == 6

    claim.settle(run)
    claim.settle(run)

    assert claim.value is None


def test_where_a_log_begins_is_noted_with_what_is_claimed(log: LocalJournal) -> None:
    """A beginning alone would say that nothing behind it was ever held."""
    file = log.journal.ballot_file
    claim = StandingClaim(file)
    claim.value = (1, 900)

    claim.note_begin(700, b"c" * 16)

    assert file.current is not None
    assert (700, 900) == (file.current.first_index, file.current.durable_floor)

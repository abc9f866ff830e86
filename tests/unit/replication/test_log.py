"""Tests of replication/log.py: the replicated log as a view of the journal."""

from __future__ import annotations

import pytest

from holdfast.errors import CorruptEntryError
from holdfast.replication.log import ReplicatedLog
from holdfast.replication.messages import NO_CHAIN


def test_terms_are_known_inside_the_log_only(member) -> None:
    """The entry before the first has a term; what is beyond either end has none."""
    log = member(terms=[2, 2, 3]).state.log

    assert [0, 1, 2, 2, 3, -1] == [log.term_at(index) for index in range(6)]


def test_a_hint_skips_terms_that_are_too_new(member) -> None:
    """Where to look next: the last entry whose term the other side may also have."""
    log = member(terms=[2, 2, 5, 5]).state.log

    assert 3 == log.last_index_through_term(9, 4)
    assert 5 == log.last_index_through_term(9, 5)
    assert 0 == log.last_index_through_term(9, 0)


def test_an_entry_is_acknowledgeable_when_stored(member) -> None:
    """Staged entries are readable at once and claimed only when durable."""
    bench = member()
    bench.append([2, 2], stored=False)

    assert (3, 1) == (bench.state.log.last_index, bench.state.log.acknowledgeable_index)
    bench.store()
    assert 3 == bench.state.log.acknowledgeable_index


def test_nothing_is_claimed_beyond_damage(member) -> None:
    """A hole ends what this member says it holds, and it must not stand with it."""
    log = member(terms=[2, 2, 2]).state.log
    log.damaged.add(3)

    assert 2 == log.acknowledgeable_index
    assert not log.is_whole


def test_an_unknown_tail_counts_for_judging_candidates(member) -> None:
    """We vote as if we had it, until our own log has reached it."""
    bench = member(terms=[2])
    log = bench.state.log
    log.unknown_index, log.unknown_term = 4, 2

    assert (2, 4) == log.election_position()
    bench.append([2])
    assert (2, 4) == log.election_position()
    bench.append([3])
    assert (3, 4) == log.election_position()
    assert 0 == log.unknown_index


def test_cutting_below_the_commit_index_is_our_own_mistake(member) -> None:
    """The last line of defence for what was confirmed."""
    log = member(terms=[2, 2]).state.log

    with pytest.raises(AssertionError):
        log.cut_after(1, commit_index=2)


def test_beginning_anew_forgets_damage_and_counts(member) -> None:
    """After a reset the log is empty and starts where it was told to."""
    bench = member(terms=[2, 2])
    log = bench.state.log
    log.damaged.add(2)

    log.begin_anew(10, 2, b"c" * 16, 50)
    bench.store()

    assert (10, 9, 50) == (
        bench.journal.first_index,
        bench.journal.last_index,
        bench.journal.next_record_number,
    )
    assert (1, set(), b"c" * 16) == (log.epoch, log.damaged, log.chain_at(9))


def test_the_newest_of_a_kind_is_found_from_the_end(member) -> None:
    """The founding CONFIG is found behind later entries; a kind that is not there is None."""
    log = member(terms=[2, 2]).state.log

    found, size = log.newest_of_kind(2)
    assert found is not None
    assert (1, True) == (found.index, size > 0)
    assert None is log.newest_of_kind(1)[0]


def test_damage_met_while_reading_is_remembered(member) -> None:
    """An entry that cannot be read is added to the damage; its chain is unknown."""

    class Rotten:
        first_index, last_index = 1, 3
        unknown_through = unknown_term = 0

        def chain_at(self, index: int) -> bytes:
            raise CorruptEntryError("rot", index=index)

        def entry(self, index: int) -> None:
            raise CorruptEntryError("rot", index=index)

    log = ReplicatedLog(Rotten(), [])  # type: ignore[arg-type]

    assert NO_CHAIN == log.chain_at(2)
    assert {2} == log.damaged
    log.newest_of_kind(0)
    assert {1, 2, 3} == log.damaged

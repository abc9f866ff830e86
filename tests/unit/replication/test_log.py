"""Tests of replication/log.py: the replicated log as a view of the journal."""

from __future__ import annotations

import pytest

from holdfast.errors import CorruptEntryError
from holdfast.journal.ballot import Ballot
from holdfast.journal.jobs import BallotJob
from holdfast.replication.log import ReplicatedLog
from holdfast.replication.messages import NO_CHAIN
from trials.simulation.simulated_disk import PowerCut


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


@pytest.mark.parametrize("lost", [(4, 5, 6), (4, 5)])
def test_what_is_cut_by_a_guess_counts_until_as_much_is_here_again(member, lost) -> None:
    """This member may have said that it holds it: in elections, and on disk over a crash."""
    bench = member(terms=[2, 2, 3, 3, 3])
    for index in lost:
        place = bench.journal.place_of(index)
        bench.disk.flip_bit(place.path, place.byte * 8 + 300)
    bench.writer.turn([BallotJob(Ballot(node_id=bytes(16), term=3))])
    bench.writer.save_floor()
    bench.reopen()
    log = bench.state.log
    assert log.election_position() == (3, 6)
    log.cut_after(3, 0)
    assert log.unknown_index == 6
    assert log.election_position() >= (3, 6)
    bench.store()
    assert bench.journal.ballot_file.current.durable_floor == 6
    bench.append([3])
    assert log.unknown_index == 6
    bench.reopen()
    assert bench.state.log.election_position() >= (3, 6)
    bench.append([3, 3])
    assert bench.state.log.unknown_index == 0


def test_what_is_cut_for_a_difference_is_forgotten(member) -> None:
    """Its header says that it is another entry: it was never committed, nor is what follows it."""
    bench = member(terms=[2, 2, 3, 3])
    bench.writer.turn([BallotJob(Ballot(node_id=bytes(16), term=3))])
    bench.writer.save_floor()
    bench.state.log.cut_after(3, 0)
    bench.store()
    assert bench.state.log.unknown_index == 0
    assert bench.journal.ballot_file.current.durable_floor == 3


def test_damage_is_known_still_where_the_cut_fails(member, monkeypatch) -> None:
    """Where the log would have to end cannot be read."""
    log = member(terms=[2, 2, 2]).state.log
    log.damaged.update({2, 4})

    def unreadable(index, claim):
        raise CorruptEntryError("gone", index=2)

    monkeypatch.setattr(log.journal, "stage_truncate", unreadable)
    with pytest.raises(CorruptEntryError):
        log.cut_after(2, 0)
    assert log.damaged == {2, 4}


def test_the_term_of_a_lost_last_entry_is_the_highest_it_can_be(member) -> None:
    """A vote by its least one would go to who lacks it."""
    bench = member(terms=[2, 3])
    log = bench.state.log
    bench.journal.tail.last_chain = NO_CHAIN
    bench.journal.tail.unknown_term = 5
    log.damaged.add(3)
    assert log.election_position() == (5, 3)


def test_what_a_lost_segment_header_said_is_not_made_up(member, entry_after, caplog) -> None:
    """Neither to compare with, nor to tell somebody who begins here."""
    bench = member()
    for _ in range(8):
        bench.state.log.append([entry_after(bench.journal, 2, b"x" * 6000)])
    bench.store()
    bench.journal.drop_before(bench.journal.segments()[1].base_index)
    log, first = bench.state.log, bench.journal.first_index
    assert first > 1
    assert log.base is not None
    assert log.term_at(first - 1) == 2
    bench.disk.flip_bit(bench.journal.segments()[0].path, 40 * 8)
    bench.reopen()
    log = bench.state.log
    assert (log.base, log.term_at(first - 1), bench.journal.first_index) == (None, -1, first)
    for peer in "bc":
        log.tell_lost_base(peer)
    assert caplog.text.count("let another node lead") == 1
    assert member(terms=[2]).state.log.base == (0, NO_CHAIN, 1)


def test_what_the_next_entry_tells_apart_is_not_claimed(member) -> None:
    """Its chain says that another one stood there: nothing behind it was ever committed."""
    bench = member(terms=[2, 2, 3, 3, 3])
    place = bench.journal.place_of(4)
    bench.disk.flip_bit(place.path, place.byte * 8 + 300)
    bench.writer.turn([BallotJob(Ballot(node_id=bytes(16), term=3))])
    bench.writer.save_floor()
    bench.reopen()
    log = bench.state.log
    assert log.is_guessed(4)
    log.cut_after(3, 0)
    bench.store()
    assert (log.unknown_index, bench.journal.ballot_file.current.durable_floor) == (0, 3)


@pytest.mark.parametrize(("base", "claimed"), [(2, 6), (6, 6), (7, 0)])
def test_a_log_begun_anew_answers_for_a_lost_end(member, base, claimed) -> None:
    """Until it is there again; what lies before the new beginning is cleaned."""
    bench = member(terms=[2])
    bench.writer.turn([BallotJob(Ballot(node_id=bytes(16), term=3))])
    log = bench.state.log
    log.unknown_index, log.unknown_term = 6, 3
    log.begin_anew(base, 2, b"c" * 16, base)
    bench.store()
    assert log.unknown_index == claimed
    floor = bench.journal.ballot_file.current.durable_floor
    assert floor == (claimed or base - 1)
    bench.reopen()
    assert bench.state.log.unknown_index == claimed


def test_a_cut_of_the_whole_log_is_claimed_at_each_step(member) -> None:
    """Whenever the power fails the node starts again, and does not look whole."""
    steps = 0
    while True:
        bench = member(terms=[2] * 8)
        bench.writer.turn([BallotJob(Ballot(node_id=bytes(16), term=3))])
        bench.writer.save_floor()
        for index in range(1, 10):
            place = bench.journal.place_of(index)
            bench.disk.flip_bit(place.path, place.byte * 8 + 300)
        bench.reopen()
        log = bench.state.log
        log.unknown_index, log.unknown_term = 9, 3
        log.cut_after(log.last_index if log.last_index < 1 else 0, 0)
        assert log.election_position() == (3, 9)
        bench.disk.cut_at = bench.disk.operations + steps + 1
        try:
            bench.store()
        except PowerCut:
            bench.disk.power_cut()
        else:
            bench.disk.cut_at = None
            break
        finally:
            steps += 1
        bench.reopen()
        log = bench.state.log
        assert log.unknown_index == 9 or not log.is_whole
        assert log.election_position() >= (0, 9)
    assert steps > 3

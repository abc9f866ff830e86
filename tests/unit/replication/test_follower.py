"""Tests of replication/follower.py: what is taken, what is cut, what is said."""

from __future__ import annotations

import pytest

from holdfast.errors import CorruptEntryError, LogDivergedError
from holdfast.journal.entry import KIND_CONFIG
from holdfast.replication import follower
from holdfast.replication.membership import encode_membership, with_removed
from holdfast.replication.messages import AppendRequest, AppendResponse, ResetRequest
from holdfast.replication.state import Role


def request(bench, term, after, entries=(), *, commit=0, sent_at=5.0):
    log = bench.state.log
    previous = log.term_at(after)
    return AppendRequest(
        term, after, max(previous, 0), log.chain_at(after), commit, 0, sent_at, list(entries)
    )


def replies(bench):
    follower.reply(bench.state)
    return [message for _, message in bench.sent()]


def test_a_reply_waits_for_the_disk(member, entry_after) -> None:
    """An entry is claimed when it is durable, not when it was read from the link."""
    bench = member()
    entry = entry_after(bench.journal, 2)
    follower.on_append(bench.state, "b", request(bench, 2, 1, [entry]))

    assert [1] == [reply.match_index for reply in replies(bench)]
    bench.store()
    assert [AppendResponse(2, 2, entry.chain, 5.0)] == replies(bench)


def test_a_heartbeat_is_answered_at_once(member) -> None:
    """The leader's lease needs an answer now, whatever the disk is doing."""
    bench = member()

    follower.on_append(bench.state, "b", request(bench, 2, 1, sent_at=7.5))

    assert [(1, 7.5)] == [(reply.match_index, reply.sent_at) for reply in replies(bench)]
    assert [] == replies(bench)


@pytest.mark.parametrize("is_paused", [False, True], ids=["of itself", "after a silence"])
def test_no_leader_is_told_what_the_clock_of_another_said(member, is_paused) -> None:
    """Monotonic clocks of machines have nothing in common: one days ahead proves no contact."""
    bench = member()
    follower.on_append(bench.state, "b", request(bench, 2, 1, sent_at=700_000.0))
    if is_paused:
        follower.become_follower(bench.state, 3, None)

    follower.on_append(bench.state, "c", request(bench, 4, 1, sent_at=7.5))

    assert [7.5] == [reply.sent_at for reply in replies(bench)]


def test_an_older_term_is_refused_with_ours(member) -> None:
    """A deposed leader learns that it is deposed; nothing of what it sent is taken."""
    bench = member(terms=[3])

    follower.on_append(bench.state, "b", request(bench, 2, 1))

    (_, answer), *_ = bench.sent()
    assert (3, True) == (answer.term, answer.rejected)
    assert None is bench.state.leader


def test_a_gap_is_refused_with_a_hint(member) -> None:
    """The leader is told where our log ends."""
    bench = member(terms=[2])

    follower.on_append(bench.state, "b", AppendRequest(2, 9, 2, b"c" * 16, 0, 0, 1.0))

    (_, answer), *_ = bench.sent()
    assert (True, 2, 2) == (answer.rejected, answer.hint_index, answer.hint_term)


def test_a_conflict_is_cut_and_replaced(member, entry_after) -> None:
    """Uncommitted entries of an old term make room for the leader's."""
    other = member(terms=[2])
    entry = entry_after(other.journal, 4)
    bench = member(terms=[2, 3, 3])

    follower.on_append(bench.state, "b", request(bench, 4, 2, [entry]))
    bench.store()

    assert [1, 2, 4] == bench.terms()
    assert 3 == replies(bench)[0].match_index


def test_a_conflict_behind_a_lost_header_waits_for_the_repair(
    member, entry_after, monkeypatch
) -> None:
    """Where the log would have to end cannot be read: nothing is cut, taken or claimed yet."""
    other = member(terms=[2])
    entry = entry_after(other.journal, 4)
    bench = member(terms=[2, 3, 3])
    message = request(bench, 4, 2, [entry], commit=3)

    def unreadable(index, claim):
        raise CorruptEntryError("gone", index=2)

    monkeypatch.setattr(bench.journal, "stage_truncate", unreadable)
    follower.on_append(bench.state, "b", message)

    assert [1, 2, 3, 3] == bench.terms()
    assert {2} == bench.state.log.damaged
    assert 0 == bench.state.commit_index
    assert [0] == [reply.match_index for reply in replies(bench)]


def test_what_proves_to_be_rot_as_it_is_claimed_is_left_out(member, monkeypatch) -> None:
    """The chain of the last entry is read for the reply, and so is that of the one before it."""
    bench = member(terms=[2] * 5)
    follower.on_append(bench.state, "b", request(bench, 2, 4))
    chain_at = bench.journal.chain_at

    def rotten(index):
        if index in {3, 4}:
            raise CorruptEntryError("flipped", index=index)
        return chain_at(index)

    monkeypatch.setattr(bench.journal, "chain_at", rotten)

    assert [(2, chain_at(2))] == [(it.match_index, it.match_chain) for it in replies(bench)]
    assert {3, 4} == bench.state.log.damaged
    assert 2 == bench.state.match_sent


@pytest.fixture
def headless(member):
    """
    Its log has terms 1, 2, 2, 3, 3, 4; of entry 4, the first of term 3, the header is lost.

    Whatever was read of it is forgotten: the process was started again.
    """
    bench = member(terms=[2, 2, 3, 3, 4])
    place = bench.journal.place_of(4)
    bench.others = [bench.journal.entry(index) for index in range(1, 7)]
    bench.disk.flip_bit(place.path, place.byte * 8 + 300)
    bench.reopen()
    assert {4} <= bench.state.log.damaged
    assert 2 == bench.journal.term_at(4)
    assert 4 == bench.journal.term_at(6)
    bench.state.term = 5
    return bench


@pytest.mark.parametrize("commit", [0, 6])
def test_a_term_that_is_only_guessed_proves_no_difference(headless, commit) -> None:
    """
    A lost header's term is taken for its neighbour's. Where the term changes that is wrong: the
    node would end over it, or cut off good entries behind it, of which it had said it holds them.
    """
    state = headless.state
    state.commit_index = commit
    previous, entry = headless.others[3], headless.others[4]
    message = AppendRequest(5, 4, 3, previous.chain, 0, 0, 1.0, [entry])

    follower.on_append(state, "b", message)
    message = AppendRequest(5, 2, 2, headless.others[1].chain, 0, 0, 1.0, headless.others[2:])
    follower.on_append(state, "b", message)

    assert 6 == headless.journal.last_index
    assert {4} <= state.log.damaged
    assert 6 == state.matched_index
    assert 3 == follower.durable_match(state)


def test_what_is_only_guessed_to_be_the_same_counts_for_nothing(headless) -> None:
    """Neither as stored nor as committed, until the copy of a peer or what follows proves it."""
    state = headless.state
    message = AppendRequest(5, 4, 3, headless.others[3].chain, 6, 0, 1.0, [])

    follower.on_append(state, "b", message)

    assert (0, 0) == (state.matched_index, state.commit_index)


def test_damage_behind_the_end_is_no_entry(headless) -> None:
    """Recovery may know that an entry is missing there; the leader is told where the log ends."""
    headless.state.log.damaged.add(9)
    message = AppendRequest(5, 9, 4, b"c" * 16, 0, 0, 1.0, [])

    follower.on_append(headless.state, "b", message)

    assert [True] == [reply.rejected for _, reply in headless.sent()]


def test_a_term_that_the_neighbours_exclude_is_another_entry(headless, member, entry_after) -> None:
    """Behind the lost header stands an entry of term 4: one of term 5 cannot be before it."""
    entry = entry_after(member(terms=[2, 2]).journal, 5)
    message = AppendRequest(5, 3, 2, headless.others[2].chain, 0, 0, 1.0, [entry])

    follower.on_append(headless.state, "b", message)

    assert [1, 2, 2, 5] == headless.terms()


@pytest.mark.parametrize("is_sent_from_behind", [False, True])
def test_another_entry_of_the_guessed_term_is_told_by_what_follows(
    headless, member, entry_after, is_sent_from_behind
) -> None:
    """
    No peer has what was lost: all have another entry there, and of just the term that was guessed.

    Taken for it, what follows could neither be cut nor the entry be mended: for ever.
    """
    other = member(terms=[2, 2, 2]).journal
    fourth, fifth = other.entry(4), entry_after(other, 5)
    state = headless.state
    if is_sent_from_behind:
        follower.on_append(state, "b", AppendRequest(5, 4, 2, fourth.chain, 0, 0, 1.0, [fifth]))
        (reply,) = replies(headless)
        assert reply.rejected
        assert 3 == reply.hint_index
    third = headless.others[2]
    follower.on_append(state, "b", AppendRequest(5, 3, 2, third.chain, 0, 0, 1.0, [fourth, fifth]))
    headless.store()

    assert [1, 2, 2, 2, 5] == headless.terms()
    assert set() == state.log.damaged
    assert 5 == follower.durable_match(state)


def test_an_old_request_does_not_shorten_the_log(member) -> None:
    """A delayed or doubled request whose entries we have leaves what follows them alone."""
    bench = member(terms=[2, 2, 2])
    old = request(bench, 2, 1, [bench.journal.entry(2)])

    follower.on_append(bench.state, "b", old)
    follower.on_append(bench.state, "b", old)

    assert [1, 2, 2, 2] == bench.terms()
    assert [2] == [reply.match_index for reply in replies(bench)]


def test_what_is_committed_is_never_cut(member, entry_after) -> None:
    """A leader that wants to replace a committed entry makes this node halt instead."""
    bench = member(terms=[2, 2])
    bench.state.commit_index = 3
    other = member(terms=[2])

    with pytest.raises(LogDivergedError):
        follower.on_append(bench.state, "b", request(bench, 5, 2, [entry_after(other.journal, 5)]))
    assert [1, 2, 2] == bench.terms()


def test_the_same_index_and_term_with_another_chain_halts(member) -> None:
    """Two entries that must be the same and are not: neither is chosen."""
    bench = member(terms=[2])

    with pytest.raises(LogDivergedError, match="chains differ"):
        follower.on_append(bench.state, "b", AppendRequest(2, 2, 2, b"other chain 0000", 0, 0, 1.0))


def test_entries_that_do_not_continue_the_chain_halt(member, entry_after) -> None:
    """An entry made for another log is not appended, although its index fits."""
    bench, other = member(terms=[2]), member()
    other.state.log.append([entry_after(other.journal, 2, b"something else")])
    stranger = entry_after(other.journal, 2)

    with pytest.raises(LogDivergedError, match="continue the chain"):
        follower.on_append(bench.state, "b", request(bench, 2, 2, [stranger]))


def test_two_leaders_of_one_term_halt(member) -> None:
    """A leader that hears another of its own term knows that a ballot was lost."""
    bench = member()
    bench.state.role = Role.LEADER

    with pytest.raises(LogDivergedError, match="claims to lead"):
        follower.on_append(bench.state, "b", request(bench, 1, 1))


def test_the_commit_index_stops_at_what_is_known_to_agree(member) -> None:
    """A commit index beyond what this request proves is believed only as far as it proves."""
    bench = member(terms=[2, 2, 2])

    follower.on_append(bench.state, "b", request(bench, 2, 2, commit=4))

    assert 2 == bench.state.commit_index


def test_a_state_is_sure_once_a_leader_has_told_of_an_entry_of_its_own_term(member) -> None:
    """
    Before, it may know of less than an earlier leader has confirmed: then what this node has
    applied may lack that, and it must not say that there are no users.
    """
    bench = member(terms=[2, 2, 3])

    follower.on_append(bench.state, "b", request(bench, 3, 4, commit=3))
    assert -1 == bench.state.sure_index

    follower.on_append(bench.state, "b", request(bench, 3, 4, commit=5))
    assert -1 == bench.state.sure_index, "it has not come yet"

    follower.on_append(bench.state, "b", request(bench, 3, 4, commit=4))
    assert 4 == bench.state.sure_index

    follower.on_append(bench.state, "b", request(bench, 3, 4, commit=4))
    follower.on_reset(bench.state, "b", ResetRequest(3, 100, 2, b"c" * 16, 900, 4.0))
    assert -1 == bench.state.sure_index, "the log was thrown away"


def test_what_is_told_to_be_committed_is_known_before_it_is_here(member) -> None:
    """
    By it a node knows how far behind it is; a new term may have a shorter log, as of a promotion
    by force, and says anew how far it goes.
    """
    bench = member(terms=[2, 2])

    follower.on_append(bench.state, "b", request(bench, 2, 2, commit=9))
    follower.on_append(bench.state, "b", request(bench, 2, 2, commit=7))
    assert (9, 2) == (bench.state.told_commit_index, bench.state.commit_index)

    follower.on_append(bench.state, "c", request(bench, 4, 2, commit=2))
    assert 2 == bench.state.told_commit_index


def test_a_far_too_short_log_begins_anew(member) -> None:
    """A replica that lacks what the leader no longer keeps starts at the leader's first entry."""
    bench = member(terms=[2])
    message = ResetRequest(3, 100, 2, b"c" * 16, 900, 4.0)

    follower.on_reset(bench.state, "b", message)
    bench.store()

    assert (100, 99) == (bench.journal.first_index, bench.state.commit_index)
    assert [AppendResponse(3, 99, b"c" * 16, 4.0)] == replies(bench)


def test_a_log_that_reaches_the_base_is_kept(member) -> None:
    """A reset that is not needed destroys nothing; the answer says where we are."""
    bench = member(terms=[2, 2, 2])
    chain = bench.state.log.chain_at(2)

    follower.on_reset(bench.state, "b", ResetRequest(3, 3, 2, chain, 2, 4.0))

    assert [1, 2, 2, 2] == bench.terms()
    assert [2] == [reply.match_index for reply in replies(bench)]


def test_a_reset_below_what_is_committed_is_refused(member) -> None:
    """A leader that guessed from a stale answer is told where to look."""
    bench = member(terms=[2, 2, 2])
    bench.state.commit_index = 4

    follower.on_reset(bench.state, "b", ResetRequest(3, 3, 1, b"c" * 16, 2, 4.0))

    (_, answer), *_ = bench.sent()
    assert (True, 4) == (answer.rejected, answer.hint_index)
    assert [1, 2, 2, 2] == bench.terms()


def test_a_closed_link_to_the_leader_means_standing_soon(member) -> None:
    """Without waiting for the election timeout, but a little staggered."""
    bench = member()
    follower.on_append(bench.state, "b", request(bench, 2, 1))

    follower.on_leader_link_closed(bench.state)

    assert bench.state.election_deadline <= bench.state.now + 0.03


def test_damage_that_nobody_can_mend_is_dropped_with_its_segment(member, entry_after) -> None:
    """The leader no longer keeps what is before its base; the rest of our log stays."""
    bench = member(terms=[2] * 9)
    for _ in range(3):
        bench.state.log.append([entry_after(bench.journal, 2, b"x" * 6000)])
    bench.store()
    base = bench.journal.segments()[1].base_index
    bench.state.log.damaged.add(2)
    term, chain, record = bench.journal.previous(base)

    follower.on_reset(bench.state, "b", ResetRequest(3, base, term, chain, record, 4.0))

    assert (set(), base, 1) == (
        bench.state.log.damaged,
        bench.journal.first_index,
        bench.state.log.epoch,
    )
    assert base - 1 == follower.durable_match(bench.state)


def test_a_change_thrown_away_with_the_log_rules_no_more(member, entry_after) -> None:
    """It may never have been committed, and whom it took out may be the leader that says so."""
    bench = member(terms=[1, 1])
    state = bench.state
    state.commit_index = 2
    before = state.membership
    change = before.changed(with_removed(before, "c", "a"), 1)
    state.log.append([entry_after(bench.journal, 1, encode_membership(change), KIND_CONFIG)])
    bench.store()
    state.adopt(change, bench.journal.last_index)

    follower.on_reset(state, "c", ResetRequest(2, 50, 2, bytes(16), 50, 1.0))

    assert (before, 49) == (state.membership, state.commit_index)
    assert "c" in state.voter_names


def test_what_waited_while_this_node_slept_is_no_news(member) -> None:
    """An operator is told how long ago that was said which was heard last, not when it was read."""
    bench = member()
    state = bench.state
    said = ((100, 5, 100), (101, 6.5, 101), (160, 10, 104.5), (161, 66, 160.5))
    for now, sent_at, heard_at in said:
        state.now = now
        follower.on_append(state, "b", request(bench, 2, 1, sent_at=sent_at))
        assert heard_at == pytest.approx(state.heard_at, abs=0.1)
        assert now == state.leader_contact_at

    state.now = 162
    follower.on_append(state, "c", request(bench, 3, 1, sent_at=9_000))
    assert 162 == state.heard_at


@pytest.mark.parametrize("term", [3, 5])
def test_a_reset_behind_a_lost_header_is_compared_by_what_follows_it(headless, term) -> None:
    """The guessed term differs: the log would be thrown away, or the reset sent for ever."""
    state = headless.state
    right = headless.others[3].chain
    chain = right if term == 3 else bytes(16 * [7])
    state.commit_index = 6 if term == 3 else 0
    message = ResetRequest(5, 5, term, chain, 5, 0.0, 6, 6, 0)
    follower.on_reset(state, "b", message)
    is_kept = term == 3
    assert (headless.journal.last_index == 6) == is_kept
    assert state.matched_index == 4

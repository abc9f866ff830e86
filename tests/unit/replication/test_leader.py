"""Tests of replication/leader.py: appending, counting, committing, and proving that it leads."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.errors import CorruptEntryError, NotLeaderError
from holdfast.model.records import CleanedRecord
from holdfast.replication import candidate, leader
from holdfast.replication.index_set import IndexSet
from holdfast.replication.membership import Membership, survivors_only
from holdfast.replication.messages import NO_CHAIN, AppendRequest, ResetRequest
from holdfast.replication.progress import Pace
from holdfast.replication.state import Role
from holdfast.store.record_codec import encode_records


def requests(bench):
    leader.replicate(bench.state)
    return [(peer, message) for peer, message in bench.sent() if type(message) is AppendRequest]


def test_a_new_leader_begins_with_its_own_entry(leading) -> None:
    """The NOOP of its term settles what earlier terms left open."""
    bench = leading()

    assert [1, 2] == bench.terms()
    assert (2, 2) == (bench.state.term_start, bench.state.commit_index)


def test_requests_leave_before_our_own_disk_is_done(leading) -> None:
    """The followers write at the same time as we do."""
    bench = leading()

    leader.propose(bench.state, [b"x"], 1, 0)

    assert [("b", 1), ("c", 1)] == [(peer, len(it.entries)) for peer, it in requests(bench)]
    assert 2 == bench.journal.stored_index


def test_two_peers_at_one_place_share_a_request(leading) -> None:
    """It is built and encoded once."""
    bench = leading()
    leader.propose(bench.state, [b"x"], 1, 0)

    (_, one), (_, other) = requests(bench)

    assert one is other


def test_we_count_only_what_we_stored(leading, answered) -> None:
    """With one follower's copy and our own under way there is no majority yet."""
    bench = leading()
    leader.propose(bench.state, [b"x"], 1, 0)

    answered(bench, "b", 3)
    assert 2 == bench.state.commit_index

    bench.store()
    leader.advance_commit(bench.state)
    assert 3 == bench.state.commit_index


@pytest.mark.promise("F27")
def test_two_followers_commit_without_us(leading, answered) -> None:
    """A slow disk of the leader does not hold up what a majority has."""
    bench = leading()
    leader.propose(bench.state, [b"x"], 1, 0)

    answered(bench, "b", 3)
    answered(bench, "c", 3)

    assert (3, 0) == (bench.state.commit_index, bench.state.uncommitted_bytes)


def test_what_was_never_written_is_not_held(leading, answered) -> None:
    """A peer that says it holds more than there is proves nothing, and ends nobody."""
    bench = leading()
    leader.propose(bench.state, [b"x"], 1, 0)
    bench.store()

    answered(bench, "b", 4)
    answered(bench, "c", 2**62)

    assert 2 == bench.state.commit_index
    answered(bench, "b", 3)
    assert 3 == bench.state.commit_index


def test_old_entries_are_not_committed_by_counting(member, answered) -> None:
    """Raft 5.4.2, figure 8: an older term's entry on a majority may still be overwritten."""
    bench = member(terms=[2, 2])
    bench.state.enter_term(4)
    bench.state.role = Role.CANDIDATE
    leader.become_leader(bench.state)
    bench.store()

    answered(bench, "b", 3)
    assert 0 == bench.state.commit_index

    answered(bench, "b", 4)
    assert 4 == bench.state.commit_index


def test_a_witness_counts_as_a_copy(leading, answered) -> None:
    """A pair whose other data node is down goes on with the witness's copy."""
    bench = leading("a", "b", "w:witness")
    leader.propose(bench.state, [b"x"], 1, 0)
    bench.store()

    answered(bench, "w", 3)

    assert 3 == bench.state.commit_index


def test_more_copies_than_a_majority_can_be_asked_for(leading, answered) -> None:
    """copies=3 of three: the loss of one stops commits, as the operator chose."""
    bench = leading(copies=3)
    leader.propose(bench.state, [b"x"], 1, 0)
    bench.store()

    answered(bench, "b", 3)
    assert 2 == bench.state.commit_index
    answered(bench, "c", 3)
    assert 3 == bench.state.commit_index


def test_copies_are_of_nodes_with_data(leading, answered) -> None:
    """Two asked for, of a pair with a witness: the witness's log is none of them."""
    bench = leading("a", "b", "w:witness", copies=2)
    leader.propose(bench.state, [b"x"], 1, 0)
    bench.store()

    answered(bench, "w", 3)
    assert 2 == bench.state.commit_index
    answered(bench, "b", 3)
    assert 3 == bench.state.commit_index


def test_the_default_of_copies_follows_the_members(leading) -> None:
    """Whatever was named on the command lines when they were started."""
    counts = [
        leading(*words.split()).state.copies for words in ("a", "a b", "a b w:witness", "a b c")
    ]

    assert [1, 2, 1, 2] == counts


def test_a_learner_does_not_count(leading, answered) -> None:
    """An asynchronous copy confirms nothing."""
    bench = leading("a", "b", "d:learner")
    leader.propose(bench.state, [b"x"], 1, 0)
    bench.store()

    answered(bench, "d", 3)

    assert 2 == bench.state.commit_index


def test_the_lease_is_counted_from_the_sending(leading, answered) -> None:
    """An answer that came late proves only that we led when we asked."""
    bench = leading()
    state = bench.state
    began = state.now

    state.now += 5
    answered(bench, "b", 2, sent_at=began + 1)

    assert began + 1 + state.settings.lease_seconds == state.lease_until


def test_an_answer_from_the_future_proves_nothing(leading, answered) -> None:
    """A time that is yet to come was told by another machine's clock: no lease, no contact."""
    bench = leading()
    before = bench.state.lease_until

    answered(bench, "b", 2, sent_at=bench.state.now + 700_000)

    assert before == bench.state.lease_until


@pytest.mark.promise("F9")
def test_without_answers_the_leader_steps_down(leading) -> None:
    """No majority for the shortest election timeout: somebody else may lead by now."""
    bench = leading()
    leader.check_quorum(bench.state)
    assert Role.LEADER is bench.state.role

    bench.state.now += bench.state.settings.election_seconds_min
    leader.check_quorum(bench.state)

    assert (Role.FOLLOWER, None) == (bench.state.role, bench.state.leader)
    with pytest.raises(NotLeaderError):
        leader.propose(bench.state, [b"x"], 1, 0)


def test_alone_the_lease_never_ends(leading) -> None:
    """A single voter needs nobody's word."""
    bench = leading("a")

    bench.state.now += 1e6
    leader.check_quorum(bench.state)

    assert Role.LEADER is bench.state.role
    assert bench.state.lease_until > bench.state.now


def test_a_rejection_moves_the_probe_back(leading, answered) -> None:
    """The hint says where the logs may agree; the next request starts there."""
    bench = leading(terms=[1, 1, 1])
    bench.link("b")
    progress = bench.state.progress["b"]
    progress.match_index = 0
    progress.probe(6)

    answered(bench, "b", 0, rejected=True, hint_index=2, hint_term=1, match_chain=NO_CHAIN)

    assert (Pace.PROBING, 3) == (progress.pace, progress.next_index)


def test_a_rejection_always_moves_back(leading, answered) -> None:
    """Even when its hint does not help, the search for agreement goes on."""
    bench = leading(terms=[1, 1, 1])
    progress = bench.state.progress["b"]
    progress.match_index = 0
    progress.probe(4)

    answered(bench, "b", 0, rejected=True, hint_index=9, hint_term=9, match_chain=NO_CHAIN)

    assert 3 == progress.next_index


def test_an_answer_with_another_chain_counts_nothing(leading, answered) -> None:
    """A follower whose log differs is not a copy; the next request makes it find out."""
    bench = leading()
    leader.propose(bench.state, [b"x"], 1, 0)
    bench.store()

    answered(bench, "b", 3, match_chain=b"something else!!")

    assert 2 == bench.state.commit_index


@pytest.mark.promise("F28")
def test_the_window_bounds_what_is_under_way(leading) -> None:
    """An unanswering peer is sent so much and no more."""
    bench = leading(window_requests=3, append_bytes_max=1)
    for _ in range(10):
        leader.propose(bench.state, [b"x"], 1, 0)

    assert 6 == len(requests(bench))
    assert [] == requests(bench)


def test_small_entries_count_for_more_than_their_bytes(leading) -> None:
    """
    To read, send, check and store thousands of them would take both ends a tenth of a second of one
    turn, though together they are no megabyte.
    """
    bench = leading()
    state = bench.state
    for _ in range(3000):
        leader.propose(state, [b"x"], 1, 0)
    first = bench.journal.last_index - 2999

    of_b = [message for peer, message in requests(bench) if peer == "b"]
    assert max(len(message.entries) for message in of_b) <= 256
    assert 256 <= sum(len(message.entries) for message in of_b) <= 1024 + 256

    seen = [entry.index for message in of_b for entry in message.entries]
    for _ in range(20):
        state.progress["b"].matched(seen[-1])
        more = [message for peer, message in requests(bench) if peer == "b"]
        seen += [entry.index for message in more for entry in message.entries]
    assert list(range(first, first + 3000)) == seen


def test_a_silent_peer_gets_heartbeats(leading) -> None:
    """With nothing to send, one empty request per period."""
    bench = leading()
    assert [] == requests(bench)

    bench.state.now += bench.state.settings.heartbeat_seconds

    assert [0, 0] == [len(message.entries) for _, message in requests(bench)]


@pytest.mark.promise("F28")
def test_a_peer_that_is_too_far_behind_begins_anew(leading) -> None:
    """What is not kept any more cannot be sent: start at the first kept entry."""
    bench = leading()
    for _ in range(40):
        leader.append(bench.state, 0, [bytes(1000)], 1, 0)
    bench.store()
    bench.journal.drop_before(30)
    bench.state.progress["b"].match_index = 0
    bench.state.progress["b"].probe(1)

    leader.replicate(bench.state)

    resets = [it for peer, it in bench.sent() if peer == "b" and isinstance(it, ResetRequest)]
    assert [bench.journal.first_index] == [message.base_index for message in resets]
    assert Pace.RESETTING is bench.state.progress["b"].pace


def test_damage_met_while_sending_is_noted(leading, monkeypatch) -> None:
    """The leader's own copy is bad: it is noted, and asked from a follower elsewhere."""
    bench = leading()
    leader.propose(bench.state, [b"x"], 1, 0)

    def rotten(*_):
        raise CorruptEntryError("rot", index=3)

    monkeypatch.setattr(type(bench.journal), "entries", rotten)
    leader.replicate(bench.state)

    assert {3} == bench.state.log.damaged
    assert not [it for _, it in bench.sent() if getattr(it, "entries", None)]


def test_a_witness_takes_no_proposals(leading) -> None:
    """It leads only to hand over."""
    bench = leading("a", "b", "w:witness", name="w")

    with pytest.raises(NotLeaderError):
        leader.propose(bench.state, [b"x"], 1, 0)


def with_cleaned_segments(bench, entry_after, *, is_told: bool = True) -> int:
    """
    Make a log of some segments and let the oldest go; return where it begins.

    Unless `is_told`, no record says that they were cleaned: all data nodes held them.
    """
    for _ in range(6):
        bench.state.log.append([entry_after(bench.journal, 2, b"x" * 6000)])
    if is_told:
        cleaned = b"".join(encode_records([CleanedRecord(5)]))
        bench.state.log.append([entry_after(bench.journal, 2, cleaned)])
    bench.store()
    bench.journal.drop_before(bench.journal.segments()[2].base_index)
    assert 6 == bench.journal.first_index
    return 6


def test_a_witness_may_trim_what_both_data_nodes_hold(leading, answered) -> None:
    """With a single data node the witness's copy is the second one: it trims nothing."""
    pair, lone = leading("a", "b", "w:witness"), leading("a", "w:witness")

    assert 2 == leader.data_match(pair.state)
    assert 1 == leader.data_match(lone.state)


@pytest.mark.promise("F35")
def test_a_witness_may_trim_what_the_leader_has_cleaned(leading, entry_after) -> None:
    """Else its log would grow for as long as a data node is down, until its disk is full."""
    bench = leading("a", "b", "w:witness")
    first = with_cleaned_segments(bench, entry_after)

    assert first > bench.state.progress["b"].match_index
    assert first == leader.data_match(bench.state)


def test_a_witness_keeps_what_a_future_voter_lacks(leading) -> None:
    """Else it could not bring it up, once it is one."""
    bench = leading("a", "b", "d", "w:witness")
    member = replace(bench.state.members["d"], kind="learner", promote_to="voter")
    others = [it for it in bench.state.membership.members if it.name != "d"]
    bench.state.adopt(replace(bench.state.membership, members=(*others, member)), 1)
    bench.state.progress["d"].match_index = 1

    assert 1 == leader.data_match(bench.state)


@pytest.mark.promise("F35")
def test_a_witness_that_leads_lets_a_voter_begin_with_its_log(leading, entry_after) -> None:
    """What it dropped a leader had cleaned away, its log says; a learner is left to others."""
    bench = leading("a", "b", "w:witness", name="w")
    first = with_cleaned_segments(bench, entry_after)
    bench.state.progress["b"].next_index = 1

    leader.replicate(bench.state)
    sent = [message for peer, message in bench.sent() if peer == "b"]
    assert [first] == [message.base_index for message in sent]

    bench.state.members["b"] = replace(bench.state.members["b"], kind="learner")
    assert not leader.may_begin_here(bench.state, "b")


@pytest.mark.promise("F35")
def test_a_witness_tells_nobody_to_drop_what_others_hold(leading, entry_after) -> None:
    """
    A data node that has lost what it held would begin with the witness's log and never ask them.

    It is told who leads instead, and waits for the one that has it.
    """
    bench = leading("a", "b", "w:witness", name="w")
    first = with_cleaned_segments(bench, entry_after, is_told=False)
    bench.state.progress["b"].next_index = 1
    bench.sent()

    for _ in range(2):
        bench.state.now += bench.state.settings.heartbeat_seconds
        leader.replicate(bench.state)
        sent = [message for peer, message in bench.sent() if peer == "b"]
        assert [(first - 1, [])] == [(it.previous_index, it.entries) for it in sent]

        leader.replicate(bench.state)
        assert [] == [message for peer, message in bench.sent() if peer == "b"]
        bench.state.progress["b"].probe(2)  # It says where its log ends.


def test_a_witness_without_room_counts_where_it_is_needed(leading) -> None:
    """With both data nodes in contact its disk stops nobody."""
    bench = leading("a", "b", "w:witness")
    bench.link("w", space_low=True)

    assert "" == leader.cramped_witness(bench.state)
    bench.state.now += 10.0
    assert "w" == leader.cramped_witness(bench.state)
    bench.link("w")
    assert "" == leader.cramped_witness(bench.state)


@pytest.mark.promise("F14")
def test_timestamps_only_rise(leading) -> None:
    """A wall clock that jumps back does not make an entry older than the one before."""
    bench = leading()

    first = leader.propose(bench.state, [b"x"], 1, 1_000_000)
    second = leader.propose(bench.state, [b"x"], 1, 5)

    assert (1_000_000, 1_000_001) == (first.timestamp, second.timestamp)


def test_a_hole_that_nobody_mends_ends_the_lead(leading) -> None:
    """
    What is not committed may be here only. Led by this node the cluster would store nothing more.
    """
    bench = leading()
    state = bench.state
    bench.append([2])
    state.log.damaged.add(2)
    leader.check_whole(state)
    state.now += 10.0
    leader.check_whole(state)
    assert state.role is Role.LEADER  # It is committed: others have it.

    state.log.damaged = IndexSet({3})
    leader.check_whole(state)
    state.now += 0.9 * state.settings.election_seconds_max
    leader.check_whole(state)
    assert state.role is Role.LEADER
    state.now += 0.2 * state.settings.election_seconds_max
    leader.check_whole(state)

    assert state.role is Role.FOLLOWER
    candidate.stand(state)
    assert state.role is Role.FOLLOWER


def test_a_hole_that_is_mended_in_time_ends_no_lead(leading) -> None:
    """Its time begins anew with the next one."""
    bench = leading()
    state = bench.state
    bench.append([2])
    state.log.damaged = IndexSet({3})
    leader.check_whole(state)
    state.now += 0.9 * state.settings.election_seconds_max
    state.log.damaged = set()
    leader.check_whole(state)
    state.log.damaged = IndexSet({3})
    state.now += 0.9 * state.settings.election_seconds_max
    leader.check_whole(state)

    assert state.role is Role.LEADER


def test_a_peer_with_much_under_way_is_not_silent(leading) -> None:
    """What a large entry takes to cross and to be stored is no reason to step down; later it is."""
    bench = leading()
    state = bench.state
    rate = state.settings.peer_bytes_per_second_min
    for progress in state.progress.values():
        progress.sent(1, state.settings.window_bytes + 3 * rate)
    state.now += 2.9 + state.settings.election_seconds_min
    leader.check_quorum(state)
    assert state.role is Role.LEADER
    assert state.now > state.lease_until
    state.progress["b"].moved_at = state.now
    state.now += 3.5
    leader.check_quorum(state)
    assert state.role is Role.LEADER
    state.now += 1.0
    leader.check_quorum(state)
    assert state.role is Role.FOLLOWER


def test_a_large_entry_is_not_sent_again_with_each_heartbeat(leading) -> None:
    """While it is not known whether it fits, only the question goes."""
    bench = leading()
    state = bench.state
    state.progress["b"].probe(1)
    state.progress["c"].probe(1)
    leader.append(state, 0, [bytes(state.settings.append_bytes_max + 1)], 1, 0)
    for progress in state.progress.values():
        progress.probe(state.log.last_index)
    for _ in range(3):
        state.now += state.settings.heartbeat_seconds
        assert [len(message.entries) for _, message in requests(bench)] == [0, 0]


def test_a_probe_that_is_not_answered_is_not_sent_again(leading, answered) -> None:
    """On a slow link entries would come faster than it takes them away; the question is enough."""
    bench = leading()
    state = bench.state
    progress = state.progress["b"]
    leader.propose(state, [b"x"], 1, 0)
    bench.link("b")
    progress.probe(3)
    sizes = []
    for _ in range(4):
        state.now += state.settings.heartbeat_seconds
        sizes += [len(message.entries) for peer, message in requests(bench) if peer == "b"]
    assert [1, 0, 0, 0] == sizes

    answered(bench, "b", 2, sent_at=state.now)

    assert [1] == [len(message.entries) for peer, message in requests(bench) if peer == "b"]


def test_an_answer_to_what_went_before_the_probe_says_nothing(leading, answered) -> None:
    """Heartbeats queue up on a slow link; each rejection of an old one would send all again."""
    bench = leading()
    state = bench.state
    progress = state.progress["b"]
    for _ in range(3):
        leader.propose(state, [b"x"], 1, 0)
    bench.link("b")
    progress.probe(4)
    before = state.now
    state.now += state.settings.heartbeat_seconds
    assert requests(bench)

    for hint in (2, 2):
        answered(
            bench, "b", 0, rejected=True, hint_index=hint, hint_term=2, sent_at=before,
            match_chain=NO_CHAIN,
        )  # fmt: skip
        assert (4, []) == (progress.next_index, requests(bench))

    answered(
        bench, "b", 0, rejected=True, hint_index=2, hint_term=2, sent_at=state.now,
        match_chain=NO_CHAIN,
    )  # fmt: skip
    assert (3, Pace.PROBING) == (progress.next_index, progress.pace)


def test_who_was_shut_out_is_waited_for_by_nobody(leading) -> None:
    """After a forced promotion a fenced name may come back as a voter; until then it is no peer."""
    bench = leading("a", "b", "c")
    present = bench.state.membership
    fenced = Membership(survivors_only(present, "b")).get("c")
    members = tuple(fenced if it.name == "c" else it for it in present.members)

    leader.append_config(bench.state, present.changed(members, 1))

    assert {"b"} == set(bench.state.progress)
    assert 2 == leader.data_match(bench.state)

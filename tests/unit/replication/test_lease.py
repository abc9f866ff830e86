"""Tests of replication/lease.py: from when a new leader may dispatch."""

from __future__ import annotations

import pytest

from holdfast.replication import candidate, consensus, follower, lease
from holdfast.replication import membership as changes
from holdfast.replication.messages import AppendRequest, AppendResponse, VoteResponse
from holdfast.replication.state import Role


@pytest.fixture
def promised(member):
    """A member that has just answered c, the leader of term 2; timeouts of one second."""

    def build(*words, **options):
        bench = member(*words, **options)
        state = bench.state
        request = AppendRequest(2, 1, 1, state.log.chain_at(1), 1, 0, 5.0)
        follower.on_append(state, "c", request)
        follower.reply(state)
        bench.sent()
        return bench

    return build


def elect(state, *votes: VoteResponse) -> None:
    """Let this node stand and be voted for by itself and these, in the order b, c."""
    candidate.start_election(state, is_transfer=False)
    candidate.on_ballot_stored(state, state.term, state.name)
    for voter, vote in zip("bc", votes, strict=False):
        vote.term = state.term
        candidate.on_vote_response(state, voter, vote)


def test_a_vote_tells_what_is_left_of_what_was_promised(promised) -> None:
    """Counted from when the leader's request came, by the voter's own clock."""
    state = promised().state
    assert VoteResponse(2, True, 2, 1.0, 0.0) == lease.vote(state, granted=True)

    state.now += 0.75
    assert VoteResponse(2, False, 2, 0.25, 0.0) == lease.vote(state, granted=False)

    state.now += 7
    assert VoteResponse(2, False, 2, 0.0, 0.0) == lease.vote(state, granted=False)


def test_a_new_leader_waits_for_what_a_quorum_has_promised(promised) -> None:
    """Its own promise counts as any other: the lease may rest on it."""
    state = promised().state
    state.now += 0.25
    elect(state, VoteResponse(0, True, 2, 0.5, 0.0))

    assert Role.LEADER is state.role
    assert state.now + 0.75 == state.dispatch_from


def test_a_later_answer_brings_it_forward(promised) -> None:
    """Any quorum will do: the lease rests on one that shares a voter with it."""
    state = promised("a", "b", "c", "d", "e").state
    state.now += 0.25
    elect(state, VoteResponse(0, True, 2, 0.5, 0.0))
    candidate.on_vote_response(state, "d", VoteResponse(state.term, True, 2, 1.0, 0.0))
    assert state.now + 1.0 == state.dispatch_from

    candidate.on_vote_response(state, "e", VoteResponse(state.term, False, 1, 0.25, 0.0))
    assert state.now + 0.75 == state.dispatch_from


def test_who_led_before_and_follows_now_is_not_waited_for(promised) -> None:
    """Its answer in our term proves it; what was promised to leaders before it still counts."""
    state = promised().state
    elect(state, VoteResponse(0, True, 2, 1.0, 0.125))
    assert state.now + 1.0 == state.dispatch_from

    state.progress["c"].sent_at = state.now
    consensus.receive(state, "c", AppendResponse(state.term, 1, state.log.chain_at(1), state.now))
    assert state.now + 0.125 == state.dispatch_from


@pytest.mark.parametrize("news", [{"instance": "second"}, {"has_ended": True}])
def test_a_process_that_is_gone_is_not_waited_for(promised, news) -> None:
    """A restarted one holds the data directory, so the one before does not run any more."""
    bench = promised()
    state = bench.state
    elect(state, VoteResponse(0, True, 2, 1.0, 0.0))
    hello = bench.link("c", **news)
    state.connected["c"] = bench.link("c")

    consensus.link_up(state, "c", hello)

    assert state.now >= state.dispatch_from


def test_another_node_of_that_name_proves_nothing(promised) -> None:
    """A new identity may stand on another machine."""
    bench = promised()
    state = bench.state
    elect(state, VoteResponse(0, True, 2, 1.0, 0.0))

    consensus.link_up(state, "c", bench.link("c", node_id="0" * 32, instance="second"))

    assert state.now + 1.0 == state.dispatch_from


def test_an_answer_of_another_node_of_that_name_proves_nothing(promised) -> None:
    """It was taken in since, under the name of who led: that one may dispatch elsewhere yet."""
    bench = promised()
    state = bench.state
    elect(state, VoteResponse(0, True, 2, 1.0, 0.0))
    bench.link("c", node_id="0" * 32)
    members = changes.with_identity(state.membership, "c", "0" * 32, "c:2")
    state.adopt(state.membership.changed(members, 1), 3)

    consensus.receive(state, "c", AppendResponse(state.term, 1, state.log.chain_at(1), state.now))

    assert state.now + 1.0 == state.dispatch_from


def test_who_was_removed_since_is_waited_for(promised) -> None:
    """The lease of the one before rests on three of five; two that are left prove nothing."""
    state = promised("a", "b", "c", "d", "e").state
    elect(state, VoteResponse(0, True, 1, 0.0, 0.0))
    vote = VoteResponse(state.term, True, 1, 0.0, 0.0)
    candidate.on_vote_response(state, "d", vote)
    assert (Role.LEADER, state.now + 1.0) == (state.role, state.dispatch_from)

    left = tuple(it for it in state.membership.members if it.name not in "ce")
    state.adopt(state.membership.changed(left, 1), 3)
    candidate.on_vote_response(state, "d", vote)

    assert state.now + 1.0 == state.dispatch_from


def test_a_closed_link_proves_nothing(promised) -> None:
    """Whoever stands between two nodes can reset it for one of them."""
    state = promised().state
    consensus.link_down(state, "c", closed=True)

    assert 1.0 == lease.vote(state, granted=True).lease_left


def test_a_process_that_has_just_started_promises_a_full_lease(member) -> None:
    """It has forgotten whom the one before it has answered; counted from when it was started."""
    state = member().state
    lease.start(state, state.now - 0.25)

    assert VoteResponse(1, True, 0, 0.0, 0.75) == lease.vote(state, granted=True)


@pytest.mark.parametrize("words", [("a",), ("a", "b:learner")])
def test_who_votes_alone_has_promised_nothing(member, words) -> None:
    """Nobody else can have led."""
    state = member(*words).state
    lease.start(state, state.now)

    assert 0.0 == lease.vote(state, granted=True).older_left


def test_older_promises_are_kept_apart(promised) -> None:
    """That the last leader is gone says nothing of the one before it."""
    state = promised().state
    state.now += 0.25
    state.connected["b"].instance = "first"
    follower.on_append(state, "b", AppendRequest(3, 1, 1, state.log.chain_at(1), 1, 0, 5.0))

    assert VoteResponse(3, True, 3, 1.0, 0.75) == lease.vote(state, granted=True)


def test_a_leader_that_comes_back_does_not_wait_for_itself(leading) -> None:
    """It led the term that the others have promised to, and does not lead it any more."""
    state = leading().state
    follower.become_follower(state, 2, None)
    elect(state, VoteResponse(0, True, 2, 1.0, 0.0))

    assert state.now >= state.dispatch_from

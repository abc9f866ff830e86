"""Tests of replication/voting.py: who gets a vote, and when a living leader protects itself."""

from __future__ import annotations

import pytest

from holdfast.replication import voting
from holdfast.replication.membership import with_identity
from holdfast.replication.messages import (
    PreVoteRequest,
    PreVoteResponse,
    VoteRequest,
    VoteResponse,
)
from holdfast.replication.state import Role


def pre_vote(bench, *fields):
    voting.on_pre_vote_request(bench.state, "b", PreVoteRequest(*fields))
    return [message.granted for _, message in bench.sent()]


def vote(bench, *fields, peer="b"):
    voting.on_vote_request(bench.state, peer, VoteRequest(*fields))
    return [message.granted for _, message in bench.sent()]


@pytest.mark.parametrize(
    ("index", "term", "granted"),
    [(3, 2, True), (9, 2, True), (1, 3, True), (2, 2, False), (9, 1, False)],
)
def test_a_vote_needs_a_log_as_complete_as_ours(member, index, term, granted) -> None:
    """The later last term wins, then the longer log (Raft 5.4.1)."""
    bench = member(terms=[2, 2])

    assert [granted] == pre_vote(bench, 5, index, term)
    assert [granted] == vote(bench, 5, index, term)


def test_one_vote_per_term(member) -> None:
    """The second candidate of a term is refused, the first is told yes again."""
    bench = member()

    assert [True] == vote(bench, 5, 9, 5, peer="b")
    assert [False] == vote(bench, 5, 9, 5, peer="c")
    assert [True] == vote(bench, 5, 9, 5, peer="b")
    assert "b" == bench.state.voted_for


@pytest.mark.promise("F10")
def test_a_pre_vote_changes_nothing(member) -> None:
    """Neither term nor vote is touched by a question."""
    bench = member()

    voting.on_pre_vote_request(bench.state, "b", PreVoteRequest(5, 9, 5))

    assert [("b", PreVoteResponse(5, granted=True))] == bench.sent()
    assert (1, None) == (bench.state.term, bench.state.voted_for)


@pytest.mark.promise("F8", "F10")
def test_a_living_leader_is_not_deposed(member) -> None:
    """Who hears its leader refuses, and does not even take the higher term over."""
    bench = member()
    bench.state.leader, bench.state.leader_contact_at = "c", bench.state.now

    assert [False] == pre_vote(bench, 5, 9, 5)
    voting.on_vote_request(bench.state, "b", VoteRequest(5, 9, 5))
    assert [("b", VoteResponse(1, granted=False))] == bench.sent()
    assert 1 == bench.state.term


def test_a_closed_link_ends_the_protection(member) -> None:
    """The voter whose own link to the leader closed as well agrees at once."""
    bench = member()
    bench.state.leader, bench.state.leader_contact_at = "c", bench.state.now
    bench.state.is_leader_link_closed = True

    assert [True] == pre_vote(bench, 5, 9, 5)


def test_a_hand_over_is_welcome(member) -> None:
    """The leader itself wants it: a transfer is not refused for the leader's sake."""
    bench = member()
    bench.state.leader, bench.state.leader_contact_at = "c", bench.state.now

    assert [True] == vote(bench, 5, 9, 5, True)


def test_an_unknown_tail_counts_as_held(member) -> None:
    """Recovery could not tell whether entry 4 was stored: a candidate without it is refused."""
    bench = member(terms=[2, 2])
    bench.state.log.unknown_index, bench.state.log.unknown_term = 4, 2

    assert [False] == vote(bench, 5, 3, 2)
    assert [True] == vote(bench, 6, 4, 2)


def test_who_belongs_nowhere_does_not_vote(member) -> None:
    """A fresh node, one whose name has another by now, and one that was shut out give no votes."""
    fresh, replaced, fenced = member(), member(), member()
    fresh.state.membership, fresh.state.cluster_id = None, ""
    present = replaced.state.membership
    replaced.state.adopt(present.changed(with_identity(present, "a", "ff" * 16, ""), 1), 2)
    fenced.state.fenced_reason = "removed"

    for bench in (fresh, replaced, fenced):
        assert [False] == vote(bench, 5, 9, 5)


def test_who_is_not_yet_named_by_its_own_log_votes(member) -> None:
    """
    It has the log up to where its name was another node's. The candidate, which may be the only
    one to have the rest, knows whether this one is a voter.
    """
    bench = member()
    bench.state.node_id = "ff" * 16
    bench.state.adopt(bench.state.membership, 1)

    assert [True] == vote(bench, 5, 9, 5)


def test_who_died_while_its_log_was_begun_anew_votes(member) -> None:
    """Its members stood in that log; without its vote a majority could not elect anybody."""
    bench = member()
    bench.state.membership = None

    assert [True] == vote(bench, 5, 9, 5)


def test_of_two_that_stand_at_once_one_gives_way(member) -> None:
    """Equal logs: the later name goes on, the other helps it, so the votes are not split."""
    earlier, later = member(), member(name="c")
    for bench in (earlier, later):
        bench.state.role = Role.PRE_CANDIDATE

    voting.on_pre_vote_request(earlier.state, "c", PreVoteRequest(2, 1, 1))
    voting.on_pre_vote_request(later.state, "a", PreVoteRequest(2, 1, 1))

    assert (Role.FOLLOWER, Role.PRE_CANDIDATE) == (earlier.state.role, later.state.role)


def test_who_refuses_for_a_better_log_stands_soon(member) -> None:
    """Only the refusing voter can win, so it does not wait for its whole timeout."""
    bench = member(terms=[2, 2])
    bench.state.await_leader()

    assert [False] == pre_vote(bench, 5, 1, 1)
    assert bench.state.election_deadline < bench.state.now + 0.2


def test_who_may_be_an_older_copy_gets_no_vote(member) -> None:
    """Others know an edition of its ballot that it has not shown."""
    bench = member()
    b = bench.link("b", edition=4)
    bench.state.editions.hear("c", {b.node_id: 5})

    assert [False] == pre_vote(bench, 5, 9, 5)
    assert [False] == vote(bench, 5, 9, 5)
    b.edition = 5
    assert [True] == pre_vote(bench, 6, 9, 5)
    assert [True] == vote(bench, 6, 9, 5)

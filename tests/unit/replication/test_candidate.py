"""Tests of replication/candidate.py: standing, counting, winning and losing."""

from __future__ import annotations

import pytest

from holdfast.replication import candidate
from holdfast.replication.messages import (
    PreVoteRequest,
    PreVoteResponse,
    TransferRequest,
    VoteRequest,
    VoteResponse,
)
from holdfast.replication.state import Role


def elected(bench) -> None:
    """Win the pre-vote with b's help."""
    candidate.stand(bench.state)
    candidate.on_pre_vote_response(
        bench.state, "b", PreVoteResponse(bench.state.term + 1, granted=True)
    )


def test_standing_begins_with_a_question(member) -> None:
    """No term is spent before a majority said it would vote."""
    bench = member(terms=[2])

    candidate.stand(bench.state)

    assert [("b", PreVoteRequest(3, 2, 2)), ("c", PreVoteRequest(3, 2, 2))] == bench.sent()
    assert (Role.PRE_CANDIDATE, 2) == (bench.state.role, bench.state.term)


def test_a_majority_of_pre_votes_begins_the_election(member) -> None:
    """Now the term is spent, and the vote is our own."""
    bench = member()
    elected(bench)

    assert (Role.CANDIDATE, 2, "a") == (
        bench.state.role,
        bench.state.term,
        bench.state.voted_for,
    )
    assert ("b", VoteRequest(2, 1, 1)) in bench.sent()


def test_our_own_vote_counts_when_it_is_durable(member) -> None:
    """One vote from b and our own: leader only after the ballot is on disk."""
    bench = member()
    elected(bench)
    candidate.on_vote_response(bench.state, "b", VoteResponse(2, granted=True))
    assert Role.CANDIDATE is bench.state.role

    candidate.on_ballot_stored(bench.state, 2, "a")

    assert Role.LEADER is bench.state.role


def test_a_ballot_of_an_older_term_counts_nothing(member) -> None:
    """The disk was slow: that vote was for an election that is over."""
    bench = member()
    elected(bench)

    candidate.on_ballot_stored(bench.state, 1, "a")

    assert {} == bench.state.votes


def test_votes_of_strangers_do_not_count(member) -> None:
    """A node with b's name and another identity elects nobody."""
    bench = member()
    elected(bench)
    candidate.on_ballot_stored(bench.state, 2, "a")
    bench.link("b", node_id="ff" * 16)

    candidate.on_vote_response(bench.state, "b", VoteResponse(2, granted=True))

    assert Role.CANDIDATE is bench.state.role


def test_refusals_end_the_candidacy(member) -> None:
    """When no majority is possible any more, wait a little and try again."""
    bench = member()
    elected(bench)

    for peer in "bc":
        candidate.on_vote_response(bench.state, peer, VoteResponse(2, granted=False))

    assert Role.FOLLOWER is bench.state.role
    assert bench.state.election_deadline < bench.state.now + 0.2


def test_a_higher_term_ends_the_candidacy(member) -> None:
    """Whoever answers with a higher term is right."""
    bench = member()
    elected(bench)

    candidate.on_vote_response(bench.state, "b", VoteResponse(9, granted=False))

    assert (Role.FOLLOWER, 9) == (bench.state.role, bench.state.term)


def test_a_refused_pre_vote_with_a_higher_term_is_learned(member) -> None:
    """Standing again would be in vain before the term is known."""
    bench = member()
    candidate.stand(bench.state)

    candidate.on_pre_vote_response(bench.state, "b", PreVoteResponse(9, granted=False))

    assert (Role.FOLLOWER, 9) == (bench.state.role, bench.state.term)


def test_alone_no_question_is_asked(member) -> None:
    """A single voter needs nobody: it leads as soon as its own vote is durable."""
    bench = member("a")

    candidate.stand(bench.state)
    candidate.on_ballot_stored(bench.state, 2, "a")

    assert Role.LEADER is bench.state.role


@pytest.mark.parametrize("names", ["a", "abc"])
def test_nobody_stands_again_before_the_own_vote_is_durable(member, names: str) -> None:
    """On a disk slower than a candidate's patience each new vote would come too late, for ever."""
    bench = member(*names)
    if names == "a":
        candidate.stand(bench.state)
    else:
        elected(bench)
    term, deadline = bench.state.term, bench.state.election_deadline
    bench.state.now = deadline

    candidate.stand(bench.state)

    assert (Role.CANDIDATE, term) == (bench.state.role, bench.state.term)
    assert bench.state.election_deadline > deadline
    if names != "a":
        candidate.on_vote_response(bench.state, "b", VoteResponse(term, granted=True))
    candidate.on_ballot_stored(bench.state, term, "a")
    assert Role.LEADER is bench.state.role


@pytest.mark.parametrize("what", ["damage", "learner", "fenced"])
def test_who_cannot_lead_does_not_stand(member, what) -> None:
    """A hole in the log, no vote, or being shut out: keep following."""
    bench = member("a:learner", "b", "c") if what == "learner" else member()
    if what == "damage":
        bench.state.log.damaged.add(1)
    if what == "fenced":
        bench.state.fenced_reason = "removed"

    candidate.stand(bench.state)

    assert ([], Role.FOLLOWER) == (bench.sent(), bench.state.role)


def test_with_an_unknown_tail_all_others_must_vote(member) -> None:
    """Their votes prove that what we may have lost was never committed (three voters: both)."""
    bench = member()
    bench.state.log.unknown_index, bench.state.log.unknown_term = 3, 1
    elected(bench)
    assert Role.PRE_CANDIDATE is bench.state.role

    candidate.on_pre_vote_response(bench.state, "c", PreVoteResponse(2, granted=True))
    candidate.on_ballot_stored(bench.state, 2, "a")
    candidate.on_vote_response(bench.state, "b", VoteResponse(2, granted=True))
    assert Role.CANDIDATE is bench.state.role
    candidate.on_vote_response(bench.state, "c", VoteResponse(2, granted=True))

    assert Role.LEADER is bench.state.role
    assert 0 == bench.state.log.unknown_index


@pytest.mark.parametrize("is_known_durable", [False, True])
def test_who_is_left_alone_gives_up_an_unknown_tail(member, is_known_durable) -> None:
    """Nobody can vote for it; an end that was durable once is damage, and not given up."""
    bench = member("a", "b:fenced")
    bench.state.log.unknown_index, bench.state.log.unknown_term = 3, 1
    if is_known_durable:
        bench.state.log.damaged.add(bench.state.log.last_index + 1)

    candidate.stand(bench.state)
    candidate.on_ballot_stored(bench.state, 2, "a")

    assert (Role.LEADER is bench.state.role) is not is_known_durable


def test_a_hand_over_skips_the_question(member) -> None:
    """The leader asked for it: stand at once, and say that it is a transfer."""
    bench = member()
    bench.state.leader = "b"

    candidate.on_transfer_request(bench.state, "b", TransferRequest(1))

    assert ("c", VoteRequest(2, 1, 1, is_transfer=True)) in bench.sent()


def test_only_the_leader_hands_over(member) -> None:
    """A transfer of somebody else, or of another term, is ignored."""
    bench = member()
    bench.state.leader = "b"

    candidate.on_transfer_request(bench.state, "c", TransferRequest(1))
    candidate.on_transfer_request(bench.state, "b", TransferRequest(0))

    assert [] == bench.sent()


def test_a_single_node_stands_with_a_hole(member) -> None:
    """Nobody could mend it: what is damaged is withheld, everything else is served."""
    bench = member("a")
    bench.state.log.damaged.add(1)

    assert candidate.may_stand(bench.state)


@pytest.mark.promise("F23")
def test_the_vote_of_what_may_be_an_older_copy_does_not_count(member) -> None:
    """Not even if the doubt came after the vote, as long as nothing is decided."""
    bench = member()
    elected(bench)
    b = bench.link("b", edition=4)
    candidate.on_vote_response(bench.state, "b", VoteResponse(2, granted=True))
    bench.state.editions.hear("c", {b.node_id: 5})

    candidate.on_ballot_stored(bench.state, 2, "a")

    assert Role.CANDIDATE is bench.state.role
    b.edition = 5
    candidate.on_vote_response(bench.state, "b", VoteResponse(2, granted=True))
    assert Role.LEADER is bench.state.role

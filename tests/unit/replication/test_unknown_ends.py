"""Two voters, of whom one does not know what its log held at the end, and an operator's word."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.errors import MembershipError
from holdfast.replication import candidate, unknown_ends, voting
from holdfast.replication.messages import PreVoteRequest, PreVoteResponse, VoteResponse
from holdfast.replication.promotion import promote_force
from holdfast.replication.state import Role


def node_id(name: str) -> str:
    return name.encode().hex().ljust(32, "0")


def doubtful(member, *words):
    """A voter with three entries that may have stored two more; all say who the voters are."""
    bench = member("a", *(words or ("b",)), terms=[2, 2])
    state = bench.state
    state.log.unknown_index, state.log.unknown_term = 5, 2
    for peer, hello in state.connected.items():
        state.connected[peer] = replace(
            hello, voters=state.voter_ids, members=state.possible_members
        )
    return bench


def says(bench, peer: str, **fields) -> None:
    """Let a member say something else of itself."""
    bench.state.connected[peer] = replace(bench.state.connected[peer], **fields)


def is_voted_for(bench, last_index: int, last_term: int = 2) -> bool:
    """Whether it would vote for the other voter with this last entry."""
    voting.on_pre_vote_request(bench.state, "b", PreVoteRequest(9, last_index, last_term))
    ((_, answer),) = bench.sent()
    assert isinstance(answer, PreVoteResponse)
    return answer.granted


def test_the_longer_readable_log_of_two_goes_on(member) -> None:
    """What is in neither was never confirmed by both, or is lost on both."""
    assert is_voted_for(doubtful(member), 3)
    assert is_voted_for(doubtful(member), 4)
    assert not is_voted_for(doubtful(member), 2)
    assert not is_voted_for(doubtful(member), 9, 1)


def test_what_is_known_to_be_committed_is_not_given_up(member) -> None:
    """Neither what a checkpoint covers, nor what the ballot says was durable once."""
    known, noted = doubtful(member), doubtful(member)
    known.state.commit_index = 4
    noted.state.log.damaged.add(4)

    assert not is_voted_for(known, 3)
    assert is_voted_for(known, 4)
    assert not is_voted_for(noted, 4)
    assert is_voted_for(noted, 5)


@pytest.mark.parametrize("damaged", [4, 3])
def test_what_a_candidate_who_lost_nothing_never_had_was_not_confirmed(member, damaged) -> None:
    """Of two, both had to store it: also what is damaged here, and was noted as durable once."""
    bench = doubtful(member)
    bench.state.log.damaged.add(damaged)
    assert not is_voted_for(bench, damaged - 1)
    says(bench, "b", end_known=True)

    assert is_voted_for(bench, damaged - 1)
    assert is_voted_for(bench, damaged - 2)  # What stands between was not confirmed either.
    bench.state.commit_index = damaged
    assert not is_voted_for(bench, damaged - 1)


def test_the_vote_of_one_who_lost_nothing_lets_a_noted_end_be_given_up(member) -> None:
    """It never had more than can be read here; damage within the log is waited for as ever."""
    bench = doubtful(member)
    state = bench.state
    state.log.damaged.add(4)
    candidate.stand(state)
    assert Role.FOLLOWER is state.role
    says(bench, "b", end_known=True)
    state.log.damaged.add(3)
    candidate.stand(state)
    assert Role.FOLLOWER is state.role
    state.log.damaged.discard(3)

    candidate.stand(state)
    candidate.on_pre_vote_response(state, "b", PreVoteResponse(state.term + 1, granted=True))
    candidate.on_ballot_stored(state, state.term, "a")
    assert Role.CANDIDATE is state.role
    candidate.on_vote_response(state, "b", VoteResponse(state.term, granted=True))
    assert Role.LEADER is state.role
    assert (0, True, 4) == (state.log.unknown_index, state.log.is_whole, state.log.last_index)


def test_what_the_candidate_has_is_mended_first(member) -> None:
    """It may be needed to lead with what stands behind it."""
    bench = doubtful(member)
    bench.state.log.damaged.add(2)
    says(bench, "b", end_known=True)

    assert not is_voted_for(bench, 3)
    bench.state.log.damaged.clear()
    bench.state.log.damaged.add(4)
    assert is_voted_for(bench, 4)  # Only who leads can bring what is lost at our end.


def test_whom_only_the_candidate_knows_must_say_it_too(member) -> None:
    """Our lost end may have taken it in and made it a voter; it is linked, or it is missing."""
    bench = doubtful(member)
    third = node_id("l")
    says(bench, "b", members={**bench.state.possible_members, third: "l"})
    assert is_voted_for(bench, 3)  # Its members are no newer: ours took that one out.
    says(bench, "b", config_index=3)
    assert not is_voted_for(bench, 3)
    assert "(not reached: l)" in unknown_ends.what_is_awaited(bench.state)

    bench.link("l", voters=(*bench.state.voter_ids, third))
    assert not is_voted_for(bench, 3)
    says(bench, "l", voters=bench.state.voter_ids)
    assert is_voted_for(bench, 3)
    assert "(all are reached)" in unknown_ends.what_is_awaited(bench.state)

    says(bench, "b", members={})  # An older version: it does not say whom it knows.
    assert not is_voted_for(bench, 3)


def test_a_learner_that_was_never_met_is_not_waited_for(member) -> None:
    """Its identity, had our lost end had it, would stand in the other voter's log."""
    bench = doubtful(member, "b", "l:learner")
    state = bench.state
    del state.connected["l"]
    assert not is_voted_for(bench, 3)
    met = state.members["l"]
    state.members["l"] = replace(met, node_id="")
    assert is_voted_for(bench, 3)
    assert unknown_ends.may_stand(state)
    assert "(all are reached)" in unknown_ends.what_is_awaited(state)

    says(bench, "b", config_index=3)
    assert not is_voted_for(bench, 3)


def test_nobody_is_named_who_would_be_refused(member) -> None:
    """Not who has damage within its log; alone with that, it is told what else there is."""
    bench = doubtful(member)
    state = bench.state
    state.log.damaged.add(3)
    assert "'holdfast cluster promote b --force'" in unknown_ends.what_is_awaited(state)
    state.log.forget_unknown()
    assert "'holdfast cluster promote b --force'" in unknown_ends.what_is_awaited(state)
    del state.connected["b"]

    said = unknown_ends.what_is_awaited(state)
    assert "--force" not in said
    assert "restore the damaged segment file" in said
    with pytest.raises(MembershipError, match="entry 3 of this log is damaged"):
        promote_force(state)
    state.log.damaged.clear()
    state.log.damaged.add(4)  # Noted as durable once, and nothing of it is left.
    state.log.unknown_index = 5
    assert "'holdfast cluster promote a --force'" in unknown_ends.what_is_awaited(state)
    promote_force(state)
    assert Role.CANDIDATE is state.role
    assert state.log.is_whole


@pytest.mark.parametrize("who", ["b", "l"])
@pytest.mark.parametrize("what", ["third", "nothing", "unlinked", "replaced"])
def test_each_other_member_must_say_that_there_are_two(member, who, what) -> None:
    """The lost end may have made the learner a voter; whoever stored that says so."""
    bench = doubtful(member, "b", "l:learner")
    assert is_voted_for(bench, 3)
    if what == "unlinked" and who == "l":
        del bench.state.connected[who]
    elif what == "replaced":
        says(bench, who, node_id="ff" * 16)
    else:
        said = {"third": (*bench.state.voter_ids, "ff" * 16), "nothing": (), "unlinked": ()}
        says(bench, who, voters=said[what])

    assert not is_voted_for(bench, 3)


def test_of_three_the_third_one_is_waited_for(member) -> None:
    """It may have confirmed with us what the candidate never had."""
    assert not is_voted_for(doubtful(member, "b", "c"), 3)


@pytest.mark.parametrize("voters", [(), ("61", "62", "63")])
def test_who_may_have_had_a_third_voter_does_not_stand(member, voters) -> None:
    """Before the learner has said that it is none; without an unknown end nobody is asked."""
    bench = doubtful(member, "b", "l:learner")
    says(bench, "l", voters=voters)
    candidate.stand(bench.state)
    assert (Role.FOLLOWER, []) == (bench.state.role, bench.sent())

    says(bench, "l", voters=bench.state.voter_ids)
    candidate.stand(bench.state)
    assert Role.PRE_CANDIDATE is bench.state.role

    other = doubtful(member, "b", "l:learner")
    says(other, "l", voters=voters)
    other.state.log.forget_unknown()
    candidate.stand(other.state)
    assert Role.PRE_CANDIDATE is other.state.role


def test_who_is_missing_is_told_after_a_while_with_the_command(member, caplog) -> None:
    """Not at each start, where everybody is only about to be linked; and once."""
    bench = doubtful(member, "b", "l:learner", "w:witness")
    state = bench.state
    del state.connected["b"]
    candidate.stand(state)
    assert "" == caplog.text
    for _ in range(2):
        state.now += 1 + unknown_ends.TOLD_AFTER_TIMEOUTS * state.settings.election_seconds_max
        candidate.stand(state)

    assert 1 == caplog.text.count("'holdfast cluster promote a l --force'")
    assert "(not reached: b)" in unknown_ends.what_is_awaited(state)
    state.leader = "b"
    assert "" == unknown_ends.what_is_awaited(state)


def test_who_has_a_leader_again_waits_anew(member, caplog) -> None:
    """An end that is told of once is not told of at the next short election."""
    bench = doubtful(member)
    candidate.stand(bench.state)
    bench.state.log.forget_unknown()
    candidate.stand(bench.state)

    assert bench.state.log.awaited_since is None
    assert "" == caplog.text

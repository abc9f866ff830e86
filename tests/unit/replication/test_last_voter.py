"""The only voter asks its learners what the lost end of its log was."""

from __future__ import annotations

import pytest

from holdfast.errors import MembershipError
from holdfast.journal.entry import HEADER_BYTES, KIND_CONFIG, seal_entry
from holdfast.journal.journal import Journal
from holdfast.replication import candidate, last_voter, leader, unknown_ends
from holdfast.replication.messages import (
    PreVoteRequest,
    PreVoteResponse,
    RepairRequest,
    RepairResponse,
    VoteRequest,
    VoteResponse,
)
from holdfast.replication.promotion import promote_force
from holdfast.replication.state import Role


def doubtful(member, *words):
    """The only voter, with entry 1, which may have stored entries 2 and 3 as well."""
    bench = member("a", *(words or ("l:learner",)))
    bench.state.log.unknown_index, bench.state.log.unknown_term = 3, 1
    return bench


def test_a_learner_that_holds_no_more_lets_it_lead(member) -> None:
    """Its vote shows that it has not seen what is given up; before that nobody leads."""
    bench = doubtful(member)
    candidate.stand(bench.state)
    assert [("l", RepairRequest(2)), ("l", PreVoteRequest(2, 1, 1))] == bench.sent()
    assert "not reached" not in last_voter.what_is_awaited(bench.state)

    candidate.on_pre_vote_response(bench.state, "l", PreVoteResponse(2, granted=True))
    candidate.on_ballot_stored(bench.state, 2, "a")
    assert [("l", VoteRequest(2, 1, 1))] == bench.sent()
    assert Role.CANDIDATE is bench.state.role
    candidate.on_vote_response(bench.state, "l", VoteResponse(2, granted=True))

    assert Role.LEADER is bench.state.role
    assert ("", 0) == (last_voter.what_is_awaited(bench.state), bench.state.log.unknown_index)


def test_what_a_learner_holds_is_taken_over(member, entry_after) -> None:
    """Entry by entry, by the chain; with the last of what it may have stored nothing is unknown."""
    bench = doubtful(member)
    candidate.stand(bench.state)
    candidate.on_pre_vote_response(bench.state, "l", PreVoteResponse(1, granted=False))
    assert Role.FOLLOWER is bench.state.role
    bench.sent()

    for index in (2, 3):
        entry = entry_after(bench.journal, 1)
        last_voter.take(bench.state, RepairResponse(index, entry))
        assert index == bench.journal.last_index
    assert [("l", RepairRequest(3))] == bench.sent()
    assert 0 == bench.state.log.unknown_index
    candidate.stand(bench.state)
    candidate.on_ballot_stored(bench.state, bench.state.term, "a")
    assert Role.LEADER is bench.state.role


def test_only_what_continues_the_log_is_taken(member, entry_after, caplog) -> None:
    """Another chain, another place, a term not yet heard of, nothing at all."""
    bench = doubtful(member)
    right = entry_after(bench.journal, 1)
    foreign = seal_entry(
        index=2,
        term=1,
        kind=0,
        timestamp=right.timestamp,
        first_record=right.first_record,
        record_count=1,
        parts=[b"x"],
        previous_chain=b"z" * 16,
    )
    for entry in (None, foreign, entry_after(bench.journal, 9)):
        last_voter.take(bench.state, RepairResponse(2, entry))
    assert 1 == bench.journal.last_index
    assert 2 == caplog.text.count("does not continue")
    bench.state.log.forget_unknown()
    last_voter.take(bench.state, RepairResponse(2, right))
    assert 1 == bench.journal.last_index


def test_a_silent_learner_is_named_with_the_command(member, caplog) -> None:
    """It may know that what is lost was committed: only an operator can give it up for it."""
    bench = doubtful(member, "l:learner", "m:learner")
    del bench.state.connected["m"]
    for _ in range(2):
        candidate.stand(bench.state)
        candidate.on_pre_vote_response(bench.state, "l", PreVoteResponse(2, granted=True))
    assert Role.PRE_CANDIDATE is bench.state.role
    assert "not reached: m" in last_voter.what_is_awaited(bench.state)
    assert 1 == caplog.text.count("holdfast cluster promote a --force")

    promote_force(bench.state)
    candidate.on_ballot_stored(bench.state, bench.state.term, "a")
    assert Role.LEADER is bench.state.role


@pytest.mark.parametrize("words", [("b", "l:learner"), ()])
def test_others_are_asked_as_ever(member, words) -> None:
    """With another voter, that one decides; alone, nobody is asked."""
    bench = member("a", *words) if words else member("a", "b:fenced")
    bench.state.log.unknown_index, bench.state.log.unknown_term = 3, 1
    assert not last_voter.asks_learners(bench.state)
    assert bench.state.voter_names == last_voter.electors(bench.state)
    last_voter.ask(bench.state)
    assert ([], "") == (bench.sent(), last_voter.what_is_awaited(bench.state))


def rotten(member, *words, in_header=True):
    """The only voter, with entries 1 to 3, whose second one is damaged; the first names members."""
    bench = member("a", *(words or ("l:learner",)), terms=[1, 1])
    place = bench.journal.place_of(2)
    bench.disk.flip_bit(place.path, 8 * (place.byte + (12 if in_header else HEADER_BYTES)))
    bench.reopen()
    assert {2} == bench.state.log.damaged
    bench.state.now = bench.state.election_deadline
    return bench


def lead(bench):
    candidate.stand(bench.state)
    candidate.on_ballot_stored(bench.state, bench.state.term, "a")


def test_damage_in_its_log_keeps_nobody_waiting(member) -> None:
    """No other node can lead until it is mended, and the learner may be gone, or lack the entry."""
    bench = rotten(member)
    bench.state.config_index = 3

    lead(bench)

    assert Role.LEADER is bench.state.role
    bench.state.log.damaged.add(bench.journal.last_index)
    for _ in range(2):
        bench.state.now += 2 * bench.state.settings.election_seconds_max
        leader.check_whole(bench.state)
    assert Role.LEADER is bench.state.role


def test_where_the_header_tells_that_it_is_no_change_it_leads(member) -> None:
    """Only what may be a newer change of members makes others voters."""
    bench = rotten(member, in_header=False)

    lead(bench)

    assert Role.LEADER is bench.state.role


def test_a_change_of_members_that_is_damaged_is_waited_for(member, monkeypatch) -> None:
    """Its header may tell that it is one, and nothing more."""
    bench = rotten(member, in_header=False)
    monkeypatch.setattr(Journal, "kind_at", lambda _journal, _index: KIND_CONFIG)

    lead(bench)

    assert Role.FOLLOWER is bench.state.role


def test_more_damage_than_is_looked_at_may_be_anything(member, monkeypatch) -> None:
    """A turn of the loop is not spent on the headers of a whole lost file."""
    bench = rotten(member, in_header=False)
    monkeypatch.setattr(last_voter, "_LOOKED_AT_MAX", 0)

    lead(bench)

    assert Role.FOLLOWER is bench.state.role


def test_what_may_be_a_change_of_members_is_told_with_the_command(member, caplog) -> None:
    """All that is damaged was applied: it can go on without it, if its operator says so."""
    bench = rotten(member, "l:learner", "m:learner")
    del bench.state.connected["m"]
    bench.state.taken_index = 3
    assert "" == last_voter.what_is_awaited(bench.state)

    lead(bench)
    candidate.stand(bench.state)

    assert Role.FOLLOWER is bench.state.role
    said = last_voter.what_is_awaited(bench.state)
    assert "entry 2 of this log is damaged" in said
    assert "not reached: m" in said
    assert "'holdfast cluster promote a --force' here goes on without it" in said
    assert 1 == caplog.text.count(said)

    promote_force(bench.state)
    candidate.on_ballot_stored(bench.state, bench.state.term, "a")
    assert Role.LEADER is bench.state.role
    assert "" == last_voter.what_is_awaited(bench.state)


def test_what_it_has_yet_to_apply_only_a_learner_can_go_on_without(member, caplog) -> None:
    """Promoted itself it would lead and never serve: the command is one for a learner."""
    bench = rotten(member)
    bench.state.taken_index = 1

    lead(bench)

    said = last_voter.what_is_awaited(bench.state)
    assert "restore its segment file from a copy" in said
    assert "'holdfast cluster promote l --force' at l" in said
    assert said in caplog.text
    with pytest.raises(MembershipError, match="entry 2 of this log is damaged"):
        promote_force(bench.state)


def test_mended_it_leads_and_waits_for_nothing(member) -> None:
    """What was told holds only while the entry is damaged."""
    bench = rotten(member)
    lead(bench)
    assert last_voter.what_is_awaited(bench.state)

    bench.state.log.damaged.clear()

    assert "" == last_voter.what_is_awaited(bench.state)
    lead(bench)
    assert Role.LEADER is bench.state.role


def test_a_leader_that_cannot_serve_says_so(member, caplog) -> None:
    """It leads, and what it has yet to apply is damaged: nobody else can have it served."""
    bench = rotten(member, in_header=False)
    bench.state.taken_index = 1
    lead(bench)
    assert "" == last_voter.what_is_awaited(bench.state)

    bench.store()
    leader.advance_commit(bench.state)
    for _ in range(2):
        leader.check_whole(bench.state)

    assert Role.LEADER is bench.state.role
    said = last_voter.what_is_awaited(bench.state)
    assert "it serves once a learner has sent its copy (they are being asked)" in said
    assert "'holdfast cluster promote l --force' at l" in said
    assert 1 == caplog.text.count(said)
    bench.state.peers.clear()
    assert last_voter.what_is_awaited(bench.state).endswith("Restore its segment file from a copy")


def test_among_voters_damage_is_mended_and_not_told_as_awaited(member) -> None:
    """Another one can lead, or send its copy."""
    bench = rotten(member, "b", "c")

    lead(bench)

    assert "" == last_voter.what_is_awaited(bench.state)


def test_with_an_end_that_is_missing_it_does_not_lead(member) -> None:
    """What was known to be stored was committed: to lead without it would lose it in silence."""
    bench = doubtful(member)
    bench.state.log.damaged.add(2)

    candidate.stand(bench.state)

    assert ([], Role.FOLLOWER) == (bench.sent(), bench.state.role)


@pytest.mark.parametrize("words", [("l:learner",), ("f:fenced",), ("b",), ("b", "l:learner")])
@pytest.mark.parametrize("linked", [False, True])
@pytest.mark.parametrize("damaged", [(), (2,), (3,), (4,), (2, 3), (2, 4), (3, 4)])
@pytest.mark.parametrize("taken", [0, 2, 3])
@pytest.mark.parametrize("unknown", [0, 4])
def test_a_promotion_that_is_named_is_not_refused(
    member, words, linked, damaged, taken, unknown
) -> None:
    """Whatever is wrong with the log: entries 2 and 3 stand in it, the fourth is lost."""
    bench = member("a", *words, terms=[1, 1])
    state = bench.state
    state.log.damaged.update(damaged)
    state.log.unknown_index = max(unknown, *(it for it in (0, *damaged) if it > 3), 0)
    state.log.unknown_term = 1 if state.log.unknown_index else 0
    state.taken_index = taken
    if not linked:
        state.connected.clear()
    state.now = state.election_deadline
    candidate.stand(state)
    candidate.on_ballot_stored(state, state.term, "a")

    said = unknown_ends.what_is_awaited(state)

    is_led = state.role is Role.LEADER
    assert said or is_led or state.role is not Role.FOLLOWER or not (damaged or unknown)
    if "'holdfast cluster promote a --force'" in said and not is_led:
        promote_force(state)
        candidate.on_ballot_stored(state, state.term, "a")
        assert Role.LEADER is state.role

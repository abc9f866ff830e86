"""Tests of replication/promotion.py: who goes on by force, and who may be taken along."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.errors import MembershipError
from holdfast.replication import consensus, formation, promotion
from holdfast.replication.messages import Hello, ResetRequest
from holdfast.replication.state import Role


def test_a_forced_promotion_needs_its_own_vote_only(member) -> None:
    """One voter, a new generation, everyone else shut out; written as soon as it leads."""
    bench = member("a", "b")
    state = bench.state

    promotion.promote_force(state)
    consensus.candidate.on_ballot_stored(state, state.term, "a")
    bench.store()
    consensus.flush(state)

    assert (Role.LEADER, 1, ["a"]) == (state.role, state.generation, state.voter_names)
    assert state.config_index == state.commit_index == bench.journal.last_index


def test_a_generation_commits_nothing_before_its_members_are_durable(member) -> None:
    """
    A crash would give the members of before back: then others decide what stands there.
    """
    bench = member("a", "b")
    state = bench.state
    promotion.promote_force(state)
    consensus.candidate.on_ballot_stored(state, state.term, "a")
    *earlier, members = state.log.take_jobs()

    bench.writer.turn(earlier)
    consensus.flush(state)
    assert state.config_index - 1 == bench.journal.stored_index
    assert 0 == state.commit_index

    bench.writer.turn([members])
    consensus.flush(state)
    assert state.config_index == state.commit_index


def test_a_half_filled_log_is_promoted_only_if_that_is_accepted(member) -> None:
    """It lacks old messages that were confirmed long ago: in messages and time, and what to do."""
    bench = member(terms=[2, 2, 2])
    target = (60, 500, 1_800_000_000_000_000)
    reset = ResetRequest(3, 50, 2, b"c" * 16, 450, 1.0, *target)
    consensus.receive(bench.state, "b", reset)
    bench.store()

    with pytest.raises(MembershipError, match=r"up to 50 messages.* 2027-01-15") as caught:
        promotion.promote_force(bench.state)
    assert "lacks 496 that came after" in str(caught.value)
    promotion.promote_force(bench.state, is_incomplete_accepted=True)
    assert Role.CANDIDATE is bench.state.role


@pytest.mark.parametrize("reason", ["witness", "damaged", "leads", "no cluster"])
def test_a_forced_promotion_is_refused_with_its_reason(member, leading, reason) -> None:
    """Where it could not serve, or need not be forced."""
    bench = member("a", "b", "w:witness", name="w") if reason == "witness" else member()
    if reason == "damaged":
        bench.state.log.damaged.add(1)
    elif reason == "leads":
        bench = leading()
    elif reason == "no cluster":
        bench.state.membership = None

    with pytest.raises(MembershipError, match=reason):
        promotion.promote_force(bench.state)


FAR = ("a", "b", "l:learner", "m:learner")
"""Two voters that are lost, and two learners."""


def far(member, name: str, terms: list[int]):
    return member(*FAR, name=name, terms=terms)


def end_of(bench):
    return promotion.log_end(bench.state)


def test_learners_go_on_together(member) -> None:
    """The furthest is the only voter at first; the other one is kept, on its way to voter."""
    ahead, behind = far(member, "l", [2, 2, 2]), far(member, "m", [2, 2])

    promotion.promote_force(ahead.state, [end_of(behind)])

    members = {it.name: (it.kind, it.promote_to) for it in ahead.state.membership.members}
    assert {"l": ("voter", ""), "m": ("learner", "voter")} == {n: members[n] for n in "lm"}
    assert {"fenced"} == {members[name][0] for name in "ab"}
    assert (ahead.state.node_id, behind.state.node_id) == promotion.taken_along(ahead.state)
    assert not set(promotion.taken_along(ahead.state)) & set(ahead.state.membership.retired)


def test_the_furthest_decides(member) -> None:
    """A shorter log would cut what the longer one may have applied; a newer term is further."""
    ahead, behind = far(member, "l", [2, 2, 2]), far(member, "m", [2, 2])
    newer = far(member, "m", [3])

    for other, by in ((ahead, behind), (newer, ahead)):
        with pytest.raises(MembershipError, match="the furthest decides"):
            promotion.promote_force(by.state, [end_of(other)])
        assert 0 == by.state.generation


def test_an_end_that_was_never_confirmed_is_no_difference(member) -> None:
    """It is cut as in every change of leader; what is committed there must be here."""
    ahead, behind = far(member, "l", [2, 3]), far(member, "m", [2, 2])
    behind.state.commit_index = 3

    with pytest.raises(MembershipError, match="neither is the beginning of the other"):
        promotion.promote_force(ahead.state, [end_of(behind)])

    behind.state.commit_index = 2
    promotion.promote_force(ahead.state, [end_of(behind)])
    assert 1 == ahead.state.generation


def test_an_end_that_was_never_confirmed_is_none_after_a_restart_either(member) -> None:
    """
    A learner that stored what a leader said last before it was deposed, and was started again: it
    knows of nothing that it is committed, and its log was refused for ever.
    """
    ahead, behind = far(member, "l", [2, 3]), far(member, "m", [2, 2])
    end = end_of(behind)
    assert (0, "") == (end.commit_index, end.commit_chain)

    promotion.promote_force(ahead.state, [end])
    consensus.hello_changed(ahead.state, "m", taken_along(ahead, behind))
    consensus.tick(ahead.state)

    assert (Role.CANDIDATE, {}) == (ahead.state.role, ahead.state.awaited)


def test_logs_that_differ_in_one_term_are_not_what_was_written(member) -> None:
    """One leader wrote all of it: no change of leader explains the difference."""
    ahead, behind = far(member, "l", [2, 2, 2]), far(member, "m", [2, 2])
    end = replace(end_of(behind), chain="ab" * 16)

    with pytest.raises(MembershipError, match="neither is the beginning of the other"):
        promotion.promote_force(ahead.state, [end])


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"name": "x"}, "x is no other member"),
        ({"name": "l"}, "l is no other member"),
        ({"node_id": "ff" * 16}, "m has another identity"),
        ({"is_incomplete": True}, "store take-back"),
    ],
)
def test_who_cannot_follow_is_not_taken_along(member, change, sentence) -> None:
    """Nothing is changed then, and the operator is told why."""
    ahead, behind = far(member, "l", [2, 2]), far(member, "m", [2])

    with pytest.raises(MembershipError, match=sentence):
        promotion.promote_force(ahead.state, [replace(end_of(behind), **change)])

    assert (0, Role.FOLLOWER) == (ahead.state.generation, ahead.state.role)


def test_a_witness_is_not_taken_along(member) -> None:
    """It holds no messages; it is added again."""
    ahead = member("a", "b", "w:witness", terms=[2, 2])
    witness = member("a", "b", "w:witness", name="w", terms=[2])

    with pytest.raises(MembershipError, match="w is a witness"):
        promotion.promote_force(ahead.state, [end_of(witness)])


def test_a_half_filled_log_fills_nobody(member) -> None:
    """Not even where its own lack is accepted: the others have more than it could send them."""
    half, behind = far(member, "l", [2]), far(member, "m", [2])
    target = (60, 500, 1_800_000_000_000_000)
    consensus.receive(half.state, "b", ResetRequest(3, 50, 2, b"c" * 16, 450, 1.0, *target))
    half.store()

    with pytest.raises(MembershipError, match="leave l out"):
        promotion.promote_force(half.state, [end_of(behind)], is_incomplete_accepted=True)


def test_the_new_generation_is_newer_than_that_of_anybody_taken_along(member) -> None:
    """One of them may have been promised to another one, which died in the middle."""
    ahead, behind = far(member, "l", [2, 2]), far(member, "m", [2])

    promotion.promote_force(ahead.state, [replace(end_of(behind), generation=4)])

    assert 5 == ahead.state.generation


def test_who_is_taken_along_stands_for_nothing_before_it_knows_the_members(member) -> None:
    """By those of before it could be elected beside the one that goes on."""
    bench = member("a", "b", "c", terms=[2])
    promotion.follow_along(bench.state, Hello("b", "bb", generation=1, kept=("aa", "bb")))

    bench.state.now = bench.state.election_deadline + 1
    consensus.tick(bench.state)

    assert Role.FOLLOWER is bench.state.role
    assert [] == bench.sent()
    assert ("aa", "bb") == promotion.taken_along(bench.state)


def test_a_log_that_ends_before_ours_begins_may_follow(member, entry_after) -> None:
    """It cannot be compared, and is begun anew; what it was is kept until the new one is full."""
    ahead, behind = far(member, "l", [2]), far(member, "m", [])
    for _ in range(6):
        ahead.state.log.append([entry_after(ahead.journal, 2, b"x" * 6000)])
    ahead.store()
    ahead.journal.drop_before(ahead.journal.segments()[2].base_index)

    promotion.promote_force(ahead.state, [replace(end_of(behind), chain="00" * 16)])

    assert 1 == ahead.state.generation


def test_it_leads_once_all_who_are_taken_along_follow(member) -> None:
    """Each says so once its ballot has the generation; a stranger under its name says nothing."""
    ahead, behind = far(member, "l", [2, 2]), far(member, "m", [2])
    state = ahead.state
    state.role = Role.PRE_CANDIDATE
    promotion.promote_force(state, [end_of(behind)])
    hello = state.connected["m"]

    for said in (hello, replace(hello, generation=1, node_id="ff" * 16)):
        consensus.hello_changed(state, "m", said)
        state.now += 10
        consensus.tick(state)
        assert (Role.FOLLOWER, ["m"]) == (state.role, list(state.awaited))

    consensus.hello_changed(state, "m", replace(hello, generation=1))
    consensus.tick(state)
    assert (Role.CANDIDATE, {}) == (state.role, state.awaited)


def test_how_far_a_log_goes_is_said_again_by_who_comes_with_it(member, caplog) -> None:
    """It heard a leader since it was asked: nobody goes on without what it has applied."""
    ahead, behind = far(member, "l", [2, 2, 2]), far(member, "m", [2])
    state = ahead.state
    promotion.promote_force(state, [end_of(behind)])
    behind.append([2, 2, 2])
    behind.state.commit_index = 5

    for _ in range(2):
        consensus.hello_changed(state, "m", taken_along(ahead, behind))
        consensus.tick(state)
    assert (Role.FOLLOWER, ["m"]) == (state.role, list(state.awaited))
    (said,) = caplog.records
    assert "m has heard more since it was asked" in said.message
    assert "repeat the promotion; m is further than l: entry 5" in said.message

    promotion.promote_force(behind.state, [end_of(ahead)])
    consensus.hello_changed(behind.state, "l", taken_along(behind, ahead))
    consensus.tick(behind.state)
    assert (Role.CANDIDATE, 2) == (behind.state.role, behind.state.generation)


def test_a_log_that_was_begun_anew_since_it_was_asked_is_waited_for(member) -> None:
    """It would be taken for full: what it lacks is older than where it begins."""
    ahead, behind = far(member, "l", [2, 2, 2]), far(member, "m", [2])
    state = ahead.state
    promotion.promote_force(state, [end_of(behind)])
    target = (60, 500, 1_800_000_000_000_000)
    consensus.receive(behind.state, "b", ResetRequest(3, 50, 2, b"c" * 16, 450, 1.0, *target))
    behind.store()

    consensus.hello_changed(state, "m", taken_along(ahead, behind))
    consensus.tick(state)

    assert (Role.FOLLOWER, ["m"]) == (state.role, list(state.awaited))


def test_how_far_a_log_goes_is_said_while_nobody_has_led_the_generation(member) -> None:
    """Also after a restart, from what is there then; not any more once the members are known."""
    ahead, behind = far(member, "l", [2, 2, 2]), far(member, "m", [2])
    promotion.promote_force(ahead.state, [end_of(behind)])
    said = taken_along(ahead, behind).end
    assert said is not None and (2, 2) == (said.last_index, said.last_term)

    behind.state.end = None
    behind.append([2])
    promotion.restore(behind.state)
    again = promotion.held_end(behind.state)
    assert again is not None and 3 == again.last_index

    behind.state.adopt(ahead.state.membership, 3)
    assert promotion.held_end(behind.state) is None


def taken_along(ahead, behind) -> Hello:
    """What the second one says once it has heard of the promotion of the first one."""
    first, second = ahead.state, behind.state
    hello = Hello(first.name, first.node_id, first.cluster_id, first.generation)
    kept = promotion.taken_along(first)
    promotion.follow_along(second, replace(hello, kept=kept, lineage=first.lineage))
    return formation.renewed(second, Hello(second.name, second.node_id))


def test_who_waits_for_others_may_be_taken_along_itself(member) -> None:
    """The operator has changed his mind: what it was to begin is forgotten."""
    ahead, behind = far(member, "l", [2, 2]), far(member, "m", [2])
    promotion.promote_force(ahead.state, [end_of(behind)])

    promotion.follow_along(ahead.state, Hello("m", "bb", generation=2))
    ahead.state.now += 10
    consensus.tick(ahead.state)

    assert (2, Role.FOLLOWER, None) == (
        ahead.state.generation,
        ahead.state.role,
        ahead.state.forced,
    )


def test_who_is_shut_out_while_it_waits_does_not_begin_to_lead(member) -> None:
    """Even if the last one whom it waits for says so before its process has ended."""
    ahead, behind = far(member, "l", [2, 2]), far(member, "m", [2])
    state = ahead.state
    promotion.promote_force(state, [end_of(behind)])
    state.fenced_reason = "an older copy"

    consensus.hello_changed(state, "m", replace(state.connected["m"], generation=1))
    consensus.tick(state)

    assert Role.FOLLOWER is state.role


def test_two_promotions_that_know_nothing_of_each_other_give_no_id_twice(member) -> None:
    """
    One goes on, dies, and the other goes on from the same copy: what either confirmed has an id
    of its own, or a late acknowledgement of the one would settle the other.
    """
    first, second = member("a", "b").state, member("a", "b", name="b").state

    for state in (first, second):
        promotion.promote_force(state)
        assert state.membership is not None
        assert state.membership.numbers > 1

    assert first.generation == second.generation
    assert first.membership.numbers != second.membership.numbers

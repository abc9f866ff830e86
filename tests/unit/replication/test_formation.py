"""Tests of replication/formation.py: how a cluster begins, and who may join."""

from __future__ import annotations

from dataclasses import replace

from holdfast.replication import membership as changes
from holdfast.replication.formation import (
    bar,
    found,
    founding_entry,
    is_taken_along,
    judge,
    own_fence,
    renewed,
)
from holdfast.replication.membership import Member, Membership, with_removed
from holdfast.replication.messages import Hello
from holdfast.replication.promotion import follow_along, log_end, promote_force

NAMED = Membership((Member("a", "a:1"), Member("b", "b:1")))
A, B = Hello("a", "aa" * 16), Hello("b", "bb" * 16)


def test_a_cluster_is_formed_when_all_are_met() -> None:
    """Not before, and on both sides the same, byte for byte."""
    assert None is found(NAMED, A, {})

    here, there = found(NAMED, A, {"b": B}), found(NAMED, B, {"a": A})

    assert here is not None and there is not None
    assert founding_entry(here) == founding_entry(there)


def test_the_second_founder_forms_what_the_first_did() -> None:
    """A peer that has formed already is no hindrance if it formed the same."""
    first = found(NAMED, A, {"b": B})
    assert first is not None

    formed = replace(A, cluster_id=first.cluster_id)

    assert first == found(NAMED, B, {"a": formed})


def test_a_formed_cluster_is_not_founded_again() -> None:
    """A fresh node among members of another cluster waits to be taken in."""
    assert None is found(NAMED, B, {"a": replace(A, cluster_id="cc" * 16)})


def test_a_member_is_let_in(member) -> None:
    """The right name, cluster and identity."""
    bench = member()

    assert None is judge(bench.state, NAMED, A, bench.state.connected["b"])


def test_strangers_are_refused_with_a_reason(member) -> None:
    """An unknown name, our own name, another cluster."""
    bench = member()
    hello = bench.state.connected["b"]

    reasons = [
        judge(bench.state, NAMED, A, replace(hello, **fields)).reason
        for fields in (
            {"name": "x", "cluster_id": ""},
            {"name": "a"},
            {"cluster_id": "cc" * 16},
        )
    ]

    assert "x is not a member" in reasons[0]
    assert "two nodes are called alike" in reasons[1]
    assert "another cluster" in reasons[2]


def test_a_removed_identity_is_shut_out_for_good(member) -> None:
    """Once the change is committed, not before; a fresh node of that name is a stranger."""
    bench = member()
    state = bench.state
    state.commit_index = 1
    state.adopt(state.membership.changed(with_removed(state.membership, "c", "a"), 1), 2)
    hello = state.connected["c"]

    assert judge(state, NAMED, A, hello) is None
    state.commit_index = 2
    refusal = judge(state, NAMED, A, hello)
    assert refusal is not None and refusal.is_fenced
    stranger = judge(state, NAMED, A, replace(hello, node_id="99" * 16, cluster_id=""))
    assert stranger is not None and not stranger.is_fenced


def test_a_removed_identity_that_was_promoted_since_is_not_shut_out(member) -> None:
    """What it confirmed as a generation of its own would be lost; the older one is shut out."""
    bench = member()
    state = bench.state
    state.adopt(state.membership.changed(with_removed(state.membership, "c", "a"), 1), 2)
    state.commit_index = 2
    hello = state.connected["c"]

    promoted = replace(hello, generation=state.generation + 1, kept=(hello.node_id,))

    assert judge(state, NAMED, A, promoted) is None
    assert "promoted the other side" in own_fence(state, promoted)
    assert judge(state, NAMED, A, replace(promoted, generation=state.generation)).is_fenced
    assert not judge(state, NAMED, A, replace(promoted, cluster_id="cc" * 16)).is_fenced


def test_a_removed_identity_that_never_stored_anything_is_told_too(member) -> None:
    """It was taken in and lost power before it knew: without a cluster, and waiting for ever."""
    bench = member()
    state = bench.state
    state.adopt(state.membership.changed(with_removed(state.membership, "c", "a"), 1), 2)
    state.commit_index = 2

    refusal = judge(state, NAMED, A, replace(state.connected["c"], cluster_id=""))

    assert refusal is not None and refusal.is_fenced


def test_settings_that_must_be_alike_and_are_not_make_no_link(member) -> None:
    """Nor a cluster, which needs links; for a while only, until one of them is started again."""
    bench = member()
    hello = bench.state.connected["b"]
    same = replace(hello, shared=dict(bench.state.shared))
    other = replace(hello, shared={**bench.state.shared, "sites": 2})

    assert judge(bench.state, NAMED, A, same) is None
    refusal = judge(bench.state, NAMED, A, other)
    assert refusal is not None and not refusal.is_fenced
    assert "sites is 1 on a and 2 on b" in refusal.reason


def test_an_identity_of_another_name_makes_no_link(member) -> None:
    """Its directory is another node's; for now, as it may be started again with its own."""
    state = member().state
    hello = state.connected["b"]

    refusal = judge(state, NAMED, A, replace(hello, node_id=state.connected["c"].node_id))

    assert refusal is not None and not refusal.is_fenced
    assert "b shows the identity of c" in refusal.reason


def test_an_older_generation_is_shut_out(member) -> None:
    """After a forced promotion the other side is refused, and knows it by our hello as well."""
    bench = member()
    state = bench.state
    theirs = replace(state.connected["b"], generation=state.generation)
    state.generation += 1

    members = changes.survivors_only(state.membership, "a")
    state.adopt(replace(state.membership.changed(members, 1), generation=1), 1)
    refusal = judge(state, NAMED, A, replace(theirs, node_id="99" * 16))
    assert refusal is not None and refusal.is_fenced
    assert "" == own_fence(state, theirs)
    newer = replace(theirs, generation=9, kept=(theirs.node_id,))
    assert "promoted the other side" in own_fence(state, newer)


def test_who_does_not_know_the_members_shuts_nobody_out(member) -> None:
    """
    Restarted in the middle of a promotion; it learns them from whoever knows, and refuses before.
    """
    bench = member()
    state = bench.state
    theirs = replace(state.connected["b"], generation=state.generation)
    state.generation += 1

    refusal = judge(state, NAMED, A, theirs)
    assert refusal is not None and not refusal.is_fenced
    assert "does not know yet who belongs to generation 1" in refusal.reason
    assert "" == own_fence(state, replace(theirs, generation=9, kept=()))

    knowing = replace(theirs, generation=1, kept=(state.node_id,))
    assert is_taken_along(state, knowing)
    follow_along(state, knowing)
    assert not is_taken_along(state, knowing)
    refusal = judge(state, NAMED, A, theirs)
    assert refusal is not None and refusal.is_fenced


def test_of_two_promotions_apart_the_later_one_shuts_out(member) -> None:
    """By when they were, and where that is the same or unknown by their ranges of numbers."""
    state = member().state
    members = changes.survivors_only(state.membership, "a")
    forced = replace(state.membership.changed(members, 1), generation=1, number_range=1024)
    state.adopt(replace(forced, promoted_at=500), 1)
    state.commit_index = 1
    other = replace(state.connected["b"], generation=1, kept=("bb",), config_index=2)

    for lineage in ((499, 2000), (500, 1023)):
        earlier = replace(other, lineage=lineage)
        refusal = judge(state, NAMED, A, earlier)
        assert refusal is not None and (True, 2) == (refusal.is_fenced, refusal.generation)
        assert "the one of a is the later one" in refusal.reason
        assert "" == own_fence(state, earlier)
    for lineage in ((501, 0), (500, 1025)):
        later = replace(other, lineage=lineage)
        assert judge(state, NAMED, A, later) is None
        assert "the one of b is the later one" in own_fence(state, later)
        assert 2 == bar(state, later)
    unknown = replace(other, lineage=())
    assert not state.is_apart_from(unknown)
    assert not state.is_apart_from(replace(other, lineage=(9, 9), cluster_id="ee" * 16))
    same = replace(other, node_id=state.node_id, name="n9", lineage=(500, 1024))
    assert not state.is_apart_from(same)


def test_who_was_shut_out_is_out_again(member) -> None:
    """It was shut out, whatever its identity; but not who is being filled, or taken along."""
    state = member().state
    members = changes.survivors_only(state.membership, "a", {"b"})
    state.adopt(replace(state.membership.changed(members, 1), generation=1), 1)
    ignorant = replace(state.connected["c"], node_id="99" * 16, generation=1, shut_out=True)

    refusal = judge(state, NAMED, A, ignorant)

    assert refusal is not None and (True, 1) == (refusal.is_fenced, refusal.generation)
    assert judge(state, NAMED, A, replace(ignorant, shut_out=False)) is None
    taken = replace(ignorant, name="b", node_id=state.connected["b"].node_id)
    assert judge(state, NAMED, A, taken) is None
    state.adopt(replace(state.membership, generation=0), 1)
    assert judge(state, NAMED, A, ignorant) is None  # Nobody knows here who belongs to it.


def test_a_removal_does_not_bind_a_later_generation(member) -> None:
    """Not where no more is known of that generation than that it shut this node out."""
    state = member().state
    state.adopt(state.membership.changed(with_removed(state.membership, "c", "a"), 1), 2)
    state.commit_index, state.generation = 2, 1
    removed = replace(state.connected["c"], config_index=1)

    assert judge(state, NAMED, A, replace(removed, generation=1, kept=(removed.node_id,))) is None
    refusal = judge(state, NAMED, A, removed)
    assert refusal is not None and (True, 0) == (refusal.is_fenced, refusal.generation)


def test_who_is_taken_along_is_let_in_and_lets_itself_in(member) -> None:
    """By the identities that the hello of the new generation names."""
    bench = member()
    state = bench.state
    older = replace(state.connected["b"], generation=0)
    newer = replace(older, generation=1, kept=(older.node_id, state.node_id))

    assert is_taken_along(state, newer) and not is_taken_along(state, older)
    assert "" == own_fence(state, newer)
    assert not is_taken_along(state, replace(newer, kept=(older.node_id,)))
    assert not is_taken_along(state, replace(newer, cluster_id="ee" * 16))

    members = changes.survivors_only(state.membership, "a", {"b"})
    state.adopt(replace(state.membership.changed(members, 1), generation=1), 1)
    assert judge(state, NAMED, A, older) is None


def test_nobody_comes_into_a_generation_that_has_been_led_with_the_log_of_another(member) -> None:
    """
    It was met when it was fresh, and named a member; the old leader took it in meanwhile.

    Whoever was taken along had the generation in its ballot before it was led.
    """
    state = member().state
    begun = replace(state.connected["b"], generation=1, kept=(state.node_id,), begun=True)

    assert "promoted the other side" in own_fence(state, begun)
    assert not is_taken_along(state, begun)

    state.generation = 1
    assert "" == own_fence(state, begun)
    assert is_taken_along(state, begun)  # Restarted since, and told nothing yet.


def test_a_generation_has_been_led_once_its_members_are_in_the_log(member) -> None:
    """Not while those who are taken along are waited for, nor where it is known by number only."""
    state = member(terms=[2]).state
    hello = Hello("a", state.node_id)
    assert not renewed(state, hello).begun

    promote_force(state, [replace(log_end(state), name="b", node_id=state.members["b"].node_id)])
    assert (1, False) == (renewed(state, hello).generation, renewed(state, hello).begun)

    forced, state.forced = state.forced, None
    assert renewed(state, hello).begun
    state.adopt(replace(forced, generation=0), 1)
    assert not renewed(state, hello).begun


def test_a_lost_disk_may_come_back(member) -> None:
    """A known name, fresh, is let in, so that the leader can take it in again."""
    bench = member()

    fresh = Hello("b", "99" * 16)

    assert None is judge(bench.state, NAMED, A, fresh)


def test_a_fresh_node_lets_any_formed_cluster_in(member) -> None:
    """The members it was told of may be old ones; the present leader has to reach it."""
    bench = member()
    bench.state.membership, bench.state.cluster_id = None, ""
    stranger = Hello("n1", "dd" * 16)

    assert judge(bench.state, NAMED, A, stranger) is not None
    assert None is judge(bench.state, NAMED, A, replace(stranger, cluster_id="cc" * 16))


def test_a_member_lets_a_newer_member_in_that_it_never_heard_of(member) -> None:
    """It was away while that one was added; the newer one may lead now."""
    bench = member()
    hello = bench.state.connected["b"]

    assert None is judge(bench.state, NAMED, A, replace(hello, name="n1", node_id="dd" * 16))

"""Tests of replication/membership.py: who belongs, and which changes are allowed."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from holdfast.errors import CorruptRecordError, MembershipError
from holdfast.replication import membership as changes
from holdfast.replication.membership import Member, Membership, decode_membership

A = Member("a", "a:1", node_id="aa")
B = Member("b", "b:1", node_id="bb", site="west")
W = Member("w", "w:1", "witness", node_id="cc")
GROUP = changes.founded((B, W, A))


def test_members_are_in_the_order_of_their_names() -> None:
    """The order of the flags on a command line makes no difference to the bytes."""
    other = changes.founded((A, B, W))

    assert changes.encode_membership(GROUP) == changes.encode_membership(other)
    assert GROUP.cluster_id == other.cluster_id


def test_the_cluster_identity_depends_on_who_founded_it() -> None:
    """Another node identity makes another cluster."""
    other = changes.founded((replace(A, node_id="ab"), B, W))

    assert GROUP.cluster_id != other.cluster_id


def test_encoding_comes_back() -> None:
    """A CONFIG entry gives the membership it was made of, the members before it included."""
    changed = GROUP.changed(changes.with_removed(GROUP, "b", "a"), 7)

    decoded = decode_membership(changes.encode_membership(changed))

    assert changed == decoded
    assert (7, GROUP.members) == (decoded.previous_index, decoded.previous_members)


@pytest.mark.parametrize("body", [b"", b"{}", b"[1]", b"\xff", b'{"members": [{}]}'])
def test_nonsense_is_a_corrupt_record(body: bytes) -> None:
    """A good entry whose content is no membership gives one named error."""
    with pytest.raises(CorruptRecordError):
        decode_membership(body)


@pytest.mark.parametrize("field", ["generation", "previous_index", "previous_generation"])
@pytest.mark.parametrize("value", ['"1"', '"1_0"', "1.5", "true", "-1", "1e999", '"x"'])
def test_a_number_of_a_membership_is_a_number(field: str, value: str) -> None:
    """Nothing else is taken for one: what would be made of it is told by no entry."""
    fields = json.loads(changes.encode_membership(GROUP))
    body = json.dumps({**fields, field: 7}).replace(": 7", f": {value}").encode()

    with pytest.raises(CorruptRecordError):
        decode_membership(body)


def test_a_name_stands_once() -> None:
    """Two members of one name are refused."""
    with pytest.raises(MembershipError):
        Membership((A, A))


def test_witnesses_vote_but_hold_no_data() -> None:
    """A witness counts in quorums and not among the data members."""
    assert {"a", "b", "w"} == {member.name for member in GROUP.voters}
    assert {"a", "b"} == {member.name for member in GROUP.data_members}


def test_a_new_member_is_a_learner_first() -> None:
    """Whatever it is to become, a new member starts without a vote."""
    members = changes.with_added(GROUP, Member("d", "d:1"))

    added = Membership(members).get("d")
    assert added is not None
    assert ("learner", "voter") == (added.kind, added.promote_to)


def test_names_and_addresses_are_not_doubled() -> None:
    """A known name or address is refused."""
    with pytest.raises(MembershipError):
        changes.with_added(GROUP, Member("a", "new:1"))
    with pytest.raises(MembershipError):
        changes.with_added(GROUP, Member("d", "a:1"))


def test_the_leader_does_not_remove_itself() -> None:
    """It is told to hand over first; an unknown name is told who there is."""
    with pytest.raises(MembershipError, match="transfer"):
        changes.with_removed(GROUP, "a", "a")
    with pytest.raises(MembershipError, match="the members are a, b, w"):
        changes.with_removed(GROUP, "x", "a")


def test_promotion_needs_a_learner_that_was_met() -> None:
    """A voter, and a learner that never showed up, are not promoted."""
    with pytest.raises(MembershipError):
        changes.with_promoted(GROUP, "b")
    unmet = Membership(changes.with_added(GROUP, Member("d", "d:1")))
    with pytest.raises(MembershipError):
        changes.with_promoted(unmet, "d")


def test_a_learner_becomes_what_it_was_admitted_for() -> None:
    """A lost witness comes back as a witness."""
    members = changes.with_identity(GROUP, "w", "dd", "")
    learner = Membership(members)

    promoted = Membership(changes.with_promoted(learner, "w")).get("w")

    assert promoted is not None
    assert ("witness", "dd", "w:1") == (promoted.kind, promoted.node_id, promoted.address)


def test_an_identity_that_left_is_retired() -> None:
    """Replaced, removed and fenced identities are remembered for ever."""
    replaced = GROUP.changed(changes.with_identity(GROUP, "b", "new", ""), 1)
    removed = replaced.changed(changes.with_removed(replaced, "w", "a"), 2)
    forced = removed.changed(changes.survivors_only(removed, "a"), 3)

    assert ("bb", "cc", "new") == forced.retired


def test_a_survivor_is_the_only_voter() -> None:
    """A forced promotion fences all others; one that comes back new is what it was before."""
    forced = GROUP.changed(changes.survivors_only(GROUP, "a"), 1)

    assert ["a"] == [member.name for member in forced.voters]
    assert {"fenced"} == {member.kind for member in forced.members if member.name != "a"}
    back = Membership(changes.with_identity(forced, "w", "zz", "")).get("w")
    assert back is not None
    assert ("learner", "witness") == (back.kind, back.promote_to)


def test_before_is_what_ruled_before() -> None:
    """A follower that cuts a change goes back to the members before it."""
    changed = GROUP.changed(changes.with_removed(GROUP, "b", "a"), 4)

    assert GROUP == changed.before()
    assert "bb" in changed.retired


def test_what_a_change_retired_is_given_back_with_it() -> None:
    """Whom earlier changes retired stays retired; a generation that it began is over as well."""
    replaced = GROUP.changed(changes.with_identity(GROUP, "b", "new", ""), 1)
    removed = replaced.changed(changes.with_removed(replaced, "w", "a"), 2)
    forced = replace(
        removed.changed(changes.survivors_only(removed, "a"), 3),
        generation=1,
        previous_generation=0,
        number_range=1999,
        previous_number_range=None,
    )
    again = forced.changed(changes.with_identity(forced, "b", "newer", ""), 4)

    assert replaced == decode_membership(changes.encode_membership(removed)).before()
    assert removed == decode_membership(changes.encode_membership(forced)).before()
    assert forced == again.before()
    assert (1, 1999) == (again.before().generation, again.before().numbers)
    assert 0 == forced.before().numbers
    later = replace(
        again.changed(changes.survivors_only(again, "a"), 5),
        generation=2,
        previous_generation=1,
        number_range=2999,
        previous_number_range=1999,
        promoted_at=500,
    )
    assert (0, 1999) == again.lineage
    assert (500, 2999) == later.lineage > later.before().lineage
    assert None is later.before().promoted_at
    assert later == decode_membership(changes.encode_membership(later))
    assert 1999 == decode_membership(changes.encode_membership(later)).before().numbers


def test_the_first_members_are_their_own_before() -> None:
    """There is nothing before a cluster's formation, and nothing known before what was undone."""
    assert GROUP is GROUP.before()


def test_bytes_of_an_unforced_change_are_what_they_always_were() -> None:
    """Founders of an older version compute the same first entry, and so the same cluster."""
    assert b"generation" in changes.encode_membership(GROUP)
    assert b"previous_generation" not in changes.encode_membership(GROUP)
    assert b"number_range" not in changes.encode_membership(GROUP)


def test_numbers_are_left_out_where_anybody_else_has_the_log() -> None:
    """A learner, too: it may have what its leader lost before that was on its own disk."""
    single = changes.founded((A,))
    learner = single.changed((A, Member("far", "far:1", "learner", node_id="dd")), 1)
    alone_again = learner.changed((A,), 2)

    assert 0 == single.numbering(7).term
    assert 7 == GROUP.numbering(7).term
    assert 7 == learner.numbering(7).term
    assert 7 == alone_again.numbering(7).term

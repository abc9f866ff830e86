"""Tests of server/leased_group.py: brokers over one log, as the node and its operators see them."""

from __future__ import annotations

import pytest

from holdfast.admin.forwarding import LIFE
from holdfast.errors import MembershipError
from holdfast.leases.state import ALWAYS
from holdfast.replication.membership import Member
from trials.leased.group_desk import GroupDesk
from trials.leased.model_medium import ModelMedium


@pytest.fixture
def pair() -> tuple[GroupDesk, GroupDesk]:
    """One that holds the lease, and one that waits; each has told of itself."""
    medium = ModelMedium()
    holder, standby = GroupDesk(medium, "a"), GroupDesk(medium, "b")
    holder.go_on()
    standby.go_on()
    holder.go_on()
    return holder, standby


def test_each_says_what_it_is(pair: tuple[GroupDesk, GroupDesk]) -> None:
    """Leader or standby, and in which epoch; catching up is leading, and not serving."""
    holder, standby = pair
    one, other = holder.group.status(), standby.group.status()

    assert ("leader", "standby") == (one.role, other.role)
    assert "a" == one.leader == other.leader
    assert 1 == one.term == other.term
    assert one.cluster_id == other.cluster_id != ""
    assert 0.0 == one.leader_contact_seconds
    assert not holder.group.founders()


def test_the_holder_knows_who_is_there_and_how_far_behind(
    pair: tuple[GroupDesk, GroupDesk],
) -> None:
    """By what each told of itself; one that tells no more is gone."""
    holder, standby = pair
    names = {it.name: it for it in holder.group.members_at_hand()}

    assert {"a", "b"} == set(names)
    assert names["a"].connected
    assert names["b"].connected
    assert "broker" == names["b"].kind
    told = {"admin": "b:1", "stomp": "b:2", LIFE: standby.group.claimant.holder}
    assert told == names["b"].metadata
    assert 0 == names["b"].lag_entries
    assert standby.group.members_at_hand()[0].lag_entries is None
    holder.go_on(200)
    assert not {it.name: it for it in holder.group.members_at_hand()}["b"].connected


def test_what_changes_members_is_refused_with_what_to_do(
    pair: tuple[GroupDesk, GroupDesk],
) -> None:
    """They come and go by themselves."""
    group = pair[0].group
    with pytest.raises(MembershipError, match="start a broker with this store"):
        group.add_member(Member("c", "c:1"))
    with pytest.raises(MembershipError, match="stop a broker"):
        group.remove_member("b")
    for refused in (lambda: group.promote("b"), group.promote_force):
        with pytest.raises(MembershipError, match="whoever waits takes the lease"):
            refused()


def test_when_it_is_due_is_told_by_the_loops_clock(pair: tuple[GroupDesk, GroupDesk]) -> None:
    """The lease's clock has another beginning, and goes on in a suspended machine."""
    holder, _ = pair
    group = holder.group

    rests_until = group.rests_until
    now = holder.passage.now - 900.0
    assert now <= rests_until <= now + 5.0 or rests_until == ALWAYS
    group.start(0.0)

"""Tests of replication/resting.py: what is due for a member by the clock alone."""

from __future__ import annotations

import pytest

from holdfast.replication import consensus
from holdfast.replication.resting import rests_until
from holdfast.replication.state import ALWAYS, NEVER, Role

HEARTBEAT = 0.1


def test_alone_nothing_is_ever_due(leading) -> None:
    """Nobody is to be told that it leads, and nobody can be silent."""
    assert rests_until(leading("a").state) == ALWAYS


def test_a_follower_is_to_stand_when_its_leader_was_silent(member) -> None:
    """And not to turn before."""
    state = member().state
    state.await_leader()
    assert rests_until(state) == state.election_deadline > state.now


def test_a_leader_is_to_send_its_next_heartbeat(leading) -> None:
    """The first that is due of those who can be told: nobody is told without a link."""
    state = leading().state
    state.progress["b"].sent_at = state.now
    state.progress["c"].sent_at = state.now - HEARTBEAT / 2
    state.progress["b"].contact_at = state.progress["c"].contact_at = state.now
    state.dispatch_from = NEVER
    assert rests_until(state) == pytest.approx(state.now + HEARTBEAT / 2)

    consensus.link_down(state, "c", closed=True)
    assert rests_until(state) == pytest.approx(state.now + HEARTBEAT)


def test_a_leader_of_whom_nobody_hears_is_to_step_down(leading) -> None:
    """One shortest election timeout after a majority was last heard of; at that time it does."""
    state = leading().state
    state.leader_since = state.now - 100
    state.progress["b"].contact_at = state.now - 0.25
    state.progress["c"].contact_at = state.now - 0.5
    for peer in "bc":
        consensus.link_down(state, peer, closed=False)
    due = rests_until(state)
    assert due == state.now - 0.25 + state.settings.election_seconds_min

    state.now = due
    consensus.tick(state)
    assert state.role is Role.FOLLOWER


def test_a_new_leader_is_to_begin_to_dispatch(leading) -> None:
    """At the moment when every lease before its own is over."""
    state = leading().state
    for peer in "bc":
        state.progress[peer].sent_at = state.progress[peer].contact_at = state.now
    state.dispatch_from = state.now + HEARTBEAT / 4
    assert rests_until(state) == state.dispatch_from


def _hand_over(state) -> None:
    state.transfer = object()


def _promote(state) -> None:
    state.awaited["b"] = "asked"


def _hang(state) -> None:
    state.is_disk_hanging = True


def _damage(state) -> None:
    state.log.damaged.add(1)


def _forget(state) -> None:
    state.cluster_id = ""


@pytest.mark.parametrize("begin", [_hand_over, _promote, _hang, _damage, _forget])
@pytest.mark.parametrize("role", ["leading", "member"])
def test_what_is_under_way_is_looked_at_often(request, role: str, begin) -> None:
    """It does not say when it is due."""
    state = request.getfixturevalue(role)().state
    begin(state)
    assert rests_until(state) == NEVER

"""Tests of replication/state.py: the small moves that every role needs."""

from __future__ import annotations

import pytest

from holdfast.replication.membership import encode_membership, with_removed
from holdfast.replication.state import Role


def test_a_new_term_has_no_vote_and_no_leader(member) -> None:
    """What was promised or known in an old term does not hold in the next."""
    state = member().state
    state.voted_for, state.leader, state.matched_index = "b", "b", 1

    state.enter_term(7)

    assert (7, None, None, 0) == (
        state.term,
        state.voted_for,
        state.leader,
        state.matched_index,
    )
    with pytest.raises(AssertionError):
        state.enter_term(7)


def test_a_cut_change_gives_the_members_before_it_back(member, entry_after) -> None:
    """A CONFIG entry rules when it is appended, and no longer when it is cut."""
    bench = member()
    state = bench.state
    changed = state.membership.changed(with_removed(state.membership, "c", "a"), 1)
    entry = entry_after(bench.journal, 2, encode_membership(changed), kind=2)
    state.log.append([entry])
    state.adopt_from([entry])
    assert ["a", "b"] == state.voter_names

    state.cut_log_after(1)

    assert ["a", "b", "c"] == state.voter_names
    assert 1 == state.config_index


def test_only_the_right_identity_counts(member) -> None:
    """A node that came back without its disk is not the member of its name."""
    bench = member()

    assert bench.state.is_counted("b")
    bench.link("b", node_id="ff" * 16)
    assert not bench.state.is_counted("b")
    assert not bench.state.is_counted("nobody")


def test_a_witness_waits_longer(member) -> None:
    """Data nodes stand first, because a witness could only hand over."""
    data = member("a", "b", "w:witness").state
    witness = member("a", "b", "w:witness", name="w").state

    data.await_leader()
    witness.await_leader()

    assert witness.election_timeout > data.election_timeout
    assert witness.is_witness and not data.is_witness


def test_a_leader_lives_while_it_is_heard(member) -> None:
    """For the shortest election timeout after its last word, unless its link was closed."""
    state = member().state
    state.leader, state.leader_contact_at = "b", state.now
    assert state.has_live_leader()

    state.now += state.settings.election_seconds_min
    assert not state.has_live_leader()

    state.now -= state.settings.election_seconds_min
    state.is_leader_link_closed = True
    assert not state.has_live_leader()


def test_a_node_of_another_identity_is_no_member(member) -> None:
    """With a lost ballot the name alone gives no vote."""
    state = member().state
    state.node_id = "ee" * 16
    assert state.membership is not None
    state.adopt(state.membership, state.config_index)

    assert state.own is None
    assert not state.is_voter
    assert Role.FOLLOWER is state.role

"""
Tests of replication/fencing.py: when a node ends that is shut out.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.journal.ballot import Ballot
from holdfast.replication.fencing import Fence
from holdfast.replication.state import Role

BALLOT = Ballot(node_id=b"a" * 16)


@pytest.fixture
def ended():
    return []


def test_without_a_reason_nothing_happens(member, ended) -> None:
    """Whoever asks whether a node is shut out gives the answer as it is."""
    state = member().state
    Fence(state, ended.append).shut_out("")
    assert ("", []) == (state.fenced_reason, ended)


def test_a_node_that_was_removed_ends_at_once(member, ended) -> None:
    """Its own generation rules: there is nothing to remember that the others do not."""
    state = member().state
    Fence(state, ended.append).shut_out("removed", state.generation)
    assert ["removed"] == [str(error) for error in ended]
    assert Role.FOLLOWER is state.role
    assert not state.is_shut_out


def test_a_later_generation_is_kept_before_the_end(member, ended) -> None:
    """A ballot that was under way before does not count; the first reason stays."""
    state = member().state
    fence = Fence(state, ended.append)
    fence.shut_out("generation 3 rules", 3)
    fence.shut_out("generation 4 rules", 4)
    fence.ballot_is_stored(replace(BALLOT, generation=0))
    assert [] == ended
    fence.ballot_is_stored(replace(BALLOT, generation=3))
    assert ["generation 3 rules"] == [str(error) for error in ended]
    assert state.is_shut_out


def test_without_anybody_to_tell_it_just_takes_no_part(member) -> None:
    """As in a replay, where no process has to end."""
    state = member().state
    Fence(state, None).shut_out("removed")
    assert "removed" == state.fenced_reason

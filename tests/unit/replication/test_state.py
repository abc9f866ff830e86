"""Tests of replication/state.py: the small moves that every role needs."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from holdfast.journal.ballot import Ballot
from holdfast.replication.ballot_keeping import BallotKeeper
from holdfast.replication.formation import renewed
from holdfast.replication.linked_members import LinkedMembers
from holdfast.replication.membership import Membership, encode_membership, with_removed
from holdfast.replication.messages import HeldEnd, Hello
from holdfast.replication.state import Role, State


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


class Read(State):
    """A state that notes which of its fields are read."""

    read: ClassVar[set[str]] = set()

    def __getattribute__(self, name: str) -> Any:
        if name in object.__getattribute__(self, "__dict__"):
            Read.read.add(name)
        return object.__getattribute__(self, name)


UNCHANGING = {"name", "node_id"}
"""Of one process."""
FOLLOWS_MEMBERSHIP = {"members", "voter_ids", "_present_ids", "_possible_ids"}
"""Set by `adopt` alone, from the membership."""


def test_what_is_told_depends_on_the_told_facts_alone(member) -> None:
    """
    Ballot, hello and links read nothing else that may change: else they would miss it.

    In the first generation, in one begun by force, and where no more than its number is known.
    """
    state = member().state
    state.__class__ = Read
    membership = state.membership
    ballot = Ballot(node_id=bytes.fromhex(state.node_id))
    links = SimpleNamespace(set_peers=lambda _addresses: None, drop=lambda _peer: None)
    keeper = BallotKeeper(state, SimpleNamespace(current=ballot))
    for generation, commit_index in ((0, 0), (0, 9), (1, 0), (2, 9)):
        Read.read = set()
        state.generation, state.commit_index = generation, commit_index
        state.adopt(replace(membership, generation=min(generation, 1)), 1)
        state.told_facts()
        facts = Read.read | UNCHANGING | FOLLOWS_MEMBERSHIP
        Read.read = set()

        keeper.take_changed()
        renewed(state, Hello(state.name, state.node_id))
        LinkedMembers(links, membership).update(state)

        assert {"connected"} >= Read.read - facts, "links only look at who is there"
        assert "log" in Read.read, "of which it is read whether its end is known"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("term", 9), ("voted_for", "b"), ("cluster_id", "ab" * 16), ("generation", 3)),
        *(("fenced_by", 4), ("is_shut_out", True), ("membership", None), ("config_index", 7)),
        *(
            ("commit_index", 0),
            ("forced", Membership(())),
            ("end", HeldEnd(1, 1, "", 1, "", False)),
        ),
        *(("told_along", ("aa",)), ("told_lineage", (("aa", 1),))),
    ],
)
def test_each_told_fact_tells_by_itself(member, name, value) -> None:
    """Whoever changes it need not say so to anybody."""
    state = member().state
    state.commit_index = 1
    before = state.told_facts()
    assert before == state.told_facts()

    setattr(state, name, value)

    assert before != state.told_facts()


def test_an_end_that_is_known_now_is_a_told_fact(member) -> None:
    """The hello says whether it is known."""
    state = member().state
    state.log.unknown_index = 5
    before = state.told_facts()

    state.log.forget_unknown()

    assert before != state.told_facts()

"""Tests of replication/consensus.py: every event reaches the present role."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.replication import consensus
from holdfast.replication.messages import (
    AppendRequest,
    AppendResponse,
    PreVoteRequest,
    VoteResponse,
)
from holdfast.replication.progress import Progress
from holdfast.replication.state import Role


def test_alone_a_member_stands_at_once(member) -> None:
    """Nobody else could lead, so there is nothing to wait for."""
    bench = member("a")

    consensus.start(bench.state)
    consensus.tick(bench.state)

    assert Role.CANDIDATE is bench.state.role


def test_silence_makes_a_candidate(member) -> None:
    """After the election timeout, not before."""
    bench = member()
    bench.state.await_leader()
    consensus.tick(bench.state)
    assert Role.FOLLOWER is bench.state.role

    bench.state.now = consensus.deadline(bench.state)
    consensus.tick(bench.state)

    assert Role.PRE_CANDIDATE is bench.state.role


def test_only_a_closed_link_to_the_leader_hurries(member) -> None:
    """A link that fell silent, or one to somebody else, leaves the timeout as it is."""
    bench = member()
    consensus.receive(bench.state, "b", AppendRequest(2, 1, 1, bytes(16), 0, 0, 1.0))
    patient = bench.state.election_deadline

    consensus.link_down(bench.state, "c", closed=True)
    consensus.link_down(bench.state, "b", closed=False)
    assert patient == bench.state.election_deadline

    consensus.link_down(bench.state, "b", closed=True)
    assert bench.state.election_deadline < bench.state.now + 0.1


def test_a_closed_link_takes_its_peer_out_of_the_lease(leading) -> None:
    """Who closed its link may elect another at once, so its old answers prove nothing more."""
    bench = leading()
    assert bench.state.lease_until > bench.state.now

    consensus.link_down(bench.state, "b", closed=True)
    assert bench.state.lease_until > bench.state.now
    consensus.link_down(bench.state, "c", closed=True)
    assert bench.state.lease_until < bench.state.now


def test_a_new_link_starts_from_nothing(leading) -> None:
    """What was under way on the old link is lost, and what was matched is asked again."""
    bench = leading()

    hello = bench.link("b", instance="second")
    consensus.link_up(bench.state, "b", hello)
    consensus.flush(bench.state)

    assert 0 == bench.state.progress["b"].match_index
    assert ["b"] == [peer for peer, _ in bench.sent()]


def test_a_fresh_node_joins_the_cluster_of_its_leader(member) -> None:
    """The first entries it is sent decide where it belongs; questions of others do not."""
    bench = member()
    state = bench.state
    cluster, state.cluster_id = state.cluster_id, ""
    bench.link("b", cluster_id=cluster, generation=3)

    consensus.receive(state, "b", PreVoteRequest(5, 9, 5))
    assert "" == state.cluster_id
    consensus.receive(state, "b", AppendRequest(2, 1, 1, bytes(16), 0, 0, 1.0))

    assert (cluster, 3, "b") == (state.cluster_id, state.generation, state.leader)


@pytest.mark.parametrize(
    ("said", "is_heeded"),
    [
        ({"generation": 2, "begun": True}, False),
        ({"generation": 1, "lineage": (8, 0), "begun": True}, False),
        ({"generation": 1, "lineage": (6, 9), "begun": True}, True),
        ({"generation": 2, "begun": True, "cluster_id": "ee" * 16}, True),
        ({"generation": 2}, True),
        ({"generation": 2, "shut_out": True}, True),
    ],
)
def test_a_fresh_node_joins_no_generation_that_is_over(member, said, is_heeded) -> None:
    """It was told of the later one while it had no cluster, so nothing followed from it then."""
    bench = member()
    state = bench.state
    cluster, state.cluster_id = state.cluster_id, ""
    bench.link("b", cluster_id=cluster, generation=1, lineage=(7, 0), begun=True)
    bench.link("c", **{"cluster_id": cluster, **said})

    consensus.receive(state, "b", AppendRequest(2, 1, 1, bytes(16), 0, 0, 1.0))

    assert (cluster if is_heeded else "") == state.cluster_id


def test_who_is_shut_out_hears_nothing(member) -> None:
    """A fenced node takes part in nothing any more."""
    bench = member()
    bench.state.fenced_reason = "removed"

    consensus.receive(bench.state, "b", AppendRequest(2, 1, 1, bytes(16), 0, 0, 1.0))
    consensus.receive(bench.state, "b", VoteResponse(9, granted=False))

    assert (1, []) == (bench.state.term, bench.sent())


def test_the_reply_leaves_at_the_end_of_the_turn(member) -> None:
    """Many requests of one turn are answered once."""
    bench = member()
    for sent_at in (1.0, 2.0, 3.0):
        consensus.receive(bench.state, "b", AppendRequest(2, 1, 1, bytes(16), 0, 0, sent_at))

    consensus.flush(bench.state)

    ((_, answer),) = bench.sent()
    assert isinstance(answer, AppendResponse)
    assert 3.0 == answer.sent_at


def test_a_leader_wakes_for_its_heartbeats(leading) -> None:
    """The deadline is one period after the last request, never in the past."""
    bench = leading()

    assert bench.state.now < consensus.deadline(bench.state) <= bench.state.now + 0.1
    bench.state.now += 50
    assert consensus.deadline(bench.state) > bench.state.now


def test_what_moves_is_not_silent(member, leading) -> None:
    """Neither the leader, while a large entry comes from it, nor the peer that takes one."""
    bench = member()
    consensus.receive(bench.state, "b", AppendRequest(2, 1, 1, bytes(16), 0, 0, 1.0))
    bench.state.now += 0.5
    consensus.moving(bench.state, "c", has_entries=True)
    consensus.moving(bench.state, "b", has_entries=False)  # A copy that it has asked for, say.
    assert bench.state.election_deadline < bench.state.now + bench.state.election_timeout
    consensus.moving(bench.state, "b", has_entries=True)
    assert bench.state.election_deadline == bench.state.now + bench.state.election_timeout

    leader = leading()
    lease = leader.state.lease_until
    consensus.moving(leader.state, "b", has_entries=False)
    assert leader.state.progress["b"].moved_at == leader.state.now
    assert leader.state.lease_until == lease


@pytest.mark.parametrize("kind", ["a learner that must begin anew", "a stranger under its name"])
def test_a_peer_that_is_sent_nothing_makes_no_leader_turn_at_once(
    leading, entry_after, kind: str
) -> None:
    """The next turn is due with the next heartbeat, as for all others: else a core spins."""
    bench = leading("a", "b", "w:witness", name="w")
    for _ in range(6):
        bench.state.log.append([entry_after(bench.journal, 2, b"x" * 6000)])
    bench.store()
    bench.journal.drop_before(bench.journal.segments()[2].base_index)
    if kind == "a stranger under its name":
        bench.link("b", node_id="ff" * 16)
    else:
        bench.state.members["b"] = replace(bench.state.members["b"], kind="learner")
    bench.state.progress["b"] = Progress(bench.state.log.last_index + 1)
    bench.state.progress["b"].probe(1)

    dues = []
    for _ in range(3):
        consensus.flush(bench.state)
        dues.append(consensus.deadline(bench.state) - bench.state.now)
        bench.state.now += dues[-1]

    told = [it for peer, it in bench.sent() if peer == "b"]
    if kind == "a stranger under its name":
        assert not told
    assert not [it for it in told if type(it) is not AppendRequest or it.entries]
    assert min(dues) > 0.05

"""Tests of replication/reconfiguration.py: one change at a time, and only healthy ones."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.errors import MembershipError, NotLeaderError
from holdfast.replication import leader, reconfiguration
from holdfast.replication.index_set import IndexSet
from holdfast.replication.membership import Member
from holdfast.replication.messages import HeldEnd


def settle(bench, answered) -> None:
    """Let everybody store everything."""
    bench.store()
    for peer in bench.state.peers:
        answered(bench, peer, bench.journal.last_index)
    leader.advance_commit(bench.state)


def kinds(bench):
    return {member.name: member.kind for member in bench.state.membership.members}


def test_a_change_rules_when_it_is_appended(leading) -> None:
    """Not only when it is committed: quorums are counted by the new members at once."""
    bench = leading()

    entry = reconfiguration.remove_member(bench.state, "c")

    assert ["a", "b"] == bench.state.voter_names
    assert entry.index == bench.state.config_index > bench.state.commit_index


@pytest.mark.promise("F26")
def test_one_change_at_a_time(leading, answered) -> None:
    """The next one waits until the last is committed."""
    bench = leading()
    reconfiguration.remove_member(bench.state, "c")

    with pytest.raises(MembershipError, match="not yet committed"):
        reconfiguration.add_member(bench.state, Member("d", "d:1"))

    settle(bench, answered)
    reconfiguration.add_member(bench.state, Member("d", "d:1"))


def test_no_change_before_an_own_entry_is_committed(leading) -> None:
    """The single-server bug of 2015: a change needs a committed entry of its leader's term."""
    bench = leading()
    bench.state.commit_index = 1

    with pytest.raises(MembershipError, match="own term"):
        reconfiguration.add_member(bench.state, Member("d", "d:1"))


def test_no_change_that_would_stop_the_cluster(leading) -> None:
    """With b silent, removing c would leave a alone with a dead voter."""
    bench = leading()
    bench.state.progress["b"].contact_at = 0.0

    with pytest.raises(MembershipError, match="only 1 can be reached"):
        reconfiguration.remove_member(bench.state, "c")


def test_only_the_leader_changes_members(member) -> None:
    """Everybody else says who leads."""
    with pytest.raises(NotLeaderError):
        reconfiguration.repropose(member().state)


def test_a_new_member_becomes_a_voter_by_itself(leading, answered) -> None:
    """Learner first, its identity when it shows up, voter when it has caught up."""
    bench = leading()
    reconfiguration.add_member(bench.state, Member("d", "d:1"))
    settle(bench, answered)
    bench.link("d", cluster_id="")

    reconfiguration.maintain(bench.state)
    assert bench.state.is_counted("d")
    settle(bench, answered)
    reconfiguration.maintain(bench.state)

    assert "voter" == kinds(bench)["d"]


@pytest.mark.promise("F18")
def test_who_lacks_what_is_damaged_here_becomes_no_voter(leading, answered) -> None:
    """
    It can be sent nothing behind that. Of two voters it would keep all from being committed, its
    own promotion too: for ever.
    """
    bench = leading("a")
    state = bench.state
    settle(bench, answered)
    reconfiguration.add_member(state, Member("d", "d:1"))
    settle(bench, answered)
    bench.link("d", cluster_id="")
    reconfiguration.maintain(state)
    settle(bench, answered)
    bench.append([2, 2])
    leader.advance_commit(state)
    state.log.damaged = IndexSet({state.log.last_index - 1})

    reconfiguration.maintain(state)

    assert "learner" == kinds(bench)["d"]
    with pytest.raises(MembershipError, match="which is damaged here"):
        reconfiguration.promote(state, "d")
    answered(bench, "d", state.log.last_index - 1)
    reconfiguration.maintain(state)
    assert "voter" == kinds(bench)["d"]


def test_a_plain_learner_waits_for_the_operator(leading, answered) -> None:
    """And is not promoted while it lacks much."""
    bench = leading("a", "b", "c", "d:learner", promote_entries_max=2)
    reconfiguration.maintain(bench.state)
    assert "learner" == kinds(bench)["d"]

    for _ in range(5):
        leader.propose(bench.state, [b"x"], 1, 0)
    with pytest.raises(MembershipError, match="lacks 5 entries"):
        reconfiguration.promote(bench.state, "d")

    settle(bench, answered)
    reconfiguration.promote(bench.state, "d")
    assert "voter" == kinds(bench)["d"]


@pytest.mark.parametrize("is_even", [False, True])
def test_who_does_not_keep_up_becomes_no_voter_where_more_are_needed_then(
    leading, answered, is_even
) -> None:
    """Of three voters with one dead, commits would wait for the fourth. A third adds to two."""
    bench = leading(*(("a", "b") if is_even else ("a", "b", "c")), "d:learner")
    state = bench.state
    reconfiguration.maintain(state)
    leader.propose(state, [b"x"], 1, 0)
    bench.store()
    for peer in state.peers:
        state.now += 0.01
        answered(bench, peer, state.log.last_index - (peer == "d"))
    leader.advance_commit(state)
    if not is_even:
        with pytest.raises(MembershipError, match="lacks 1 entries"):
            reconfiguration.promote(state, "d")
        for _ in range(2):
            answered(bench, "d", state.log.last_index)
            reconfiguration.maintain(state)
        leader.propose(state, [b"y"], 1, 0)

    reconfiguration.promote(state, "d")
    assert "voter" == kinds(bench)["d"]


@pytest.mark.promise("F24")
def test_a_lost_disk_is_readmitted_under_its_new_identity(leading, answered) -> None:
    """The old identity is out at once and for good; the new one has no vote yet."""
    bench = leading()
    old = bench.state.members["c"].node_id
    bench.link("c", node_id="ff" * 16, cluster_id="")

    reconfiguration.maintain(bench.state)

    assert "learner" == kinds(bench)["c"]
    assert old in bench.state.membership.retired


def test_a_node_of_another_cluster_is_not_readmitted(leading) -> None:
    """Its name is known, but it belongs elsewhere."""
    bench = leading()
    bench.link("c", node_id="ff" * 16, cluster_id="ee" * 16)

    reconfiguration.maintain(bench.state)

    assert "voter" == kinds(bench)["c"]


def test_a_node_of_a_newer_generation_is_not_readmitted(leading) -> None:
    """It was promoted: it takes us in or shuts us out, not we it."""
    bench = leading()
    bench.link("c", node_id="ff" * 16, generation=1, cluster_id=bench.state.cluster_id)

    reconfiguration.maintain(bench.state)

    assert "voter" == kinds(bench)["c"]


@pytest.mark.parametrize("generation", [0, 1])
def test_a_node_of_a_former_generation_is_not_readmitted(leading, generation) -> None:
    """
    It joined behind the end of the copy that an operator promoted, and slept while that was done.

    Its link is older than the promotion, so nobody has judged it by that; its log is another one.
    """
    bench = leading()
    bench.state.generation = 1
    cluster_id = bench.state.cluster_id
    bench.link("c", node_id="ff" * 16, generation=generation, cluster_id=cluster_id)

    reconfiguration.maintain(bench.state)

    assert ("learner" if generation else "voter") == kinds(bench)["c"]


@pytest.mark.parametrize(
    ("end", "kind"),
    [
        (None, "voter"),
        ((2, 2, "other"), "voter"),
        ((50, 2, "ab" * 16), "voter"),
        ((2, 2, "ours"), "learner"),
        ((0, 0, ""), "learner"),
    ],
)
def test_whom_somebody_promoted_apart_may_have_filled_is_not_readmitted(leading, end, kind) -> None:
    """
    It was restarted and knows its generation by number only: its log must be a beginning of ours.

    One that was begun anew would count as holding all that was cleaned away there.
    """
    bench = leading()
    state = bench.state
    forced = replace(state.membership, generation=1, promoted_at=7, number_range=1024)
    state.adopt(forced, state.config_index)
    held = None
    if end is not None:
        chains = {"ours": state.log.chain_at(2).hex(), "other": "cd" * 16}
        index, term, chain = end
        held = HeldEnd(index, term, chains.get(chain, chain), 0, "", is_incomplete=False)
    bench.link("c", node_id="ff" * 16, generation=1, cluster_id=state.cluster_id, end=held)

    reconfiguration.maintain(state)

    assert kind == kinds(bench)["c"]


def test_the_second_of_two_is_not_given_up_by_itself(leading) -> None:
    """Going on with a single copy is the operator's decision."""
    bench = leading("a", "b")
    bench.link("b", node_id="ff" * 16, cluster_id="")

    reconfiguration.maintain(bench.state)

    assert "voter" == kinds(bench)["b"]


def test_the_members_are_repeated_while_nobody_answers(leading) -> None:
    """
    It changes nobody. Refused, it ended a leader whose followers had not answered for a second.
    """
    bench = leading()
    state = bench.state
    for progress in state.progress.values():
        progress.contact_at = -100.0
    state.bytes_since_config = state.settings.config_repeat_bytes
    reconfiguration.maintain(state)
    assert state.config_index == state.log.last_index
    assert ["a", "b", "c"] == state.voter_names


def test_the_members_are_repeated(leading) -> None:
    """So that the segment that tells them can be reclaimed."""
    bench = leading(config_repeat_bytes=1000)
    before = bench.state.config_index
    leader.propose(bench.state, [bytes(2000)], 1, 0)

    reconfiguration.maintain(bench.state)

    assert bench.state.config_index > before
    assert {"a": "voter", "b": "voter", "c": "voter"} == kinds(bench)

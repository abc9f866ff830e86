"""
Promotions by force that know nothing of each other, and what was shut out and is started again.

An init system starts again whatever ends, and it does not empty directories as an operator does.
"""

from __future__ import annotations

import pytest

from holdfast.replication.membership import Member
from trials.simulation.simulated_group import SimulatedGroup, SimulatedNode


def lost_site(*learners: str) -> SimulatedGroup:
    """Three voters and maybe learners, with one message; they are all down then."""
    members = [Member(name, f"{name}:1") for name in "abc"]
    group = SimulatedGroup([*members, *(Member(it, f"{it}:1", "learner") for it in learners)])
    group.start()
    propose(group, b"of all")
    return group


def propose(group: SimulatedGroup, body: bytes) -> None:
    group.run_until(lambda: group.leader() is not None, 10)
    leader = group.leader()
    assert leader is not None
    group.propose(leader.name, body)
    group.run(1)


def stop_all(group: SimulatedGroup) -> None:
    for name in group.nodes:
        group.crash(name)


def start(group: SimulatedGroup, name: str) -> SimulatedNode:
    """As an init system does, on the disk that is there."""
    node = group.nodes[name]
    group.crash(name)
    node.fenced = ""
    group.restart(name)
    group.run(1)
    return node


def promoted(group: SimulatedGroup, name: str) -> SimulatedNode:
    """Alone, by an operator who knows of no other promotion."""
    node = start(group, name)
    node.driver.promote_force(wall_microseconds=int(group.now * 1e6))
    group.turn(node)
    group.run_until(lambda: node.driver.is_serving, 5)
    group.propose(name, b"of " + name.encode())
    group.run(1)
    return node


def apart(first: str, second: str) -> SimulatedGroup:
    """Two that were promoted one after the other; the first one is dead by then."""
    group = lost_site()
    stop_all(group)
    group.checker.check = lambda _node: None  # type: ignore[method-assign]  # Two histories.
    promoted(group, first)
    group.crash(first)
    promoted(group, second)
    return group


@pytest.mark.parametrize(("first", "second"), ["ab", "ba"])
@pytest.mark.parametrize("is_dialing", [True, False])
def test_of_two_promotions_apart_the_later_one_goes_on(
    first: str, second: str, is_dialing: bool
) -> None:
    """
    Whoever of the two dials, and however often the earlier one is started again.

    It leads by itself, as its only voter, until it meets the other one; and not any more then.
    """
    group = apart(first, second)
    later = group.nodes[second]
    group.connect_soon = lambda _name: None  # type: ignore[method-assign]
    earlier = start(group, first)
    pair = (earlier, later) if is_dialing else (later, earlier)
    group._introduce(*pair)
    group.run(1)

    assert "promotions that knew nothing of each other" in earlier.fenced
    assert ("", True) == (later.fenced, later.driver.is_serving)
    del group.connect_soon
    assert not start(group, first).driver.is_leader
    group.run(5)
    assert ("", True) == (later.fenced, later.driver.is_serving)
    group.crash(second)
    group.run(5)
    assert not start(group, first).driver.is_leader
    again = promoted(group, first)
    assert again.driver.generation > later.driver.generation


def test_who_was_shut_out_does_not_end_the_one_that_rules_by_its_own_promotion() -> None:
    """
    Started again it knows from its checkpoint that its own promotion, which took out everybody
    else, was committed, and of the other one no more than that it rules.
    """
    group = apart("a", "b")
    ruling = group.nodes["b"]
    assert start(group, "a").fenced
    group.connect_soon = lambda _name: None  # type: ignore[method-assign]
    node = start(group, "a")
    node.driver._state.commit_index = node.journal.last_index
    refusal = node.driver.judge(ruling.driver.hello)

    assert refusal is None or not refusal.is_fenced
    for pair in ((node, ruling), (ruling, node)):
        group._introduce(*pair)
        group.run(1)
    assert ("", True) == (ruling.fenced, ruling.driver.is_serving)


def test_an_empty_node_that_reaches_two_promotions_follows_one_of_them() -> None:
    """What the other one says is not for it, though it is of the same cluster and generation."""
    group = apart("a", "b")
    group.cut = {("a", "b"), ("b", "a")}
    group.restart("a")
    group.run(1)
    group.wipe("c")
    node = start(group, "c")
    for number in range(8):
        for name in "ab":
            group.propose(name, b"%d of %s" % (number, name.encode()))
        group.run(0.3)
        if not node.is_alive or node.fenced:
            group.crash("c")
            group.wipe("c")
            start(group, "c")

    assert group.nodes["b"].driver.is_serving
    for name, other in ("ab", "ba"):
        taken = [body for body in group.nodes[name].taken if body.endswith(b"of " + other.encode())]
        assert [] == taken
    histories = {body[-1:] for body in node.taken if b" of " in body}
    assert len(histories) < 2


def shut_out_by_a_learner() -> SimulatedGroup:
    """
    The voters have removed a learner that they do not reach, and it goes on by force.

    One of them has another disk, and identity, than the learner knows.
    """
    group = lost_site("x")
    group.crash("x")
    group.crash("b")
    group.wipe("b")
    group.restart("b")
    group.run(3)
    leader = group.leader()
    assert leader is not None
    leader.driver.remove_member("x")
    group.turn(leader)
    propose(group, b"of the voters")
    stop_all(group)
    group.checker.check = lambda _node: None  # type: ignore[method-assign]
    promoted(group, "x")
    return group


def test_who_rules_is_not_ended_by_whom_it_shut_out() -> None:
    """By a word from before, said by nodes that know no more of the promotion than that it was."""
    group = shut_out_by_a_learner()
    ruling = group.nodes["x"]
    for name in "abc":
        node = start(group, name)
        assert node.fenced
    group.connect_soon = lambda _name: None  # type: ignore[method-assign]
    for name in "abc":
        node = start(group, name)
        # As a checkpoint says.
        node.driver._state.commit_index = node.journal.last_index
        refusal = node.driver.judge(ruling.driver.hello)
        assert refusal is None or not refusal.is_fenced
        group._introduce(node, ruling)
        group.run(0.5)
        assert ("", True) == (ruling.fenced, ruling.driver.is_serving)


def test_whom_a_promotion_shut_out_is_not_taken_in_with_its_log() -> None:
    """
    Started again it says the generation that rules, and under an identity that the one that rules
    never met: it is no new member, and what only it holds must stay as it is.
    """
    group = shut_out_by_a_learner()
    ruling = group.nodes["x"]
    assert start(group, "b").fenced
    for _ in range(3):
        node = start(group, "b")
        group.run(2)

        assert node.fenced
        entries = range(node.journal.first_index, node.journal.last_index + 1)
        bodies = [bytes(node.journal.entry(index).body) for index in entries]
        assert b"of the voters" in bodies
        kinds = {it.name: it.kind for it in group.membership_of(ruling)}
        assert "fenced" == kinds["b"]


@pytest.mark.parametrize("seed", range(3))
def test_all_that_were_shut_out_together_elect_nobody(seed: int) -> None:
    """Whoever ended because a later generation rules knows it when that one is down, too."""
    group = shut_out_by_a_learner()
    group.random.seed(seed)
    for name in "abc":
        start(group, name)
    group.crash("x")
    for name in "abc":
        group.crash(name)
        group.nodes[name].fenced = ""
        group.restart(name)
    group.run(8)

    assert not any(group.nodes[name].driver.is_leader for name in "abc")
    assert 1 == start(group, "x").driver.generation


def test_an_older_copy_that_was_told_so_votes_for_nobody_when_it_is_started_again() -> None:
    """
    Who told it is down by then, and who lacks what it has forgotten would be elected with its vote.
    """
    group = SimulatedGroup([Member(name, f"{name}:1") for name in "abc"])
    group.start()
    propose(group, b"of all")
    leader = group.leader()
    assert leader is not None
    leader.driver.transfer("a")
    group.run_until(lambda: group.nodes["a"].driver.is_serving, 10)
    group.run(1)
    copied = group.nodes["b"]
    copy = copied.disk.snapshot()
    group.partition({"c"})
    group.run(0.5)
    index = group.propose("a", b"of a and b")
    group.run(0.5)
    for name in "ab":
        journal = group.nodes[name].journal
        journal.ballot_file.save_floor(index, journal.chain_at(index))
    group.run(3)
    group.crash("b", power=True)
    copied.disk.restore(copy)
    assert "an older copy of itself" in start(group, "b").fenced

    group.crash("a")
    group.heal()
    start(group, "b")
    group.run(5)

    assert group.leader() is None
    assert copied.driver.status().is_cut_short
    start(group, "a")
    group.run(5)
    assert "a" == getattr(group.leader(), "name", "")
    assert b"of a and b" in group.nodes["c"].taken

"""
Voters that lose the ends of their logs at once, in a way that recovery cannot tell from rot.

Of two, the one with the longer readable log goes on, since what was confirmed both had stored; but
only where nobody may have become a third one. Of three with one dead, an operator decides.
"""

from __future__ import annotations

import random

import pytest

from holdfast.replication import unknown_ends
from holdfast.replication.membership import Member, Membership
from holdfast.replication.state import State
from trials.simulation.simulated_group import SimulatedGroup, SimulatedNode, Trouble, ViolationError

PAIR = [Member("a", "a:1"), Member("b", "b:1")]
LEARNER = Member("l", "l:1", "learner")


def serving(members: list[Member], seed: int = 5) -> tuple[SimulatedGroup, SimulatedNode, str]:
    """A group that has confirmed something, its leader, and another voter's name."""
    group = SimulatedGroup(members, seed=seed)
    group.start()
    group.run_until(lambda: group.leader() is not None, 10)
    leader = group.leader()
    assert leader is not None
    group.propose(leader.name, b"first")
    group.run(0.5)
    return group, leader, "b" if leader.name == "a" else "a"


def store_unconfirmed(group: SimulatedGroup, leader: SimulatedNode, *others: str) -> None:
    """Let these have one more entry on their disks, and the leader not know of it."""
    group.propose(leader.name, b"unconfirmed" * 40)
    nodes = [leader, *(group.nodes[name] for name in others)]
    last = leader.journal.last_index
    while any(node.journal.stored_index < last for node in nodes):
        group.run(0.0001)
    assert leader.driver.commit_index < last


def lose_the_end(node: SimulatedNode, first: int) -> None:
    """Let all entries from `first` on rot, header and body, on the disk of a dead node."""
    for index in range(first, node.journal.last_index + 1):
        place = node.journal.place_of(index)
        for byte in (place.byte + 20, place.byte + place.size - 100):
            node.disk.flip_bit(place.path, byte * 8)


def crash_all(group: SimulatedGroup) -> None:
    for node in group.nodes.values():
        if node.is_alive:
            group.crash(node.name)


def goes_on(group: SimulatedGroup, names: str) -> None:
    """Somebody leads, everybody follows, and all that was confirmed is there."""
    group.run_until(lambda: group.leader() is not None, 10)
    leader = group.leader()
    assert leader is not None
    group.propose(leader.name, b"after")
    group.run(2)
    for name in names:
        assert [b"first"] == group.nodes[name].taken[:1]
        assert b"after" == group.nodes[name].taken[-1]
        assert "" == group.nodes[name].driver.status().unknown_end
    group.checker.check_end()


@pytest.mark.parametrize("seed", range(1, 7))
@pytest.mark.parametrize("members", [PAIR, [*PAIR, LEARNER]])
def test_both_voters_lose_an_entry_that_was_not_confirmed(seed: int, members: list[Member]) -> None:
    """Neither can prove to the other that it was not; both had to store what was."""
    group, leader, other = serving(members, seed)
    store_unconfirmed(group, leader, other)
    crash_all(group)
    for name in "ab":
        lose_the_end(group.nodes[name], group.nodes[name].journal.last_index)

    for member in members:
        group.restart(member.name)
    assert all(group.nodes[name].journal.unknown_through for name in "ab")

    goes_on(group, "".join(member.name for member in members))


@pytest.mark.parametrize("seed", range(1, 7))
def test_one_voter_may_have_lost_more_than_the_other_has(seed: int) -> None:
    """It votes for the other, whose log is the longer of what can be read."""
    group, leader, other = serving(PAIR, seed)
    store_unconfirmed(group, leader, other)
    group.partition({"a"}, {"b"})
    store_unconfirmed(group, leader)
    first = group.nodes[other].journal.last_index
    assert leader.journal.last_index > first
    crash_all(group)
    lose_the_end(leader, first)
    group.heal()
    for name in "ab":
        group.restart(name)
    assert leader.journal.unknown_through > group.nodes[other].journal.last_index

    goes_on(group, "ab")
    # It may have been confirmed, for all that the two know.
    assert b"unconfirmed" * 40 == leader.taken[1]


def test_a_pair_goes_on_after_each_power_cut() -> None:
    """In the middle of work, on a bad network; what rots at the ends was not confirmed."""
    assert sum(unknown_ends_lived_through(seed) for seed in range(1, 25)) > 24


def unknown_ends_lived_through(seed: int) -> int:
    """How many ends of logs nobody knew of in this run."""
    chance = random.Random(seed)
    trouble = Trouble(delay_seconds_max=0.01, loss=0.02, doubled=0.02, sync_seconds_max=0.01)
    group = SimulatedGroup(PAIR, seed=seed, trouble=trouble)
    group.start()
    unknown = 0
    for _ in range(6):
        group.run_until(lambda: group.leader() is not None, 20)
        for number in range(chance.randrange(2, 12)):
            leader = group.leader()
            if leader is not None:
                group.propose(leader.name, b"%d" % number * 40)
            group.run(chance.uniform(0.0, 0.02))
        for name in chance.sample("ab", 2):
            group.crash(name, power=chance.random() < 0.5)
            group.run(chance.choice((0.0, 0.001, 0.01)))
        confirmed = max(group.checker.committed)
        for node in group.nodes.values():
            journal = node.journal
            if confirmed < journal.last_index <= journal.stored_index and chance.random() < 0.8:
                lose_the_end(node, journal.last_index)
            group.restart(node.name)
            unknown += bool(node.journal.unknown_through)

    group.run_until(lambda: group.leader() is not None, 20)
    group.run(2)
    group.checker.check_end()
    return unknown


def nobody_leads_before_the_third_is_back(
    group: SimulatedGroup, leader: SimulatedNode, first: int, told: str
) -> None:
    """The two come back without it, one with a lost end; with it all has what it confirmed."""
    crash_all(group)
    lose_the_end(leader, first)
    group.heal()
    for name in "ab":
        group.restart(name)

    group.run(10)
    assert group.leader() is None
    assert told in leader.driver.status().unknown_end
    group.restart("l")
    goes_on(group, "".join(group.nodes))
    assert {b"by the third"} == {node.taken[1] for node in group.nodes.values()}


@pytest.mark.parametrize("seed", range(1, 7))
def test_what_was_confirmed_with_a_new_third_voter_is_not_given_up(seed: int) -> None:
    """
    The lost end made the learner a voter; it alone has what was confirmed then, and it is dead.

    Nobody leads before it is back: to the two that are left they look like the only voters.
    """
    group, leader, other = serving([*PAIR, LEARNER], seed)
    group.run(0.5)
    group.partition({other}, {leader.name, "l"})
    first = leader.driver.promote("l")
    group.run_until(lambda: leader.driver.commit_index >= first, 1)
    group.propose(leader.name, b"by the third")
    group.run_until(lambda: leader.driver.commit_index > first, 1)
    told = "holdfast cluster promote a b --force"
    nobody_leads_before_the_third_is_back(group, leader, first, told)


@pytest.mark.parametrize("seed", range(1, 7))
def test_a_third_voter_whom_only_the_other_one_knows_is_waited_for(seed: int) -> None:
    """
    The lost end had both: that the learner was taken in, and that it became a voter.

    The other one of two knows it as a learner, so its log is the longer one, and it stands.
    """
    group, leader, other = serving(PAIR, seed)
    group.nodes["l"] = SimulatedNode(group, "l", Membership((*PAIR, LEARNER)))
    first = leader.driver.add_member(LEARNER)
    group.turn(leader)
    group.nodes["l"].start()
    group.run(0.5)
    group.partition({other}, {leader.name, "l"})
    promoted = leader.driver.promote("l")
    group.turn(leader)
    group.run_until(lambda: leader.driver.commit_index >= promoted, 1)
    group.propose(leader.name, b"by the third")
    group.run_until(lambda: leader.driver.commit_index > promoted, 1)
    nobody_leads_before_the_third_is_back(group, leader, first, "(not reached: l)")


def test_without_asking_whom_the_candidate_knows_it_is_lost(monkeypatch) -> None:
    """The safeguard's ablation: only whom the own log names is asked."""

    def is_decided(state: State, _candidate: str) -> bool:
        return all(unknown_ends._says_the_same(state, peer) for peer in state.peers)

    monkeypatch.setattr(unknown_ends, "_is_decided_by_two", is_decided)
    with pytest.raises((ViolationError, AssertionError)):
        test_a_third_voter_whom_only_the_other_one_knows_is_waited_for(1)


@pytest.mark.parametrize("name", ["may_stand", "_is_decided_by_two"])
def test_without_asking_who_the_voters_are_it_is_lost(name: str, monkeypatch) -> None:
    """The safeguard's ablation: for who stands, and for who votes."""
    monkeypatch.setattr(unknown_ends, name, lambda *_arguments: True)
    with pytest.raises((ViolationError, AssertionError)):
        test_what_was_confirmed_with_a_new_third_voter_is_not_given_up(1)


def noted_and_rotten(seed: int, count: int = 1) -> tuple[SimulatedGroup, SimulatedNode, str]:
    """A pair whose leader has lost an entry that was noted as durable; the other never had it."""
    group, leader, other = serving(PAIR, seed)
    group.partition({leader.name}, {other})
    for _ in range(count):
        store_unconfirmed(group, leader)
    journal = leader.journal
    journal.ballot_file.save_floor(journal.durable_index, journal.durable_chain)
    crash_all(group)
    lose_the_end(leader, journal.last_index)
    group.heal()
    return group, leader, other


@pytest.mark.parametrize("seed", range(1, 7))
@pytest.mark.parametrize("count", [1, 3])
def test_an_end_that_was_noted_as_durable_and_never_confirmed(seed: int, count: int) -> None:
    """
    It is damage, not perhaps a torn write. But the other one, who lost nothing, never had it.

    Nor had it what is left before the damage, which is no reason to wait for it.
    """
    group, leader, _ = noted_and_rotten(seed, count)
    for name in "ab":
        group.restart(name)
    assert leader.driver.status().damaged

    goes_on(group, "ab")
    for name in "ab":
        assert () == group.nodes[name].driver.status().damaged
        group.crash(name)
        group.restart(name)
    goes_on(group, "ab")


def test_a_noted_end_that_both_have_lost_is_an_operators_decision() -> None:
    """It may have been confirmed; who has noted it is named behind the one that goes on."""
    group, leader, other = serving(PAIR, 1)
    store_unconfirmed(group, leader, other)
    journal = leader.journal
    journal.ballot_file.save_floor(journal.durable_index, journal.durable_chain)
    crash_all(group)
    for name in "ab":
        lose_the_end(group.nodes[name], group.nodes[name].journal.last_index)
        group.restart(name)
    group.run(15)
    assert group.leader() is None
    said = leader.driver.status().unknown_end
    assert (
        f"(all are reached). If that lasts, 'holdfast cluster promote {other} {leader.name}" in said
    )

    group.nodes[other].driver.promote_force([leader.driver.status().log_end])
    group.turn(group.nodes[other])
    goes_on(group, "ab")


def test_who_is_left_alone_with_a_lost_noted_end_goes_on_by_force() -> None:
    """As the status says; and it is over then, also after a crash."""
    group, leader, other = noted_and_rotten(1)
    group.restart(leader.name)
    group.run(15)
    said = leader.driver.status().unknown_end
    assert f"'holdfast cluster promote {leader.name} --force'" in said

    leader.driver.promote_force()
    group.turn(leader)
    del group.nodes[other]
    goes_on(group, leader.name)
    group.crash(leader.name)
    group.restart(leader.name)
    goes_on(group, leader.name)


def test_of_three_an_operator_decides(caplog) -> None:
    """With the third one dead, what it may have confirmed with either is not known; it is told."""
    group, leader, _ = serving([*PAIR, Member("c", "c:1")], 3)
    others = [name for name in "abc" if name != leader.name]
    store_unconfirmed(group, leader, *others)
    crash_all(group)
    for name in "ab":
        lose_the_end(group.nodes[name], group.nodes[name].journal.last_index)
        group.restart(name)
    group.run(15)
    assert group.leader() is None
    for name in "ab":
        said = group.nodes[name].driver.status().unknown_end
        assert "3 of 3 votes (not reached: c)" in said
        assert "'holdfast cluster promote a b --force'" in said
        assert caplog.text.count(said) >= 1

    ends = {name: group.nodes[name].driver.status().log_end for name in "ab"}
    chief, companion = sorted("ab", key=lambda name: ends[name].position, reverse=True)
    group.nodes[chief].driver.promote_force([ends[companion]])
    group.turn(group.nodes[chief])
    del group.nodes["c"]
    goes_on(group, "ab")

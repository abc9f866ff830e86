"""Tests of testing/simulated_group.py: the group repeats itself, and its checkers see."""

from __future__ import annotations

import pytest

from holdfast.replication.membership import Member
from trials.simulation.simulated_group import SimulatedGroup, Trouble, ViolationError

THREE = [Member(name, f"{name}:1") for name in "abc"]


def started(seed: int = 1, **trouble: float) -> SimulatedGroup:
    group = SimulatedGroup(THREE, seed=seed, trouble=Trouble(**trouble))
    group.start()
    group.run_until(lambda: group.leader() is not None, 10)
    return group


def test_the_same_seed_gives_the_same_run() -> None:
    """Every message, in its order: that is what makes a failure repeatable."""
    runs = []
    for _ in range(2):
        group = SimulatedGroup(THREE, seed=5, trouble=Trouble(loss=0.1, late=0.1))
        told: list[str] = []
        group.trace = lambda source, target, message, told=told: told.append(
            f"{source}{target}{message}"
        )
        group.start()
        group.run(3)
        runs.append(told)

    assert runs[0] == runs[1]
    assert runs[0]


def test_what_is_proposed_reaches_everybody() -> None:
    """With a perfect network, within a heartbeat."""
    group = started()
    leader = group.leader()
    assert leader is not None

    index = group.propose(leader.name, b"hello")
    group.run(0.3)

    assert b"hello" == group.checker.confirmed[index]
    assert [[b"hello"]] * 3 == [node.taken for node in group.nodes.values()]
    group.checker.check_end()


def test_a_power_cut_loses_what_was_not_synced() -> None:
    """An entry proposed a moment before is gone with the leader's disk cache."""
    group = started(sync_seconds_min=0.1, sync_seconds_max=0.1)
    leader = group.leader()
    assert leader is not None
    index = group.propose(leader.name, b"hello")

    for name in group.nodes:
        group.crash(name, power=True)
    group.restart(leader.name)

    assert leader.journal.last_index < index


def test_two_leaders_of_a_term_are_seen() -> None:
    """The checker names both."""
    group = started()
    leader = group.leader()
    assert leader is not None
    group.checker.leaders[leader.driver.term] = "somebody else"

    with pytest.raises(ViolationError, match="two leaders"):
        group.checker.check(leader)


def test_a_lost_entry_is_seen() -> None:
    """What was committed once must be there at the end."""
    group = started()
    group.checker.committed[1] = b"another chain"

    with pytest.raises(ViolationError, match="lost the committed entry 1"):
        group.checker.check_end()


def test_a_condition_that_never_holds_is_a_violation() -> None:
    """With the seed, so that it can be repeated."""
    with pytest.raises(ViolationError, match="seed 1"):
        started().run_until(lambda: False, 0.1)

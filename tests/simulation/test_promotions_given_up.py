"""
A promotion by force that never comes to lead, as one that was named does not answer, and what the
operator does instead: the furthest of all goes on, and the first one with it.

What the first act wanted binds nobody then. A member that it would have shut out was shut out for
good by the node that was taken along itself; and that node ended as it had to cut a change of
members of before, since it took its own act for a part of its log.
"""

from __future__ import annotations

import pytest

from holdfast.replication.membership import Member
from holdfast.replication.promotion import LogEnd
from holdfast.replication.state import State
from trials.simulation.simulated_group import SimulatedGroup, SimulatedNode

FAR = "lmn"


def far_site(*, has_change: bool = False) -> SimulatedGroup:
    """
    Three learners whose main site is lost, and who do not reach each other.

    With a change, l has one of the members that was never committed, m nothing since, n the most.
    """
    main = [Member(name, f"{name}:1") for name in "abc"]
    learners = [Member(name, f"{name}:1", "learner") for name in FAR]
    group = SimulatedGroup([*main, *learners])
    group.start()
    group.run_until(lambda: group.leader() is not None, 10)
    if has_change:
        group.run(1)
        leader = group.leader()
        assert leader is not None
        group.crash("m")
        group.partition({leader.name, "l"})
        leader.driver.add_member(Member("z", "z:1", "learner"))
        group.turn(leader)
        group.run(0.05)
        group.crash(leader.name)
        group.partition({"l"})
        group.run_until(lambda: group.leader() is not None, 10)
        for number in range(3):
            group.propose(group.leader().name, b"%d" % number)  # type: ignore[union-attr]
    group.run(1)
    for name in "abc":
        group.crash(name)
    group.restart("m")
    group.partition(*[{name} for name in FAR])
    group.run(3)
    group.connect_soon = lambda _name: None  # type: ignore[method-assign]
    return group


def ends(group: SimulatedGroup, *names: str) -> list[LogEnd]:
    found = [group.nodes[name].driver.status().log_end for name in names]
    return [end for end in found if end is not None]


def promote(group: SimulatedGroup, name: str, companions: str) -> SimulatedNode:
    node = group.nodes[name]
    node.driver.promote_force(ends(group, *companions), wall_microseconds=int(group.now * 1e6))
    group.turn(node)
    group.run(0.5)
    return node


def meet(group: SimulatedGroup, dialer: str, other: str) -> None:
    group.cut = set()
    group.unlink(dialer, other, closed=True)
    group.run(0.01)
    group._introduce(group.nodes[dialer], group.nodes[other])
    group.run(0.3)


def given_up_by_l(*, has_change: bool, chief: str, rest: str) -> SimulatedGroup:
    """The operator named m with l, which does not answer; then all three turn out to be there."""
    group = far_site(has_change=has_change)
    assert not promote(group, "l", "m").driver.is_leader
    promote(group, chief, "l" + rest)
    meet(group, chief, "l")
    meet(group, rest, "l")
    meet(group, chief, rest)
    group.run_until(lambda: group.leader() is not None, 10)
    return group


def test_it_shuts_nobody_out_who_goes_on_with_it() -> None:
    """Of n, that the first act left out, it knew that all who are not named are dead."""
    group = given_up_by_l(has_change=False, chief="m", rest="n")

    assert "m" == group.leader().name  # type: ignore[union-attr]
    assert ["", "", ""] == [group.nodes[name].fenced for name in FAR]
    group.run(2)
    kinds = {it.name: it.kind for it in group.membership_of(group.nodes["l"])}
    assert ["voter"] * 3 == [kinds[name] for name in FAR]


def test_a_change_of_before_can_still_be_cut() -> None:
    """The act stands in no log; what ruled before the change is what the log says of it."""
    group = given_up_by_l(has_change=True, chief="n", rest="m")
    group.run(2)

    assert "n" == group.leader().name  # type: ignore[union-attr]
    assert group.nodes["n"].taken == group.nodes["l"].taken
    assert "z" not in {it.name for it in group.membership_of(group.nodes["l"])}


def test_whom_it_left_out_may_be_named_when_it_is_repeated() -> None:
    """It never led, and shut nobody out who has not heard of it."""
    group = far_site()
    assert not promote(group, "l", "m").driver.is_leader
    promote(group, "l", "n")
    meet(group, "n", "l")
    group.run_until(lambda: group.leader() is not None, 10)
    group.run(2)

    assert ("l", 2) == (group.leader().name, group.nodes["n"].driver.generation)  # type: ignore[union-attr]
    kinds = {it.name: it.kind for it in group.membership_of(group.nodes["n"])}
    assert ["voter", "fenced", "voter"] == [kinds[name] for name in FAR]
    group.restart("m")
    meet(group, "m", "l")
    assert group.nodes["m"].fenced


def test_these_tests_see_what_was_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the act rules on, the one is shut out and the other one ends."""

    def rule_on(state: State) -> None:
        state.forced = None
        state.awaited.clear()

    monkeypatch.setattr(State, "forget_forced", rule_on)
    with pytest.raises(AssertionError, match="two changes of members"):
        given_up_by_l(has_change=True, chief="n", rest="m")
    group = far_site()
    promote(group, "l", "m")
    promote(group, "m", "ln")
    meet(group, "m", "l")
    meet(group, "n", "l")
    assert "removed or replaced" in group.nodes["n"].fenced

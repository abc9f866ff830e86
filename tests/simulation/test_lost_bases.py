"""
The oldest segment's header block is lost, which alone says what stood before the log's first entry.

Cleaning had moved the log's beginning, so nobody else need have that entry any more.
"""

from __future__ import annotations

import pytest

from holdfast.journal.entry import HEADER_BYTES
from holdfast.replication.membership import Member
from trials.simulation.simulated_group import SimulatedGroup

HEADER_BIT = 40 * 8


def cleaned_group(*, absent: str | None = None) -> SimulatedGroup:
    """Three voters whose logs begin with a later segment; one may be gone since the first."""
    group = SimulatedGroup([Member(name, f"{name}:1", "voter", "") for name in "abc"], seed=3)
    group.start()
    group.run_until(lambda: group.leader() is not None, 20)
    group.run(1)
    if absent is not None:
        while group.leader().name == absent:  # type: ignore[union-attr]
            group.crash(absent)
            group.run_until(lambda: group.leader() is not None, 20)
            group.restart(absent)
        group.crash(absent)
    for count in (300, 50):
        for number in range(count):
            group.run_until(lambda: group.leader() is not None, 20)
            group.propose(group.leader().name, b"m%d" % number + b"x" * 1000)  # type: ignore[union-attr]
            group.run(0.01)
        group.leader().driver.repropose_config()  # type: ignore[union-attr]
        group.run(1)
    for node in group.nodes.values():
        if node.is_alive:
            node.journal.drop_before(node.driver.reclaim_limit)
            node.journal.housekeeper.turn()
            node._writer.save_floor()
            assert node.journal.first_index > 1
    group.checker.check = lambda node: None  # type: ignore[method-assign]  # it reads what is lost
    return group


def lose_base(group: SimulatedGroup, name: str, *, with_entry: bool) -> None:
    """A bit of the header block rots, and with `with_entry` one of the entry behind it."""
    node = group.nodes[name]
    segment = node.journal.segments()[0]
    place = node.journal.place_of(segment.base_index)
    group.crash(name)
    node.disk.flip_bit(segment.path, HEADER_BIT)
    if with_entry:
        node.disk.flip_bit(place.path, (place.byte + HEADER_BYTES + 50) * 8)


@pytest.mark.promise("F18")
def test_a_follower_mends_what_stands_behind_a_lost_base() -> None:
    """It compares nothing with what it does not know, and ended again and again for it."""
    group = cleaned_group()
    victim = next(name for name in "abc" if name != group.leader().name)  # type: ignore[union-attr]
    lose_base(group, victim, with_entry=True)
    group.restart(victim)
    node = group.nodes[victim]
    assert node.driver._state.log.damaged
    group.run_until(lambda: not node.driver._state.log.damaged, 10)
    assert node.driver._state.log.base is None
    group.propose(group.leader().name, b"more")  # type: ignore[union-attr]
    group.run(1)
    assert node.journal.last_index == group.leader().journal.last_index  # type: ignore[union-attr]


@pytest.mark.promise("F18")
def test_a_leader_tells_nobody_to_begin_at_a_base_it_does_not_know(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Who lacks that much hears that it leads, and is served as soon as another one does."""
    group = cleaned_group(absent="c")
    lose_base(group, "a", with_entry=False)
    group.restart("a")
    while group.leader() is None or group.leader().name != "a":  # type: ignore[union-attr]
        group.run_until(lambda: group.leader() is not None, 20)
        if group.leader().name == "b":  # type: ignore[union-attr]
            group.crash("b")
            group.restart("b")
        group.run(1)
    late, before = group.nodes["c"], group.nodes["a"].driver.term
    group.restart("c")
    group.run(5)
    assert group.leader().name == "a"  # type: ignore[union-attr]
    assert (group.nodes["a"].driver.term, late.journal.first_index) == (before, 1)
    assert caplog.text.count("let another node lead") == 1
    group.crash("a")
    group.run_until(lambda: late.journal.last_index > 300, 20)
    first = group.nodes["b"].journal.first_index
    assert late.journal.previous(first) == group.nodes["b"].journal.previous(first)

"""
A damaged entry whose place another node has filled otherwise, and that node is asked for a copy.

A leader that is cut off writes on; the others elect a new one, which puts other entries into the
same places. Then one of those is damaged on the victim's disk, and for a moment the victim hears of
nobody but the deposed leader, which has its own to offer. What stands there in the end must be what
was committed, or nothing yet: the trouble looks itself, as a spoilt disk excuses its node from
other checks. Counted when the deposed leader can be asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.errors import CorruptEntryError
from holdfast.journal.scan import Damage
from holdfast.testing.damage import distrust, spoil_entry
from holdfast.testing.history import ViolationError
from holdfast.testing.rare_trouble import RareTrouble

if TYPE_CHECKING:
    from holdfast.testing.faults import Nemesis, Plan
    from holdfast.testing.simulated_node import SimulatedNode

OTHER_COPY = "another copy offered for a damaged entry"
_APART_SECONDS = 1.5
"""Longer than an election takes."""
_ASK_SECONDS = 0.35
"""Long enough to be asked, shorter than the shortest election timeout."""


def part(nemesis: Nemesis) -> bool:
    """Cut the leader off, unless it is the victim."""
    world = nemesis.world
    leader, victim = world.leader(), nemesis.victim()
    if leader is None or victim is None or leader is victim or not victim.is_running:
        return False
    if leader.driver.is_witness or world.network.cut:
        return False
    world.network.cut |= _pairs(nemesis, leader)
    world.note("network", f"parts {leader.name} from all others, who elect another leader")
    world.timeline.after(_APART_SECONDS, _spoil, nemesis, leader, leader.life)
    return False


def _pairs(nemesis: Nemesis, node: SimulatedNode) -> set[tuple[str, str]]:
    others = [it.name for it in nemesis.world.nodes if it is not node]
    return {(node.name, it) for it in others} | {(it, node.name) for it in others}


def _spoil(nemesis: Nemesis, deposed: SimulatedNode, life: int) -> None:
    """Damage on the victim's disk what the deposed leader has otherwise, and let them meet."""
    world, victim = nemesis.world, nemesis.victim()
    if not nemesis.is_active:
        return
    world.network.cut -= _pairs(nemesis, deposed)
    is_there = deposed.is_running and deposed.life == life
    if victim is None or not victim.is_running or not is_there or victim.journal.damage:
        return
    index = _differing(nemesis, victim, deposed)
    if not index:
        return
    distrust(nemesis, victim)
    spoil_entry(nemesis, victim, index)
    place = victim.journal.place_of(index)
    victim.tell_damage([Damage(place.path.name, place.byte, index, "a bit flipped")])
    victim.conductor.schedule()
    apart = _pairs(nemesis, victim) - {(victim.name, deposed.name), (deposed.name, victim.name)}
    apart |= _pairs(nemesis, deposed) - {(victim.name, deposed.name), (deposed.name, victim.name)}
    world.network.cut |= apart
    world.count(OTHER_COPY)
    world.timeline.after(_ASK_SECONDS, _look, nemesis, victim, victim.life, index, apart)


def _differing(nemesis: Nemesis, victim: SimulatedNode, deposed: SimulatedNode) -> int:
    """Give the first committed entry that the victim has stored and the deposed leader has not."""
    chains = nemesis.world.checkers.commit_chains
    ours, theirs = victim.journal, deposed.journal
    first = max(ours.first_index, theirs.first_index)
    for index in range(first, min(ours.stored_index, theirs.last_index) + 1):
        known = chains.get(index)
        try:
            if known == ours.chain_at(index) and known != theirs.chain_at(index):
                return index
        except CorruptEntryError:
            continue
    return 0


def _look(
    nemesis: Nemesis, victim: SimulatedNode, life: int, index: int, apart: set[tuple[str, str]]
) -> None:
    world = nemesis.world
    world.network.cut -= apart
    if not victim.is_alive or victim.life != life or not nemesis.is_active:
        return
    journal = victim.journal
    if not journal.first_index <= index <= journal.last_index:
        return
    try:
        chain = journal.entry(index).chain
    except CorruptEntryError:
        return
    if chain != world.checkers.commit_chains.get(index):
        raise ViolationError("S17", f"{victim.name} mends entry {index} with another one")


def _with_time_for_it(plan: Plan) -> None:
    plan.chaos_seconds = max(plan.chaos_seconds, 5.0)


TROUBLES = (
    RareTrouble(
        name=OTHER_COPY,
        act=part,
        chance=0.15,
        topologies=("three", "five", "learner"),
        needs_victim=True,
        prepare=_with_time_for_it,
    ),
)

"""
A damaged entry whose place another node has filled otherwise, and that node is asked for a copy.

A leader that is cut off writes on; the others elect a new one, which puts other entries into the
same places. Then one of those is damaged on the victim's disk, and for a moment the victim hears of
nobody but the deposed leader, which has its own to offer. What stands there in the end must be what
was committed, or nothing yet: the trouble looks itself, as a spoilt disk excuses its node from
other checks. Counted when the deposed leader can be asked.

A second kind loses two headers and starts the victim anew: what stands between them is lost too,
and the deposed leader has another history from the entry before on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.errors import CorruptEntryError
from holdfast.journal.damage import Damage
from holdfast.journal.entry import HEADER_BYTES
from trials.simulation.damage import distrust, spoil_entry
from trials.simulation.history import ViolationError
from trials.simulation.rare_trouble import RareTrouble

if TYPE_CHECKING:
    from collections.abc import Callable

    from trials.simulation.faults import Nemesis, Plan
    from trials.simulation.simulated_node import SimulatedNode

OTHER_COPY = "another copy offered for a damaged entry"
OTHER_RUN = "another history offered for a run of lost entries"
_RUN_MAX = 8
_APART_SECONDS = 1.5
"""Longer than an election takes."""
_ASK_SECONDS = 0.35
"""Long enough to be asked, shorter than the shortest election timeout."""


def part(nemesis: Nemesis) -> bool:
    """Cut the leader off, unless it is the victim; then one entry of the victim's is spoilt."""
    return _part(nemesis, _spoil)


def part_for_long(nemesis: Nemesis) -> bool:
    """The same, and a run of the victim's entries is lost."""
    return _part(nemesis, _spoil_run)


def _part(nemesis: Nemesis, spoil: Callable[[Nemesis, SimulatedNode, int], None]) -> bool:
    world = nemesis.world
    leader, victim = world.leader(), nemesis.victim()
    if leader is None or victim is None or leader is victim or not victim.is_running:
        return False
    if leader.driver.is_witness or world.network.cut:
        return False
    world.network.cut |= _pairs(nemesis, leader)
    world.note("network", f"parts {leader.name} from all others, who elect another leader")
    world.timeline.after(_APART_SECONDS, spoil, nemesis, leader, leader.life)
    return False


def _pairs(nemesis: Nemesis, node: SimulatedNode) -> set[tuple[str, str]]:
    others = [it.name for it in nemesis.world.nodes if it is not node]
    return {(node.name, it) for it in others} | {(it, node.name) for it in others}


def _spoil(nemesis: Nemesis, deposed: SimulatedNode, life: int) -> None:
    """Damage on the victim's disk what the deposed leader has otherwise, and let them meet."""
    found = _met_again(nemesis, deposed, life)
    if found is None:
        return
    victim, index = found
    distrust(nemesis, victim)
    spoil_entry(nemesis, victim, index)
    place = victim.journal.place_of(index)
    victim.tell_damage([Damage(place.path.name, place.byte, index, "a bit flipped")])
    victim.conductor.schedule()
    nemesis.world.count(OTHER_COPY)
    _let_meet(nemesis, victim, deposed, range(index, index + 1))


def _spoil_run(nemesis: Nemesis, deposed: SimulatedNode, life: int) -> None:
    """Lose the header of that entry and of one a little behind it, and let them meet."""
    found = _met_again(nemesis, deposed, life)
    if found is None:
        return
    victim, index = found
    last = min(index + nemesis.chance.randrange(1, _RUN_MAX), victim.journal.stored_index - 1)
    if last <= index:
        return
    places = [victim.journal.place_of(it) for it in (index, last)]
    distrust(nemesis, victim)
    victim.stop(power=False)
    for place in places:
        bit = nemesis.chance.randrange(HEADER_BYTES * 8)
        victim.disk.flip_bit(place.path, place.byte * 8 + bit)
    nemesis.world.note(victim.name, f"loses the headers of entries {index} and {last}")
    victim.start()
    if victim.is_alive:
        nemesis.world.count(OTHER_RUN)
        _let_meet(nemesis, victim, deposed, range(index, last + 1))


def _met_again(
    nemesis: Nemesis, deposed: SimulatedNode, life: int
) -> tuple[SimulatedNode, int] | None:
    """Give the victim, and the first entry that the deposed leader has otherwise."""
    world, victim = nemesis.world, nemesis.victim()
    if not nemesis.is_active:
        return None
    world.network.cut -= _pairs(nemesis, deposed)
    is_there = deposed.is_running and deposed.life == life
    if victim is None or not victim.is_running or not is_there or victim.journal.damage:
        return None
    index = _differing(nemesis, victim, deposed)
    return (victim, index) if index else None


def _let_meet(
    nemesis: Nemesis, victim: SimulatedNode, deposed: SimulatedNode, indexes: range
) -> None:
    """For a while the two hear of nobody else."""
    apart = _pairs(nemesis, victim) - {(victim.name, deposed.name), (deposed.name, victim.name)}
    apart |= _pairs(nemesis, deposed) - {(victim.name, deposed.name), (deposed.name, victim.name)}
    nemesis.world.network.cut |= apart
    nemesis.world.timeline.after(_ASK_SECONDS, _look, nemesis, victim, victim.life, indexes, apart)


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
    nemesis: Nemesis, victim: SimulatedNode, life: int, indexes: range, apart: set[tuple[str, str]]
) -> None:
    world = nemesis.world
    world.network.cut -= apart
    if not victim.is_alive or victim.life != life or not nemesis.is_active:
        return
    journal = victim.journal
    for index in indexes:
        if not journal.first_index <= index <= journal.last_index:
            continue
        try:
            chain = journal.entry(index).chain
        except CorruptEntryError:
            continue
        # What is committed of a run: behind it stands what the victim alone has written as leader.
        if chain != world.checkers.commit_chains.get(index, chain):
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
    RareTrouble(
        name=OTHER_RUN,
        act=part_for_long,
        chance=0.1,
        topologies=("three", "five", "learner"),
        needs_victim=True,
        prepare=_with_time_for_it,
    ),
)

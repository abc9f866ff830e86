"""
Changes of members that are cut short, and strangers who are in the members' way.

A leader that is cut off takes a voter out; nobody hears of it, another one leads, and the change is
cut from the log. The third voter may die before the old leader is let back.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from holdfast.errors import HoldfastError
from trials.simulation.rare_trouble import RareTrouble

if TYPE_CHECKING:
    from trials.simulation.faults import Nemesis, Plan
    from trials.simulation.simulated_node import SimulatedNode

REMOVAL = "voter removed by a leader that is cut off"
HARMLESS_CUT = "link between the leader and one voter cut"
CROWD = "strangers crowd a peer port"
MISTAKE = "node started with other settings than the others"
MISTAKEN_LEAD = "node with other settings is asked to lead"
_SECONDS = (0.8, 2.0)
"""How long it is cut off; an election takes half a second to one."""
_LOOK_SECONDS = 0.25
"""How often an operator asks for the lead of a node that must not have it."""
_ALONE_SECONDS = 2.5
"""For so long such a node is cut off if it has it all the same: it leads on for two seconds."""


def _remove_cut_off(nemesis: Nemesis) -> bool:
    leader = nemesis.world.leader()
    if leader is None:
        return False
    views = leader.driver.status().members
    voters = [view.name for view in views if view.kind == "voter"]
    # Should it be committed after all: who leaves must leave two whole copies behind.
    spoilt = nemesis.plan.victim
    names = [name for name in voters if name != leader.name and spoilt in {"", name}]
    if len(voters) != 3 or not names:
        return False
    name = nemesis.chance.choice(names)
    others = [node.name for node in nemesis.world.nodes if node is not leader]
    try:
        leader.driver.remove_member(name)
    except HoldfastError as error:
        nemesis.world.note("operator", f"is refused: {error}")
        return False
    nemesis.world.network.cut_between([leader.name], others)
    nemesis.world.network.cut_between(others, [leader.name])
    nemesis.world.note("operator", f"removes {name}; {leader.name} is cut off")
    leader.conductor.schedule()
    third = next(it for it in voters if it not in {leader.name, name})
    seconds = nemesis.chance.uniform(*_SECONDS)
    nemesis.world.timeline.after(seconds, _meet, nemesis, leader, name, third)
    return False  # Counted when another one leads before anybody heard of it.


def _meet(nemesis: Nemesis, old: SimulatedNode, removed: str, third: str) -> None:
    """Let the old leader back, perhaps when only the one that it removed is left."""
    world = nemesis.world
    if not nemesis.is_active:
        return
    leader = world.leader()
    if leader is not None and leader is not old and removed not in world.checkers.left:
        world.count(REMOVAL)
        if leader.name == removed:
            world.count("the voter to be removed leads")
            world.network.nodes[third].stop(power=False)
    world.network.heal()


def _cut_one_voter(nemesis: Nemesis) -> bool:
    """The leader keeps a majority, and the cut off voter hears of it from the others only."""
    world = nemesis.world
    leader = world.leader()
    voters = {member.name for member in nemesis.plan.members if member.is_voter}
    names = [it.name for it in world.nodes if it is not leader and it.name in voters]
    cut_off = {name for pair in world.network.cut for name in pair}
    if leader is None or cut_off:
        return False
    name = nemesis.chance.choice(names)
    world.network.cut_between([leader.name], [name])
    world.network.cut_between([name], [leader.name])
    world.note("network", f"parts {leader.name}, which leads, from {name} only")
    world.timeline.after(nemesis.chance.uniform(2.6, 4.0), world.network.heal)
    return True


def _crowd(nemesis: Nemesis) -> bool:
    """Strangers hold all the places that a node's peer port has, also after all was healed."""
    network = nemesis.world.network
    names = [node.name for node in nemesis.world.nodes if node.name not in network.ports.crowded]
    if not names or len(nemesis.world.nodes) < 2:
        return False
    name = nemesis.chance.choice(names)
    network.ports.crowded.add(name)
    nemesis.world.note("network", f"has {name} crowded by strangers")
    node = network.nodes[name]
    if nemesis.chance.random() < 0.5:
        node.stop(power=False)
    return True


def _start_with_other_settings(nemesis: Nemesis) -> bool:
    """One node is told to wait four times as long for a leader, and so to lead on for as long."""
    node = nemesis.leader_or_any()
    if node is None or any(other.mistaken_settings for other in nemesis.world.nodes):
        return False
    right = nemesis.world.replication_settings
    node.stop(power=False)
    node.mistaken_settings = replace(
        right,
        election_seconds_min=4 * right.election_seconds_min,
        election_seconds_max=4 * right.election_seconds_max,
    )
    nemesis.world.note("operator", f"starts {node.name} with other election times")
    node.start()
    nemesis.world.timeline.after(nemesis.chance.uniform(1.0, 4.0), start_rightly, node)
    return True


def _let_a_mistaken_one_lead(nemesis: Nemesis) -> bool:
    """The same, and an operator asks for it to be given the lead: nobody may be linked to it."""
    is_started = _start_with_other_settings(nemesis)
    if is_started:
        (node,) = (it for it in nemesis.world.nodes if it.mistaken_settings)
        nemesis.world.timeline.after(_LOOK_SECONDS, _ask_to_lead, nemesis, node, node.life)
    return is_started


def _ask_to_lead(nemesis: Nemesis, node: SimulatedNode, life: int) -> None:
    """Ask until it is started rightly; should it lead, it is cut off and leads on in its time."""
    world = nemesis.world
    leader = world.leader()
    if not nemesis.is_active or node.life != life or not node.is_alive:
        return
    if leader is node:
        others = [other.name for other in world.nodes if other is not node]
        pairs = {(node.name, it) for it in others} | {(it, node.name) for it in others}
        pairs -= world.network.cut
        world.network.cut |= pairs
        world.note("network", f"parts {node.name} from all others, which leads in its own time")
        world.timeline.after(_ALONE_SECONDS, _join_again, nemesis, pairs)
        return
    if leader is not None:
        try:
            leader.driver.transfer(node.name)
        except HoldfastError as error:
            world.note("operator", f"is refused: {error}")
        else:
            leader.conductor.schedule()
    world.timeline.after(_LOOK_SECONDS, _ask_to_lead, nemesis, node, life)


def _join_again(nemesis: Nemesis, pairs: set[tuple[str, str]]) -> None:
    nemesis.world.network.cut -= pairs


def start_rightly(node: SimulatedNode) -> None:
    """Start a node again with what the others have, if it was told otherwise."""
    is_mistaken = node.mistaken_settings is not None
    node.mistaken_settings = None
    if is_mistaken and node.is_alive:
        node.stop(power=False)
        node.start()


def _without_an_ending(plan: Plan) -> None:
    # The endings count on three voters.
    plan.ending = ""


TROUBLES = (
    RareTrouble(
        name=REMOVAL,
        act=_remove_cut_off,
        chance=0.2,
        weight=8,
        topologies=("three", "learner"),
        prepare=_without_an_ending,
    ),
    RareTrouble(name=CROWD, act=_crowd, chance=0.1),
    RareTrouble(
        name=MISTAKE,
        act=_start_with_other_settings,
        chance=0.06,
        topologies=("three", "learner", "witness", "five"),
    ),
    RareTrouble(
        name=MISTAKEN_LEAD,
        act=_let_a_mistaken_one_lead,
        chance=0.03,
        topologies=("three", "learner", "witness", "five"),
    ),
    RareTrouble(
        name=HARMLESS_CUT,
        act=_cut_one_voter,
        chance=0.06,
        topologies=("three", "learner", "witness"),
    ),
)

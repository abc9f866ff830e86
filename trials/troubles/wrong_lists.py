"""
One node is started with a list of members that is not the others', before there is a cluster.

Nobody may form one until the operator has started it again with the right list; then all of them
form the same. The trouble looks itself: who forms a cluster of his own, on a wrong list or of those
that have the right one, is found at the moment of the correction.
"""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

from holdfast.replication.membership import Member, Membership
from trials.simulation.history import ViolationError
from trials.simulation.rare_trouble import RareTrouble

if TYPE_CHECKING:
    from trials.simulation.faults import Nemesis, Plan
    from trials.simulation.simulated_node import SimulatedNode
    from trials.simulation.simulator import Simulation

WRONG_LIST = "node started with another list of members"
UNTOLD_SITE = "site in one list only, which its own node was not told"
_UNTOLD_SITE_CHANCE = 0.25
_SECONDS = (0.15, 0.45)
"""Until it is corrected: all have met by then, and the chaos has not begun."""


def mislead_one(world: Simulation) -> None:
    """Tell one node, not started yet, other members than the others."""
    chance = random.Random(f"{world.seed}:wrong list")  # noqa: S311 - to be repeated
    node = chance.choice(world.nodes)
    right = node.bootstrap
    node.bootstrap = _mistaken(right, node.name, chance)
    apart = random.Random(f"{world.seed}:{UNTOLD_SITE}")  # noqa: S311 - to be repeated
    if not any(it.site for it in right.members) and apart.random() < _UNTOLD_SITE_CHANCE:
        world.count(UNTOLD_SITE)
        node.bootstrap = _with_untold_site(right, node.name, apart)
    world.note("operator", f"starts {node.name} with a wrong list: {_told(node.bootstrap)}")
    world.timeline.after(chance.uniform(*_SECONDS), _correct, world, node, right)


def _mistaken(right: Membership, name: str, chance: random.Random) -> Membership:
    """The list with one slip in it."""
    others = [it for it in right.members if it.name != name]
    other = chance.choice(others)
    rest = [it for it in right.members if it is not other]
    slips: list[list[Member]] = [
        [*rest, replace(other, address=f"{other.name}:2")],
        [*rest, replace(other, kind="voter" if other.kind == "witness" else "witness")],
        [*rest, replace(other, name=f"{other.name}{other.name}")],
        [*rest, replace(other, site="elsewhere" if other.site else "")],
        [*right.members, Member("z", "z:1")],
        rest if len(rest) > 1 else [*right.members, Member("z", "z:1")],
    ]
    found = Membership(tuple(chance.choice(slips)))
    return found if found != right else Membership(tuple(slips[0]))


def _with_untold_site(right: Membership, name: str, chance: random.Random) -> Membership:
    """The list with a site in it that only this node was told of."""
    other = chance.choice([it for it in right.members if it.name != name])
    placed = replace(other, site="elsewhere")
    return Membership(tuple(placed if it is other else it for it in right.members))


def _told(membership: Membership) -> str:
    return ", ".join(f"{it.name}={it.address},{it.kind},{it.site}" for it in membership.members)


def _correct(world: Simulation, node: SimulatedNode, right: Membership) -> None:
    formed = [it.name for it in world.nodes if it.is_alive and it.driver.hello.cluster_id]
    if formed:
        raise ViolationError("S1", f"{', '.join(formed)} formed a cluster on lists that differ")
    node.stop(power=False)
    node.bootstrap = right
    world.note("operator", f"starts {node.name} with the right list")
    node.start()
    world.count(WRONG_LIST)


def _happens_at_the_start(_nemesis: Nemesis) -> bool:
    return False


def _mislead(plan: Plan) -> None:
    plan.is_one_misled = True


TROUBLES = (
    RareTrouble(
        name=WRONG_LIST,
        act=_happens_at_the_start,
        chance=0.06,
        weight=1,
        topologies=("two", "three", "witness", "learner", "five"),
        prepare=_mislead,
    ),
)

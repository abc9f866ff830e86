"""
Nodes of all the versions there ever were: upgraded by a level or two, taken back, and upgraded.

Each begins as a version that knows some level of the log's format. Now and then an operator starts
one as a later version, or as an earlier one that still knows what the log has reached as far as
anybody shows. What is asked for meanwhile he does not see: then the node ends, and tells why. At
the end all are of the newest version. Worth it with whatever writes what the levels bring: what
comes back, what is moved, policies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.model.format_level import NEWEST_LEVEL
from trials.simulation.levels import become
from trials.simulation.rare_trouble import RareTrouble

if TYPE_CHECKING:
    from trials.simulation.faults import Nemesis, Plan

MIXED = "node becomes another version"
BACK = "node becomes an earlier version"
_UP_CHANCE = 0.7


def change(nemesis: Nemesis) -> bool:
    """Start one node as another version."""
    world, chance = nemesis.world, nemesis.chance
    running = [node for node in world.nodes if node.is_running and node.is_built]
    if not running:
        return False
    node = chance.choice(running)
    known = node.known_format_level
    if chance.random() < _UP_CHANCE:
        level = min(NEWEST_LEVEL, known + chance.choice((1, 1, 2)))
    else:
        reached = max(it.broker.state.format_level for it in running)
        level = chance.randrange(min(reached, known), known + 1)
    if level == known:
        return False
    world.note("operator", f"starts {node.name}, which knew level {known}, as of level {level}")
    become(node, level)
    if level < known:
        world.count(BACK)
    return True


def _prepare(plan: Plan) -> None:
    plan.is_mixed_at_first = True
    plan.chaos_seconds = max(plan.chaos_seconds, 7.0)
    plan.operations = max(plan.operations, 1_500)


TROUBLES = (RareTrouble(name=MIXED, act=change, chance=0.0, weight=6, prepare=_prepare),)

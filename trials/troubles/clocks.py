"""
Wall clocks that jump by weeks: a machine that was set wrongly, or is set right after long.

The log's timestamps come from the leader's wall clock, and producers that have not sent for long by
them are forgotten. Counted when a node leads by a clock that is weeks off, and when an entry of the
committed log is weeks from the one before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trials.simulation.rare_trouble import RareTrouble

if TYPE_CHECKING:
    from trials.simulation.faults import Nemesis
    from trials.simulation.simulator import Simulation

_WEEK_SECONDS = 7 * 24 * 3600.0
_LOOK_SECONDS = 0.3
WEEKS = "wall clock jumps by weeks"
LEADING = "leader's wall clock is weeks off"


def jump(nemesis: Nemesis) -> bool:
    """Set one machine's wall clock weeks ahead or back, or right again."""
    world = nemesis.world
    node = nemesis.leader_or_any()
    if node is None:
        return False
    before = node.clock.wall_offset_seconds
    node.clock.wall_offset_seconds = nemesis.chance.choice((-5, -2, 0, 1.5, 3)) * _WEEK_SECONDS
    world.timeline.after(_LOOK_SECONDS, _look, world)
    return abs(node.clock.wall_offset_seconds - before) > _WEEK_SECONDS


def _look(world: Simulation) -> None:
    leader = world.leader()
    if leader is not None and abs(leader.clock.wall_offset_seconds) > _WEEK_SECONDS:
        world.count(LEADING)


TROUBLES = (RareTrouble(name=WEEKS, act=jump, chance=0.06),)

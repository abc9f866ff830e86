"""
Disks that hang: what they are asked to write is not done, and nobody is told.

Unlike a failed sync, which ends the process, and a slow one, which returns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trials.simulation.rare_trouble import RareTrouble

if TYPE_CHECKING:
    from trials.simulation.faults import Nemesis, Plan
    from trials.simulation.simulated_node import SimulatedNode


def hang(nemesis: Nemesis) -> bool:
    """A disk hangs for up to twice the time after which its node gives it up."""
    node = _choose(nemesis)
    if node is None:
        return False
    longest = 2 * nemesis.world.replication_settings.disk_hang_seconds
    seconds = nemesis.chance.uniform(0.2, longest)
    nemesis.world.timeline.after(seconds, _thaw, node, node.life)
    return True


def hang_for_good(nemesis: Nemesis) -> bool:
    """A disk hangs until its process is ended, or all is healed."""
    return _choose(nemesis) is not None


def _choose(nemesis: Nemesis) -> SimulatedNode | None:
    node = nemesis.leader_or_any()
    if node is None or any(other.is_disk_hanging for other in nemesis.world.nodes):
        return None
    node.hang_disk()
    return node


def _thaw(node: SimulatedNode, life: int) -> None:
    if node.life == life:
        node.thaw_disk()


def _leave_hanging(plan: Plan) -> None:
    plan.is_disk_left_hanging = True


TROUBLES = (
    RareTrouble(name="disk hangs", act=hang, chance=0.06),
    RareTrouble(
        name="disk hangs for good",
        act=hang_for_good,
        chance=0.05,
        weight=2,
        topologies=("three", "five"),
        prepare=_leave_hanging,
    ),
)

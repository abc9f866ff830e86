"""
An init system starts again what was shut out, on the disk that it has, before an operator looks.

In other worlds each such disk is emptied first. Here only at the second end, or when the node dies
next: until then what stands on that disk takes part in whatever else goes on, and must do no harm.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trials.simulation.rare_trouble import RareTrouble

if TYPE_CHECKING:
    from trials.simulation.faults import Nemesis, Plan
    from trials.simulation.simulated_node import SimulatedNode

AS_IT_IS = "shut out and started again on the same disk"


def is_started_as_it_is(node: SimulatedNode) -> bool:
    """Whether a node that was shut out is started without anything having been done to its disk."""
    world = node.world
    is_due = AS_IT_IS in world.plan.kinds and node.ended_by == "FencedError"
    if not is_due or node.started_as_it_is == node.disk_number:
        return False
    node.started_as_it_is = node.disk_number
    world.count(AS_IT_IS)
    return True


def _happens_when_one_is_shut_out(_nemesis: Nemesis) -> bool:
    return False


def _prepare(plan: Plan) -> None:
    plan.kinds[AS_IT_IS] = 1  # Whatever else has left of them.


TROUBLES = (
    RareTrouble(
        name=AS_IT_IS, act=_happens_when_one_is_shut_out, chance=0.08, weight=1, prepare=_prepare
    ),
)

"""
The power fails between two steps of a reset: a replica begins its log anew, and its machine dies.

A node sleeps until the log has turned over. When it wakes it is told to begin anew; the power fails
at one of the steps in which its writer notes that, moves the old files and begins the new one.
Counted when that is sure to happen: the writer has the job, and the step is set.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.journal.jobs import ResetJob
from trials.simulation.rare_trouble import RareTrouble, let_the_log_turn_over
from trials.troubles.long_sleeps import sleep

if TYPE_CHECKING:
    from trials.simulation.faults import Nemesis, Plan
    from trials.simulation.simulated_node import SimulatedNode

CUT_RESET = "power cut in a reset"
_LOOK_SECONDS = 0.0005
_STEPS_MAX = 16
"""A reset of some files takes about so many steps."""


def cut_the_next_reset(nemesis: Nemesis) -> bool:
    """Put a node to sleep, and cut its power in the reset that it is told to do."""
    sleep(nemesis)
    node = next((it for it in nemesis.world.nodes if it.is_alive and it.is_paused), None)
    if node is not None:
        nemesis.world.timeline.after(_LOOK_SECONDS, _look, nemesis, node, node.life)
    return False


def _look(nemesis: Nemesis, node: SimulatedNode, life: int) -> None:
    if node.life != life or not node.is_alive or not nemesis.is_active or node.disk.cut_at:
        return
    if not any(isinstance(job, ResetJob) for job in node.writing):
        nemesis.world.timeline.after(_LOOK_SECONDS, _look, nemesis, node, life)
        return
    node.disk.cut_at = node.disk.operations + nemesis.chance.randrange(1, _STEPS_MAX + 1)
    nemesis.world.count(CUT_RESET)


def _with_a_small_log(plan: Plan) -> None:
    let_the_log_turn_over(plan, CUT_RESET)


TROUBLES = (
    RareTrouble(
        name=CUT_RESET,
        act=cut_the_next_reset,
        chance=0.05,
        topologies=("three", "five"),
        prepare=_with_a_small_log,
    ),
)

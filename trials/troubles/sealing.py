"""
Batches that are sealed over several turns, and a leader that is struck while it does so.

It crashes, is paused until another leads, or is asked to hand over: what is being sealed is in no
log, its numbers are given and nobody was told. Counted for each leader that was struck so.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from holdfast.errors import HoldfastError
from trials.simulation.rare_trouble import RareTrouble

if TYPE_CHECKING:
    from trials.simulation.faults import Nemesis, Plan
    from trials.simulation.simulated_node import SimulatedNode

    Strike = Callable[[Nemesis, SimulatedNode], None]

STRUCK = "leader struck while it seals"
_RECORDS_MAX = 2
_LOOK_SECONDS = 0.001
_LOOKS_MAX = 400
_PAUSE_SECONDS = 1.5


def lie_in_wait(nemesis: Nemesis) -> bool:
    """Strike the leader as soon as it is in the middle of sealing."""
    leader = nemesis.world.leader()
    if leader is not None:
        how = nemesis.chance.choice((_hand_over, _crash, _pause))
        nemesis.world.timeline.after(_LOOK_SECONDS, _look, nemesis, leader, how, _LOOKS_MAX)
    return False


def _look(nemesis: Nemesis, leader: SimulatedNode, how: Strike, looks: int) -> None:
    if not (leader.is_running and nemesis.is_active and looks):
        return
    if leader.conductor.sealer.under_way is None:
        nemesis.world.timeline.after(_LOOK_SECONDS, _look, nemesis, leader, how, looks - 1)
        return
    nemesis.world.count(STRUCK)
    how(nemesis, leader)


def _hand_over(nemesis: Nemesis, leader: SimulatedNode) -> None:
    try:
        leader.driver.transfer(None)
    except HoldfastError as error:
        nemesis.world.note("operator", f"is refused: {error}")


def _crash(_nemesis: Nemesis, leader: SimulatedNode) -> None:
    leader.stop(power=False)


def _pause(nemesis: Nemesis, leader: SimulatedNode) -> None:
    """Longer than the others wait before they elect another."""
    leader.pause()
    nemesis.world.note(leader.name, "is paused while it seals")
    nemesis.world.timeline.after(_PAUSE_SECONDS, _resume, leader, leader.life)


def _resume(leader: SimulatedNode, life: int) -> None:
    if leader.life == life:
        leader.resume()


def _in_steps(plan: Plan) -> None:
    plan.seal_records_max = _RECORDS_MAX
    plan.slice_seconds = 0.0


TROUBLES = (RareTrouble(name=STRUCK, act=lie_in_wait, chance=0.08, weight=6, prepare=_in_steps),)

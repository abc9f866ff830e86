"""
Hand-overs that come to nothing: who was to take over cannot be reached, and the leader goes on.

Counted when it was given up and the same leadership serves again, not when it was asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.errors import HoldfastError
from trials.simulation.rare_trouble import RareTrouble

if TYPE_CHECKING:
    from trials.simulation.faults import Nemesis
    from trials.simulation.simulated_node import SimulatedNode

GIVEN_UP = "hand-over given up"


def hand_over_in_vain(nemesis: Nemesis) -> bool:
    """Ask for a hand-over to a node that hears nothing of it; tell once it was given up."""
    world = nemesis.world
    leader = world.leader()
    if leader is None:
        return False
    try:
        target = leader.driver.transfer(None)
    except HoldfastError as error:
        world.note("operator", f"is refused: {error}")
        return False
    pairs = {(leader.name, target), (target, leader.name)} - world.network.cut
    world.network.cut |= pairs
    leader.conductor.schedule()
    seconds = world.replication_settings.transfer_seconds_max + 0.1
    world.timeline.after(seconds, _look, nemesis, leader, (leader.life, leader.driver.term), pairs)
    return False


def _look(
    nemesis: Nemesis, leader: SimulatedNode, before: tuple[int, int], pairs: set[tuple[str, str]]
) -> None:
    world = nemesis.world
    world.network.cut -= pairs
    if leader.is_alive and (leader.life, leader.driver.term) == before and leader.driver.is_serving:
        world.count(GIVEN_UP)


TROUBLES = (RareTrouble(name=GIVEN_UP, act=hand_over_in_vain, chance=0.06),)

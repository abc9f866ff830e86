"""
Clients whose messages have priorities; they join at the first stroke, and more consumers later.

Drawn in no seed by itself: plans that are made for it have it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trials.simulation.priority_clients import PRIORITIES, PriorityConsumer, PriorityProducer
from trials.simulation.rare_trouble import RareTrouble

if TYPE_CHECKING:
    from trials.simulation.faults import Nemesis

_COUNT_MAX = 3


def begin_to_rank(nemesis: Nemesis) -> bool:
    """Let them come, or one more."""
    world = nemesis.world
    there = sum(isinstance(client, PriorityConsumer) for client in world.clients)
    if there >= _COUNT_MAX:
        return False
    if not there:
        world.clients.append(PriorityProducer(world, "k0"))
    world.clients.append(PriorityConsumer(world, f"k{there + 1}"))
    return True


TROUBLES = (RareTrouble(name=PRIORITIES, act=begin_to_rank, chance=0.0),)

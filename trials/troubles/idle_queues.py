"""
Clients whose queues go while nobody uses them; they join at the first stroke.

Drawn in no seed by itself: plans that are made for it have it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trials.simulation.idle_clients import IDLE, QUEUES, IdleConsumer, IdleProducer
from trials.simulation.rare_trouble import RareTrouble

if TYPE_CHECKING:
    from trials.simulation.faults import Nemesis


def begin_to_idle(nemesis: Nemesis) -> bool:
    """Let them come."""
    world = nemesis.world
    if any(isinstance(client, IdleProducer) for client in world.clients):
        return False
    world.clients.append(IdleProducer(world, "i0"))
    world.clients += [
        IdleConsumer(world, f"i{number}", queue) for number, queue in enumerate(QUEUES, 1)
    ]
    return True


TROUBLES = (RareTrouble(name=IDLE, act=begin_to_idle, chance=0.0),)

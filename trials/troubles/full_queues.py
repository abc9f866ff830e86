"""
Clients whose queue keeps the newest messages; they join at the first stroke.

Drawn in no seed by itself: plans that are made for it have it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trials.simulation.rare_trouble import RareTrouble
from trials.simulation.ring_clients import RING, RingConsumer, RingProducer

if TYPE_CHECKING:
    from trials.simulation.faults import Nemesis

_COUNT = 2


def begin_to_drop(nemesis: Nemesis) -> bool:
    """Let them come."""
    world = nemesis.world
    if any(isinstance(client, RingProducer) for client in world.clients):
        return False
    world.clients.append(RingProducer(world, "r0"))
    world.clients += [RingConsumer(world, f"r{number}") for number in range(1, _COUNT + 1)]
    return True


TROUBLES = (RareTrouble(name=RING, act=begin_to_drop, chance=0.0),)

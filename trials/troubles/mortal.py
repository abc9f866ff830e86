"""
Clients whose messages expire; they join at the first stroke.

Drawn in no seed by itself: plans that are made for it have it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trials.simulation.mortal_clients import MORTAL, MortalConsumer, MortalProducer
from trials.simulation.rare_trouble import RareTrouble

if TYPE_CHECKING:
    from trials.simulation.faults import Nemesis

_COUNT = 2


def begin_to_expire(nemesis: Nemesis) -> bool:
    """Let them come."""
    world = nemesis.world
    if any(isinstance(client, MortalConsumer) for client in world.clients):
        return False
    world.clients.append(MortalProducer(world, "e0"))
    world.clients += [MortalConsumer(world, f"e{number}") for number in range(1, _COUNT + 1)]
    return True


TROUBLES = (RareTrouble(name=MORTAL, act=begin_to_expire, chance=0.0),)

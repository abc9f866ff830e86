"""
Consumers that want to be the only one of a queue; they join at the first stroke.

Drawn in no seed by itself: plans that are made for it have it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trials.simulation.rare_trouble import RareTrouble
from trials.simulation.sole_consumers import SOLE, SoleConsumer

if TYPE_CHECKING:
    from trials.simulation.faults import Nemesis

_COUNT = 3


def want_to_be_the_only_one(nemesis: Nemesis) -> bool:
    """Let them come."""
    world = nemesis.world
    if any(isinstance(client, SoleConsumer) for client in world.clients):
        return False
    world.clients += [SoleConsumer(world, f"s{number}") for number in range(1, _COUNT + 1)]
    return True


TROUBLES = (RareTrouble(name=SOLE, act=want_to_be_the_only_one, chance=0.0),)

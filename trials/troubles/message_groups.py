"""
Clients whose messages are in groups; they join at the first stroke, and one more consumer later.

Drawn in no seed by itself: plans that are made for it have it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trials.simulation.group_clients import GROUPS, GroupConsumer, GroupProducer
from trials.simulation.rare_trouble import RareTrouble

if TYPE_CHECKING:
    from trials.simulation.faults import Nemesis

_COUNT = 2
_COUNT_MAX = 4


def begin_to_group(nemesis: Nemesis) -> bool:
    """Let them come, or one more."""
    world = nemesis.world
    there = sum(isinstance(client, GroupConsumer) for client in world.clients)
    if there >= _COUNT_MAX:
        return False
    if not there:
        world.clients.append(GroupProducer(world, "g0"))
    for number in range(there + 1, (there or _COUNT) + 1 + bool(there)):
        world.clients.append(GroupConsumer(world, f"g{number}"))
    return True


TROUBLES = (RareTrouble(name=GROUPS, act=begin_to_group, chance=0.0),)

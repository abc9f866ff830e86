"""
Clients that subscribe by wildcards; they join at the first stroke.

Drawn in no seed by itself: plans that are made for it have it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trials.simulation.rare_trouble import RareTrouble
from trials.simulation.wildcard_clients import WANTED, WILD, WildConsumer, WildProducer

if TYPE_CHECKING:
    from trials.simulation.faults import Nemesis


def subscribe_by_wildcards(nemesis: Nemesis) -> bool:
    """Let them come."""
    world = nemesis.world
    if any(isinstance(client, WildProducer) for client in world.clients):
        return False
    world.clients.append(WildProducer(world, "w0"))
    world.clients += [
        WildConsumer(world, f"w{number}", number) for number in range(1, len(WANTED) + 1)
    ]
    return True


TROUBLES = (RareTrouble(name=WILD, act=subscribe_by_wildcards, chance=0.0),)

"""
Clients some of whose messages, in groups or not, kill whoever gets them; they join at the first
stroke.

Drawn in no seed by itself: plans that are made for it have it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trials.simulation.poison_clients import (
    POISONED,
    POISONED_CHOICE,
    POISONED_GROUPS,
    PoisonChooser,
    PoisonConsumer,
    PoisonGroupConsumer,
    PoisonProducer,
)
from trials.simulation.rare_trouble import RareTrouble

if TYPE_CHECKING:
    from trials.simulation.faults import Nemesis

_COUNT = 2


def poison(nemesis: Nemesis) -> bool:
    """Let them come; told of each that dies, and of each poison that is found."""
    world = nemesis.world
    if not any(isinstance(client, PoisonProducer) for client in world.clients):
        world.clients.append(PoisonProducer(world, "p9"))
        for number in range(1, _COUNT + 1):
            world.clients.append(PoisonConsumer(world, f"p9c{number}"))
    return False


def poison_in_groups(nemesis: Nemesis) -> bool:
    """Let them come, with messages in groups."""
    world = nemesis.world
    if not any(isinstance(client, PoisonProducer) for client in world.clients):
        world.clients.append(PoisonProducer(world, "p9", has_groups=True))
        for number in range(1, _COUNT + 1):
            world.clients.append(PoisonGroupConsumer(world, f"p9c{number}"))
    return False


def poison_the_choice(nemesis: Nemesis) -> bool:
    """Let them come, each with a selector."""
    world = nemesis.world
    if not any(isinstance(client, PoisonProducer) for client in world.clients):
        world.clients.append(PoisonProducer(world, "p9", has_kinds=True))
        for number in range(_COUNT + 1):
            world.clients.append(PoisonChooser(world, f"p9c{number + 1}", number))
    return False


TROUBLES = (
    RareTrouble(name=POISONED_CHOICE, act=poison_the_choice, chance=0.0),
    RareTrouble(name=POISONED, act=poison, chance=0.0),
    RareTrouble(name=POISONED_GROUPS, act=poison_in_groups, chance=0.0),
)

"""
Durable subscriptions that keep the newest; they join at the first stroke, with who sends to them.

Drawn in no seed by itself: plans that are made for it have it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trials.simulation.cut_clients import CUT, CutConsumer, CutTopicProducer
from trials.simulation.rare_trouble import RareTrouble

if TYPE_CHECKING:
    from trials.simulation.faults import Nemesis

_COUNT = 2


def begin_to_cut(nemesis: Nemesis) -> bool:
    """Let all come, once."""
    world = nemesis.world
    if any(isinstance(client, CutConsumer) for client in world.clients):
        return False
    world.clients += [CutConsumer(world, f"cut{number}") for number in range(1, _COUNT + 1)]
    world.clients.append(CutTopicProducer(world, "headlines0"))
    return True


TROUBLES = (RareTrouble(name=CUT, act=begin_to_cut, chance=0.0),)

"""
Consumers that stop working for a while, where that ends them; they join at the first stroke.

Drawn in no seed by itself: plans that are made for it have it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trials.simulation.durable_clients import TopicProducer
from trials.simulation.rare_trouble import RareTrouble
from trials.simulation.stalling_clients import (
    STALLED,
    STALLED_TOPIC,
    StalledProducer,
    StallingConsumer,
    StallingDurable,
    SteadyConsumer,
)

if TYPE_CHECKING:
    from trials.simulation.faults import Nemesis


def begin_to_stall(nemesis: Nemesis) -> bool:
    """Let them come."""
    world = nemesis.world
    if not any(isinstance(client, StalledProducer) for client in world.clients):
        world.clients += [
            StalledProducer(world, "st0"),
            StallingConsumer(world, "st1"),
            StallingConsumer(world, "st2"),
            SteadyConsumer(world, "st3"),
            StallingDurable(world, "st4"),
            TopicProducer(world, "st5", STALLED_TOPIC),
        ]
    return False


TROUBLES = (RareTrouble(name=STALLED, act=begin_to_stall, chance=0.0),)

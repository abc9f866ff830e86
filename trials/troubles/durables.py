"""
Durable subscriptions of a topic, one joins at each stroke; then those who send to it.

Drawn in no seed by itself: plans that are made for it have it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trials.simulation.durable_clients import (
    DURABLE,
    DurableConsumer,
    FickleConsumer,
    SelfishConsumer,
    TopicProducer,
    TopicTransactions,
)
from trials.simulation.rare_trouble import RareTrouble

if TYPE_CHECKING:
    from trials.simulation.faults import Nemesis


def begin_to_keep(nemesis: Nemesis) -> bool:
    """Let all come, once."""
    world = nemesis.world
    if any(isinstance(client, DurableConsumer) for client in world.clients):
        return False
    world.clients.append(DurableConsumer(world, "keeper1"))
    world.clients.append(DurableConsumer(world, "keeper2", kind="gold"))
    world.clients.append(FickleConsumer(world, "keeper3", kind="tin"))
    world.clients.append(SelfishConsumer(world, "keeper4"))
    world.clients.append(TopicProducer(world, "prices0"))
    world.clients.append(TopicTransactions(world, "prices1"))
    return True


TROUBLES = (RareTrouble(name=DURABLE, act=begin_to_keep, chance=0.0),)

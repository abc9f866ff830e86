"""
Durable subscriptions of a wildcard, one joins at each stroke; then those who send what it means.

Drawn in no seed by itself: plans that are made for it have it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trials.simulation.durable_clients import DurableConsumer, FickleConsumer, TopicTransactions
from trials.simulation.rare_trouble import RareTrouble
from trials.simulation.wild_durable_clients import (
    ALL,
    DIRECT,
    ONE,
    TOGETHER,
    WILD_DURABLE,
    RatesProducer,
)

if TYPE_CHECKING:
    from trials.simulation.faults import Nemesis


def begin_to_keep_all(nemesis: Nemesis) -> bool:
    """Let all come, once."""
    world = nemesis.world
    if any(isinstance(client, RatesProducer) for client in world.clients):
        return False
    world.clients.append(DurableConsumer(world, "watcher1", topic=ALL))
    world.clients.append(DurableConsumer(world, "watcher2", kind="gold", topic=ALL))
    world.clients.append(FickleConsumer(world, "watcher3", kind="tin", topic=DIRECT))
    world.clients.append(DurableConsumer(world, "watcher4", topic=ONE))
    world.clients.append(RatesProducer(world, "rates0"))
    world.clients.append(TopicTransactions(world, "rates1", ALL, TOGETHER))
    return True


TROUBLES = (RareTrouble(name=WILD_DURABLE, act=begin_to_keep_all, chance=0.0),)

"""
A producer that sends to a composite destination; it joins at the first stroke.

Drawn in no seed by itself: plans that are made for it have it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trials.simulation.composite_producer import COMPOSITE, CompositeProducer
from trials.simulation.rare_trouble import RareTrouble

if TYPE_CHECKING:
    from trials.simulation.faults import Nemesis


def send_to_composite(nemesis: Nemesis) -> bool:
    """Let it come."""
    world = nemesis.world
    if any(isinstance(client, CompositeProducer) for client in world.clients):
        return False
    world.clients.append(CompositeProducer(world, "e1"))
    return True


TROUBLES = (RareTrouble(name=COMPOSITE, act=send_to_composite, chance=0.0),)

"""
A producer that sends to several queues at once; it joins at the first stroke.

Drawn in no seed by itself: plans that are made for it have it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trials.simulation.rare_trouble import RareTrouble
from trials.simulation.several_producer import SEVERAL, SeveralProducer

if TYPE_CHECKING:
    from trials.simulation.faults import Nemesis


def send_to_several(nemesis: Nemesis) -> bool:
    """Let it come."""
    world = nemesis.world
    if any(isinstance(client, SeveralProducer) for client in world.clients):
        return False
    world.clients.append(SeveralProducer(world, "d1"))
    return True


TROUBLES = (RareTrouble(name=SEVERAL, act=send_to_several, chance=0.0),)

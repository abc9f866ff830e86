"""
Users come while a producer runs, and all call their producers alike.

Drawn in no seed by itself: plans that are made for it have it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trials.simulation.rare_trouble import RareTrouble
from trials.simulation.user_producers import USERS_CAME, UserProducer

if TYPE_CHECKING:
    from trials.simulation.faults import Nemesis


def let_users_come(nemesis: Nemesis) -> bool:
    """Let the first of them come."""
    world = nemesis.world
    if not any(isinstance(client, UserProducer) for client in world.clients):
        world.clients.append(UserProducer(world, "una", is_first=True))
    return False


TROUBLES = (RareTrouble(name=USERS_CAME, act=let_users_come, chance=0.0),)

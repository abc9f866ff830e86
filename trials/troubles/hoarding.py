"""
Consumers that keep messages for longer than the policy of their queue lets them; they join at the
first stroke.

Drawn in no seed by itself: plans that are made for it have it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trials.simulation.hoarding_consumer import HOARDED, HoardingConsumer
from trials.simulation.rare_trouble import RareTrouble

if TYPE_CHECKING:
    from trials.simulation.faults import Nemesis, Plan

_COUNT = 2


def hoard(nemesis: Nemesis) -> bool:
    """Let them come; told of each message that is kept."""
    world = nemesis.world
    if not any(isinstance(client, HoardingConsumer) for client in world.clients):
        world.clients += [HoardingConsumer(world, f"h{number}") for number in range(1, _COUNT + 1)]
    return False


def _last_longer(plan: Plan) -> None:
    plan.chaos_seconds = max(plan.chaos_seconds, 12.0)


TROUBLES = (RareTrouble(name=HOARDED, act=hoard, chance=0.0, prepare=_last_longer),)

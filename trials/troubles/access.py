"""
Users and grants that change under whatever else happens.

What must come of it `simulation.access_books` knows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trials.simulation.access_books import CHANGED, AccessBooks
from trials.simulation.rare_trouble import RareTrouble

if TYPE_CHECKING:
    from trials.simulation.faults import Nemesis, Plan


def change(nemesis: Nemesis) -> bool:
    """Let an operator change a user or grant; counted when it is confirmed."""
    world = nemesis.world
    if world.access is None:
        world.access = AccessBooks(world)
    world.access.change()
    return False


def _last_longer(plan: Plan) -> None:
    plan.chaos_seconds = max(plan.chaos_seconds, 4.0)


TROUBLES = (RareTrouble(name=CHANGED, act=change, chance=0.06, weight=8, prepare=_last_longer),)

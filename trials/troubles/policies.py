"""
Policies that change under whatever else happens: said by operators, said by files of higher
revisions, taken back; and leaders whose file is older than the log.

What must come of it `simulation.policy_books` knows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trials.simulation.policy_books import FILED, SAID, PolicyBooks
from trials.simulation.rare_trouble import RareTrouble

if TYPE_CHECKING:
    from trials.simulation.faults import Nemesis, Plan


def _books(nemesis: Nemesis) -> PolicyBooks:
    world = nemesis.world
    if world.policies is None:
        world.policies = PolicyBooks(world)
    return world.policies


def say(nemesis: Nemesis) -> bool:
    """Let an operator say something; counted when it is confirmed."""
    books = _books(nemesis)
    books.look()
    books.say()
    return False


def file(nemesis: Nemesis) -> bool:
    """Let a node be started again with another file; counted there."""
    books = _books(nemesis)
    books.look()
    books.file()
    return False


def _last_longer(plan: Plan) -> None:
    plan.chaos_seconds = max(plan.chaos_seconds, 4.0)


TROUBLES = (
    RareTrouble(name=SAID, act=say, chance=0.12, weight=8, prepare=_last_longer),
    RareTrouble(name=FILED, act=file, chance=0.08, weight=2, prepare=_last_longer),
)

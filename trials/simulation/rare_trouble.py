"""
A kind of trouble that a seed draws by a stream of its own.

The kinds of faults.py share one stream: one more changes what every seed means. A rare trouble does
not: whether a seed has it follows from the seed and its name alone.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from trials.simulation.faults import Nemesis, Plan
    from trials.simulation.simulator import Simulation
    from trials.simulation.workload import Client

_C = TypeVar("_C", bound="Client")


def nothing(_plan: Plan) -> None:
    """Change nothing of the plan."""


def let_the_log_turn_over(plan: Plan, name: str) -> None:
    """Give a seed this trouble alone, and a log so small that it turns over within the chaos."""
    plan.kinds = {name: 1}
    plan.victim = ""
    plan.segment_bytes = 16 * 1024
    plan.operations = max(plan.operations, 1_500)
    plan.chaos_seconds = max(plan.chaos_seconds, 12.0)
    # Else a broker that does one frame in a turn is never done with so much.
    plan.turn_seconds = min(plan.turn_seconds, 0.01)


def joined(world: Simulation, kind: type[_C], name: str) -> _C:
    """Give the client of this kind; at the first stroke it joins the world, under this name."""
    for client in world.clients:
        if isinstance(client, kind):
            return client
    client = kind(world, name)
    world.clients.append(client)
    return client


@dataclass(frozen=True, slots=True, kw_only=True)
class RareTrouble:
    """One kind of trouble: how often seeds have it, and what it does."""

    name: str
    act: Callable[[Nemesis], bool]
    """Strike once; whether it happened. What happens later is counted by `world.count`."""
    chance: float
    """The share of seeds, of those it is possible in, that have it; 0: only plans made for it."""
    weight: int = 3
    """How often it comes in such a seed, beside its other kinds."""
    topologies: tuple[str, ...] = ()
    """Where it is possible; empty for everywhere."""
    needs_victim: bool = False
    """It spoils what is durable, so only a seed with a victim may have it."""
    prepare: Callable[[Plan], None] = nothing
    """Bend the plan of a seed that has it."""

    def is_drawn(self, seed: int, plan: Plan) -> bool:
        """Whether this seed has it."""
        if self.topologies and plan.topology not in self.topologies:
            return False
        if self.needs_victim and not plan.victim:
            return False
        chance = random.Random(f"{seed}:{self.name}")  # noqa: S311 - to be repeated from a seed
        return chance.random() < self.chance

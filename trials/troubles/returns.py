"""
A consumer that sends messages back, at once or after a delay; it joins at the first stroke.

Drawn in no seed by itself: plans that are made for it have it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trials.simulation.rare_trouble import RareTrouble, joined
from trials.simulation.returning_consumer import RETURNED, ReturningConsumer

if TYPE_CHECKING:
    from trials.simulation.faults import Nemesis, Plan


def send_back(nemesis: Nemesis) -> bool:
    """Let them come; told of each message that is back."""
    joined(nemesis.world, ReturningConsumer, "r1")
    return False


def _last_longer(plan: Plan) -> None:
    plan.chaos_seconds = max(plan.chaos_seconds, 6.0)


TROUBLES = (RareTrouble(name=RETURNED, act=send_back, chance=0.0, prepare=_last_longer),)

"""
Ablations of what ends consumers that hold others up, and only those.

Who goes on working has a full window at every look; what tells it from one that has stopped is that
it said something in between. And what was taken from who is ended goes back.
"""

from __future__ import annotations

# ruff: noqa: SLF001 - an ablation replaces what is inside; that is what it is for
from typing import Any

from holdfast.broker.serving.durable import DurableQueue
from holdfast.broker.slowness import Slowness, Watched
from trials.safeguards.ablation import Ablation, Patch
from trials.simulation.faults import Plan
from trials.simulation.stalling_clients import STALLED

_TROUBLE = (STALLED, "crash", "transfer")


def _end_nobody() -> list[Patch]:
    return [(Slowness, "_end", lambda *_arguments: None)]


def _hear_nothing() -> list[Patch]:
    return [(Watched, "has_said_something", lambda _watched, _whole: False)]


def _overlook_durables() -> list[Patch]:
    rule_of = Slowness._rule_of

    def rule(slowness: Any, place: Any) -> Any:
        return None if isinstance(place, DurableQueue) else rule_of(slowness, place)

    return [(Slowness, "_rule_of", rule)]


def _often(plan: Plan) -> None:
    plan.kinds[STALLED] = 6
    plan.operations = max(plan.operations, 1_500)
    plan.chaos_seconds = max(plan.chaos_seconds, 14.0)


ABLATIONS = [
    Ablation("let those be slow who have stopped", _end_nobody, _TROUBLE, _often),
    Ablation("let those be slow who stop at a subscription", _overlook_durables, _TROUBLE, _often),
    Ablation("end those who go on working", _hear_nothing, _TROUBLE, _often),
]

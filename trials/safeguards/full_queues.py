"""
Ablations of what keeps a queue within its limit, and what somebody has on it.

What is too much goes in the entry that brings the new, and it is the oldest that nobody has.
"""

from __future__ import annotations

from holdfast.broker.limiting import Limiting
from holdfast.broker.moving import Moving
from holdfast.broker.serving.queue import Queue
from trials.safeguards.ablation import Ablation, Patch
from trials.simulation.faults import Plan
from trials.simulation.ring_clients import RING

_TROUBLE = (RING, "crash", "transfer")


def _drop_a_little_later() -> list[Patch]:
    return [(Limiting, "trim_before_batch_ends", lambda _self: None)]


def _drop_what_somebody_has() -> list[Patch]:
    def is_free(_self: Moving, queue: Queue, sequence: int) -> bool:
        return not queue.has_ended(sequence)

    return [(Moving, "is_free", is_free)]


def _often(plan: Plan) -> None:
    plan.kinds[RING] = 6
    plan.operations = max(plan.operations, 1_200)
    plan.chaos_seconds = max(plan.chaos_seconds, 6.0)


ABLATIONS = [
    Ablation("drop in an entry of its own", _drop_a_little_later, _TROUBLE, _often),
    Ablation("drop what somebody has", _drop_what_somebody_has, _TROUBLE, _often),
]

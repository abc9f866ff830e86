"""
Ablations of what makes one subscription of several queues.

What comes later is joined, what is in delivery counts together, and so does an acknowledgement.
"""

from __future__ import annotations

from holdfast.broker.bundling import Bundling
from holdfast.broker.serving.bundle import Bundle, Strand
from holdfast.broker.serving.late import settled_by
from holdfast.broker.serving.subscription import Subscription
from trials.safeguards.ablation import Ablation, Patch
from trials.simulation.faults import Plan
from trials.simulation.wildcard_clients import WILD

_TROUBLE = (WILD, "crash", "transfer")


def _only_what_is_there() -> list[Patch]:
    return [(Bundling, "_came", lambda _self, _destination: None)]


def _each_queue_for_itself() -> list[Patch]:
    def settles(_self: Bundle, strand: Strand, key: int) -> list[tuple[Subscription, list[int]]]:
        return [(strand, settled_by(strand, key))]

    return [(Bundle, "settled_by", settles)]


def _a_prefetch_for_each() -> list[Patch]:
    def room(self: Strand) -> int:
        return max(0, self.whole.prefetch - len(self.unacknowledged))

    return [(Strand, "_room", room)]


def _often(plan: Plan) -> None:
    plan.kinds[WILD] = 6
    plan.operations = max(plan.operations, 1_200)
    plan.chaos_seconds = max(plan.chaos_seconds, 6.0)


ABLATIONS = [
    Ablation("join only what is there", _only_what_is_there, _TROUBLE, _often),
    Ablation("acknowledge on one queue of several", _each_queue_for_itself, _TROUBLE, _often),
    Ablation("a prefetch for each queue of several", _a_prefetch_for_each, _TROUBLE, _often),
]

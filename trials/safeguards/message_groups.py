"""
Ablations of what keeps a message group in one hand while it changes its owner.

A bucket goes to who has come only when nothing of it is out.
"""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.broker.serving.consumer import Consumer
from holdfast.broker.serving.router.owners import Owners
from trials.safeguards.ablation import Ablation, Patch
from trials.simulation.faults import Plan
from trials.simulation.group_clients import GROUPS

_TROUBLE = (GROUPS, "crash", "transfer")


def _hand_over_at_once() -> list[Patch]:
    came = Owners.came

    def come(
        self: Owners, newcomer: Consumer, consumer_count: int, among: Iterable[int]
    ) -> list[int]:
        changed = came(self, newcomer, consumer_count, among)
        for bucket in changed:
            successor = self._moving.pop(bucket, None)
            if successor is not None:
                self._own(bucket, successor)
        return changed

    return [(Owners, "came", come)]


def _often(plan: Plan) -> None:
    plan.kinds[GROUPS] = 6
    plan.operations = max(plan.operations, 1_200)
    plan.chaos_seconds = max(plan.chaos_seconds, 6.0)


ABLATIONS = [
    Ablation("hand a message group over at once", _hand_over_at_once, _TROUBLE, _often),
]

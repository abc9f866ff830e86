"""
Ablations of what keeps a queue that nobody uses.

A message that the log has not yet is on its way to it: its sender will be told that it is stored.
"""

from __future__ import annotations

from holdfast.broker.removing import Removing
from trials.safeguards.ablation import Ablation, Patch
from trials.simulation.faults import Plan
from trials.simulation.idle_clients import IDLE

_TROUBLE = (IDLE, "crash", "transfer")


def _forget_what_is_on_its_way() -> list[Patch]:
    return [(Removing, "_is_awaited", staticmethod(lambda _queue: False))]


def _often(plan: Plan) -> None:
    plan.kinds[IDLE] = 6
    plan.operations = max(plan.operations, 1_200)
    plan.chaos_seconds = max(plan.chaos_seconds, 6.0)


ABLATIONS = [
    Ablation("delete a queue to which something goes", _forget_what_is_on_its_way, _TROUBLE, _often)
]

"""
Ablations of what durable subscriptions lose that keep the newest only.

Only what is too much goes, and nothing that its consumer has.
"""

from __future__ import annotations

from typing import Any

from holdfast.broker.lapsing import Lapsing
from holdfast.broker.lasting.view_index import Cut, ViewIndex
from trials.safeguards.ablation import Ablation, Patch
from trials.simulation.cut_clients import CUT
from trials.simulation.faults import Plan

_TROUBLE = (CUT, "crash", "transfer")


def _cut_too_much() -> list[Patch]:
    cut_some = ViewIndex.cut

    def cut(view: Any, count: int, size: int, chunks_max: int) -> Cut:
        return cut_some(view, 2 * count + 24, size, chunks_max)

    return [(ViewIndex, "cut", cut)]


def _cut_what_a_consumer_has() -> list[Patch]:
    return [
        (Lapsing, "_is_served", staticmethod(lambda _queue: False)),
        (Lapsing, "_has_let_go", lambda _self, _queue: True),
    ]


def _often(plan: Plan) -> None:
    plan.kinds[CUT] = 6
    plan.operations = max(plan.operations, 1_200)
    plan.chaos_seconds = max(plan.chaos_seconds, 6.0)


ABLATIONS = [
    Ablation("cut more than is too much", _cut_too_much, _TROUBLE, _often),
    Ablation("cut what a consumer has", _cut_what_a_consumer_has, _TROUBLE, _often),
]

"""
Ablations of what keeps two consumers from having messages at once where one is the only one.

Another one takes over only when nothing is held by whoever had them; what transactions hold counts.
"""

from __future__ import annotations

from holdfast.broker.serving.router.router import Router
from holdfast.broker.serving.router.sole import Sole
from trials.safeguards.ablation import Ablation, Patch
from trials.simulation.faults import Plan
from trials.simulation.sole_consumers import SOLE

_TROUBLE = (SOLE, "crash", "transfer")


def _begin_at_once() -> list[Patch]:
    def look(self: Sole, _count_max: int) -> bool:
        successor = self.successor
        assert successor is not None
        self.active, self.successor = successor, None
        self.ring.make_ready(successor)
        return True

    return [(Sole, "look", look)]


def _let_all_have_some() -> list[Patch]:
    return [(Router, "_goes_before", lambda _router, _newcomer: False)]


def _often(plan: Plan) -> None:
    plan.kinds[SOLE] = 6
    plan.operations = max(plan.operations, 1_200)
    plan.chaos_seconds = max(plan.chaos_seconds, 6.0)


ABLATIONS = [
    Ablation("let the next only consumer begin at once", _begin_at_once, _TROUBLE, _often),
    Ablation("let all have messages where one is the only", _let_all_have_some, _TROUBLE, _often),
]

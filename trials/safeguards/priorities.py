"""
Ablations of what lets messages of a higher priority go first, and be told from what nobody saw.

The log says of each which priority it has, whoever leads; and of a late one that goes first that it
may have been seen, without moving the mark over all that stands before it.
"""

from __future__ import annotations

from holdfast.broker.lasting.queue import LastingQueue
from holdfast.broker.routing import Routing
from trials.safeguards.ablation import Ablation, Patch
from trials.simulation.faults import Plan
from trials.simulation.priority_clients import PRIORITIES

_TROUBLE = (PRIORITIES, "crash", "transfer")


def _go_by_the_order_of_sending() -> list[Patch]:
    return [(Routing, "_order", lambda _routing, _queue: None)]


def _give_beyond_the_mark() -> list[Patch]:
    return [(LastingQueue, "may_be_sent", lambda _queue, _sequence: True)]


def _often(plan: Plan) -> None:
    plan.kinds[PRIORITIES] = 6
    plan.operations = max(plan.operations, 1_200)
    plan.chaos_seconds = max(plan.chaos_seconds, 6.0)


ABLATIONS = [
    Ablation("deliver in the order of sending", _go_by_the_order_of_sending, _TROUBLE, _often),
    Ablation("send beyond what the log says", _give_beyond_the_mark, _TROUBLE, _often),
]

"""
Ablations of what lets nothing expired go to anybody, and nothing go that has not expired.

What is over on its way out is taken back; what only comes to be looked at is asked for its time;
what was moved, or written again, has the time that it had.
"""

from __future__ import annotations

from holdfast.broker.expiring import Expiring
from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.serving.delivery import Step
from holdfast.broker.serving.expiry import Expiry
from holdfast.broker.serving.queue import Queue
from trials.safeguards.ablation import Ablation, Patch
from trials.simulation.faults import Plan
from trials.simulation.mortal_clients import MORTAL

_TROUBLE = (MORTAL, "crash", "transfer")


def _send_what_is_over() -> list[Patch]:
    def sift(_self: Expiring, _queue: Queue, step: Step) -> Step:
        return step

    def step_never(_self: Expiring, *_: object) -> bool:
        return False

    return [(Expiring, "sift", sift), (Expiring, "step", step_never)]


def _take_off_early() -> list[Patch]:
    def is_over(self: Expiry, key: int, now_ms: int) -> bool:
        return 0 < self.of(key) <= now_ms + 1_000

    return [(Expiry, "is_over", is_over)]


def _forget_the_times() -> list[Patch]:
    def note_mortal(*_: object) -> None:
        """Nothing expires, on no node."""

    return [(BrokerState, "note_mortal", note_mortal)]


def _often(plan: Plan) -> None:
    plan.kinds[MORTAL] = 6
    plan.operations = max(plan.operations, 1_200)
    plan.chaos_seconds = max(plan.chaos_seconds, 6.0)


ABLATIONS = [
    Ablation("deliver what has expired", _send_what_is_over, _TROUBLE, _often),
    Ablation("take messages off before their time", _take_off_early, _TROUBLE, _often),
    Ablation("forget when messages expire", _forget_the_times, _TROUBLE, _often),
]

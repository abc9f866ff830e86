"""
Ablations of what takes messages from consumers that have them for too long, and only from those.

What was in delivery for too long goes back, and what was delivered again has its time anew.
"""

from __future__ import annotations

from array import array

from holdfast.broker.serving.consumer import Consumer
from holdfast.broker.serving.time_limits import TimeLimits
from trials.safeguards.ablation import Ablation, Patch
from trials.simulation.faults import Plan
from trials.simulation.hoarding_consumer import HOARDED

_TROUBLE = (HOARDED, "crash", "transfer")


def _take_nothing() -> list[Patch]:
    return [(TimeLimits, "wake", lambda _limits, _count_max: (0, 0))]


def _take_at_half_the_time() -> list[Patch]:
    give = TimeLimits.give

    def hasty(self: TimeLimits, consumer: Consumer, keys: array[int]) -> None:
        limit_ms = consumer.delivery_ms_max
        consumer.delivery_ms_max = limit_ms // 2
        give(self, consumer, keys)
        consumer.delivery_ms_max = limit_ms

    return [(TimeLimits, "give", hasty)]


def _often(plan: Plan) -> None:
    plan.kinds[HOARDED] = 6
    plan.operations = max(plan.operations, 2_500)
    plan.chaos_seconds = max(plan.chaos_seconds, 12.0)


ABLATIONS = [
    Ablation("take nothing from who has it for too long", _take_nothing, _TROUBLE, _often),
    Ablation("take messages before their time is over", _take_at_half_the_time, _TROUBLE, _often),
]

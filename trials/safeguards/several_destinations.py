"""
Ablations of what keeps together what one SEND sent to several queues.

It stands in one entry of the log, and lives as long as it does on any of them.
"""

from __future__ import annotations

from typing import Any

from holdfast.broker import cleaning
from holdfast.broker.committing import Committing
from holdfast.server import cleaning as server_cleaning
from trials.safeguards.ablation import Ablation, Patch
from trials.simulation.faults import Plan
from trials.simulation.several_producer import SEVERAL

_TROUBLE = (SEVERAL, "crash", "power cut", "transfer")


def _one_by_one() -> list[Patch]:
    send_to_all: Any = Committing.send_to_all

    def send(self: Committing, destinations: Any, *rest: Any, **named: Any) -> bool:
        for each in destinations[1:]:
            send_to_all(self, (each,), *rest[:2], (rest[2][0], None), None, 0, **named)
            self._receipts.close_batch()
        return bool(send_to_all(self, destinations[:1], *rest, **named))

    return [(Committing, "send_to_all", send)]


def _by_the_first_place() -> list[Patch]:
    def lives(broker: Any, record: Any, number: int, leaving: Any) -> bool:
        queue_number, sequence = record.places[0]
        return cleaning.lives_at(broker, queue_number, sequence, number, leaving)

    return [(server_cleaning, "is_kept", lives)]


def _often(plan: Plan) -> None:
    plan.kinds[SEVERAL] = 6
    plan.operations = max(plan.operations, 1_200)
    plan.segment_bytes = 16 * 1024
    plan.chaos_seconds = max(plan.chaos_seconds, 8.0)


ABLATIONS = [
    Ablation("store on several queues one by one", _one_by_one, _TROUBLE, _often),
    Ablation("clean by the first place only", _by_the_first_place, _TROUBLE, _often),
]

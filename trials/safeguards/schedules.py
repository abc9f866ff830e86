"""
Ablations of what lets each time of a scheduled message be sent once.

What goes out stands in one entry with the next time; what is on its way is not sent again; and a
copy by the cleaner says the next time, as it is behind what is on its way.
"""

from __future__ import annotations

from holdfast.broker import cleaning
from holdfast.broker.firing import Firing
from holdfast.broker.receipts import Receipts
from holdfast.broker.serving.queue import Queue
from holdfast.model.records import FiredRecord, Record
from trials.safeguards.ablation import Ablation, Patch
from trials.safeguards.bends import turn_the_log_over
from trials.simulation.faults import Plan
from trials.simulation.schedule_clients import SCHEDULED

_TROUBLE = (SCHEDULED, "crash", "transfer")


def _say_apart_when_it_is_due_again() -> list[Patch]:
    plain = Receipts.record

    def record(self: Receipts, record: Record) -> None:
        if type(record) is FiredRecord:
            self.close_batch()
        plain(self, record)

    return [(Receipts, "record", record)]


def _send_again_what_is_on_its_way() -> list[Patch]:
    def note(self: Firing, queue: Queue, sequence: int, due_ms: int) -> None:
        del due_ms
        if queue.expiry is not None:
            queue.expiry.add([(sequence, queue.index.expires_ms(sequence))])

    return [(Firing, "_note", note)]


def _carry_on_the_first_time() -> list[Patch]:
    return [(cleaning, "_carry_due", lambda *_arguments: None)]


def _often(plan: Plan) -> None:
    plan.kinds[SCHEDULED] = 6
    plan.operations = max(plan.operations, 1_200)
    plan.chaos_seconds = max(plan.chaos_seconds, 6.0)


def _let_the_log_turn_over(plan: Plan) -> None:
    _often(plan)
    turn_the_log_over(plan)


ABLATIONS = [
    Ablation(
        "say in another entry when it is due again",
        _say_apart_when_it_is_due_again,
        _TROUBLE,
        _often,
    ),
    Ablation(
        "send again what is on its way to the log",
        _send_again_what_is_on_its_way,
        _TROUBLE,
        _often,
    ),
    Ablation(
        "write again with the first time",
        _carry_on_the_first_time,
        _TROUBLE,
        _let_the_log_turn_over,
    ),
]

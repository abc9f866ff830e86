"""
Ablations of what keeps messages that came back counted, and at rest until they are due.

The log says of each how often it came back and until when it rests: who leads next goes by that,
and what the cleaner writes again says it once more, with what is on its way.
"""

from __future__ import annotations

from holdfast.broker import cleaning
from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.receipts import Receipts
from holdfast.broker.serving.careful import Careful
from holdfast.broker.serving.plain import Plain
from holdfast.broker.serving.queue import Queue
from holdfast.model.records import ReturnedRecord
from trials.safeguards.ablation import Ablation, Patch
from trials.safeguards.bends import turn_the_log_over, turn_the_log_over_on_slow_disks
from trials.simulation.faults import Plan
from trials.simulation.returning_consumer import RETURNED

_TROUBLE = (RETURNED, "crash", "power cut", "transfer")


def _let_nothing_rest() -> list[Patch]:
    return [(Queue, "rest", lambda _queue, _key, _due_ms: None)]


def _forget_what_rests_with_its_leader() -> list[Patch]:
    return [(Careful, "next_key", Plain.next_key)]


def _count_nothing() -> list[Patch]:
    def apply(self: BrokerState, record: ReturnedRecord, _number: int) -> None:
        queue = self.queues.get(record.queue_number)
        if queue is not None and queue.listener is not None:
            queue.listener.returned(record.sequences, record.due_ms)

    return [(BrokerState, "_apply_returned", apply)]


def _write_again_without_counts() -> list[Patch]:
    return [(cleaning, "_carry", lambda _copy, _returned: None)]


def _write_again_without_what_is_on_its_way() -> list[Patch]:
    return [(Receipts, "returning", lambda _receipts: iter(()))]


def _often(plan: Plan) -> None:
    plan.kinds[RETURNED] = 6


def _let_the_log_turn_over(plan: Plan) -> None:
    _often(plan)
    turn_the_log_over(plan)


def _let_returns_be_long_on_their_way(plan: Plan) -> None:
    """Cleaning must meet one: disks are slow, and nothing but this is going on."""
    _often(plan)
    turn_the_log_over_on_slow_disks(plan)


ABLATIONS = [
    Ablation(
        "let nothing rest that is sent back with a delay", _let_nothing_rest, _TROUBLE, _often
    ),
    Ablation(
        "forget with its leader what rests", _forget_what_rests_with_its_leader, _TROUBLE, _often
    ),
    Ablation("count nothing that comes back", _count_nothing, _TROUBLE, _often),
    Ablation(
        "write again without how often it came back",
        _write_again_without_counts,
        _TROUBLE,
        _let_the_log_turn_over,
    ),
    Ablation(
        "write again without the return that is on its way",
        _write_again_without_what_is_on_its_way,
        (RETURNED,),
        _let_returns_be_long_on_their_way,
    ),
]

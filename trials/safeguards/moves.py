"""
Ablations of what keeps a moved message in one place, and its bytes in the log.

The bytes stand where the message was sent, and its slot elsewhere: the cleaner must find it there,
and nothing may pass it by on its way from one place to the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy

from holdfast.broker.lasting import state
from holdfast.broker.lasting.moving import apply_move
from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.moving import Moving
from holdfast.broker.receipts import Receipts
from holdfast.broker.serving.queue import Queue
from holdfast.model.records import MoveRecord
from holdfast.server import moved_contents
from trials.safeguards.ablation import Ablation, Patch
from trials.safeguards.bends import turn_the_log_over, turn_the_log_over_on_slow_disks
from trials.simulation.faults import Plan
from trials.troubles.moves import MOVED

_TROUBLE = (MOVED, "crash", "power cut", "transfer")


def _leave_it_where_it_was() -> list[Patch]:
    def apply(to: BrokerState, record: MoveRecord, number: int) -> None:
        kept = copy(record)
        kept.is_copy = True
        apply_move(to, kept, number)

    return [(state, "apply_move", apply)]


def _write_nothing_of_it_again() -> list[Patch]:
    return [(moved_contents, "moved_from", lambda *_arguments: iter(()))]


def _wait_for_no_move() -> list[Patch]:
    return [(Receipts, "newest_move", lambda _receipts: None)]


def _move_past_the_cleaner() -> list[Patch]:
    return [(Moving, "is_closed", lambda *_arguments: False)]


def _write_again_what_is_leaving() -> list[Patch]:
    def on_their_way(self: Receipts) -> Iterator[tuple[int, list[int]]]:
        for queue in self.acknowledged_queues:
            yield queue.number, queue.acknowledged
        for batch in self._batches():
            for record in batch.settling:
                if type(record) is not MoveRecord:
                    yield record.queue_number, record.sequences

    return [(Receipts, "_on_their_way", on_their_way)]


def _copy_what_is_leaving() -> list[Patch]:
    def lasting(_self: Moving, queue: Queue, sequences: Sequence[int]) -> list[int]:
        return [it for it in sequences if queue.index.is_live(it)]

    return [(Moving, "lasting", lasting)]


def _often(plan: Plan) -> None:
    plan.kinds[MOVED] = 12


def _let_the_log_turn_over(plan: Plan) -> None:
    _often(plan)
    turn_the_log_over(plan)


def _let_moves_be_long_on_their_way(plan: Plan) -> None:
    """Cleaning must meet one: disks are slow, and nothing but this is going on."""
    _often(plan)
    turn_the_log_over_on_slow_disks(plan)
    plan.pause_seconds = (0.02, 0.1)


ABLATIONS = [
    Ablation("leave what is moved where it was", _leave_it_where_it_was, _TROUBLE, _often),
    Ablation(
        "write nothing again of what was moved",
        _write_nothing_of_it_again,
        _TROUBLE,
        _let_the_log_turn_over,
    ),
    Ablation("copy what is acknowledged already", _copy_what_is_leaving, (MOVED,), _often),
    Ablation(
        "clean without waiting for what is being moved",
        _wait_for_no_move,
        (MOVED,),
        _let_moves_be_long_on_their_way,
    ),
    Ablation(
        "move what the cleaner has not come by yet",
        _move_past_the_cleaner,
        (MOVED,),
        _let_moves_be_long_on_their_way,
    ),
    Ablation(
        "write again what is being moved away",
        _write_again_what_is_leaving,
        (MOVED,),
        _let_moves_be_long_on_their_way,
    ),
]

"""
Ablations of what keeps the numbers of one user's producers from another's.

Each user has a room of his own, and what was numbered before there were users confirms nothing.
"""

from __future__ import annotations

from typing import Any

from holdfast.broker.serving.numbers_taken import NumbersTaken, Verdict
from holdfast.model.producer_ids import ROOM_ID, said_id
from holdfast.sessions import producer_rooms
from trials.safeguards.ablation import Ablation, Patch
from trials.simulation.faults import Plan
from trials.simulation.user_producers import USERS_CAME

_TROUBLE = (USERS_CAME, "crash", "power cut", "transfer")


def _one_room_for_all() -> list[Patch]:
    return [(producer_rooms, "_room", lambda _session: "")]


def _take_a_beginning_for_a_repetition() -> list[Patch]:
    real: Any = NumbersTaken.take
    has_taken: Any = NumbersTaken.has_taken

    def last_of(numbers: NumbersTaken, producer_id: str) -> int:
        is_known = numbers.under_way.get(producer_id) or numbers._producers.last(producer_id)  # noqa: SLF001 - it is in the place of a method
        if is_known or not producer_id.startswith(ROOM_ID):
            return 0
        return numbers._producers.last(said_id(producer_id))  # noqa: SLF001 - as above

    def take(numbers: NumbersTaken, producer_id: str, sequence: int) -> Verdict:
        if sequence == 1 and last_of(numbers, producer_id):
            return Verdict.STORED
        return Verdict(real(numbers, producer_id, sequence))

    def asked(numbers: NumbersTaken, producer_id: str, sequence: int) -> bool:
        if sequence == 1 and last_of(numbers, producer_id):
            return True
        return bool(has_taken(numbers, producer_id, sequence))

    return [(NumbersTaken, "take", take), (NumbersTaken, "has_taken", asked)]


def bent(plan: Plan) -> None:
    """Let there be enough of it."""
    plan.kinds[USERS_CAME] = 6
    plan.operations = max(plan.operations, 1_200)
    plan.chaos_seconds = max(plan.chaos_seconds, 8.0)
    # Else a broker that does one frame in a turn is never done with so much.
    plan.turn_seconds = min(plan.turn_seconds, 0.01)


ABLATIONS = [
    Ablation("count all users' producers in one room", _one_room_for_all, _TROUBLE, bent),
    Ablation(
        "take who begins for one who repeats", _take_a_beginning_for_a_repetition, _TROUBLE, bent
    ),
]

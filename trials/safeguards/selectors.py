"""
Ablations of what gives each message to who wants it, in order, and to nobody else.

Of the classes that may want a message each is asked, and nothing overtakes what a class has to have
first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.broker.serving.consumer import Consumer
from holdfast.broker.serving.router import hands, sifting, turns
from holdfast.broker.serving.router.owners import Owners
from holdfast.broker.serving.router.turns import Turns
from holdfast.sessions.selection import Selection
from trials.safeguards.ablation import Ablation, Patch
from trials.simulation.faults import Plan
from trials.simulation.selecting_clients import SELECTED, SELECTED_GROUPS

_TROUBLE = (SELECTED, "crash", "transfer")
_TROUBLE_OF_GROUPS = (SELECTED_GROUPS, "crash", "transfer")


def _ask_nobody() -> list[Patch]:
    def is_true_of(_self: Selection, _values: Mapping[str, Any]) -> bool:
        return True

    return [(Selection, "is_true_of", is_true_of)]


def _overtake() -> list[Patch]:
    def is_next(*_: object) -> bool:
        return True

    def first_hungry(self: Turns, _parked: object) -> object:
        return next(iter(self.hungry))

    return [
        (sifting, "is_next", is_next),
        (turns, "is_next", is_next),
        (hands, "is_next", is_next),
        (Turns, "first_hungry", first_hungry),
    ]


def _lend_at_once() -> list[Patch]:
    """Let whoever wants what comes next have it, though somebody else has some of its group."""
    holder = Owners.taker

    def nobody(self: Owners, bucket: int) -> Consumer | None:
        return holder(self, bucket) if self.only is not None else None

    def lend(self: Owners, bucket: int, consumer: Consumer, **_: bool) -> None:
        if self.only is None:
            self._own(bucket, consumer)

    def always(*_: object) -> bool:
        return True

    return [
        (Owners, "taker", nobody),
        (Owners, "is_at_hand", always),
        (Owners, "lend", lend),
        (Owners, "_take_back", lambda *_: None),
    ]


def _often(plan: Plan) -> None:
    _often_of(plan, SELECTED)


def _often_in_groups(plan: Plan) -> None:
    _often_of(plan, SELECTED_GROUPS)


def _often_of(plan: Plan, trouble: str) -> None:
    plan.kinds[trouble] = 6
    plan.operations = max(plan.operations, 1_200)
    plan.chaos_seconds = max(plan.chaos_seconds, 6.0)


ABLATIONS = [
    Ablation("give messages to who did not ask for them", _ask_nobody, _TROUBLE, _often),
    Ablation("let messages overtake what a class waits for", _overtake, _TROUBLE, _often),
    Ablation(
        "hand a group over to who wants what comes next",
        _lend_at_once,
        _TROUBLE_OF_GROUPS,
        _often_in_groups,
    ),
]

"""
Ablations of what decides where a message goes that is sent to a composite destination.

It is asked of each message, by whoever leads, and what is said of the destination holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from holdfast.broker.addressing import Addressing
from holdfast.broker.committing import Committing
from holdfast.sessions.forwarding import SentContent
from trials.safeguards.ablation import Ablation, Patch
from trials.simulation.composite_producer import COMPOSITE
from trials.simulation.faults import Plan

_TROUBLE = (COMPOSITE, "crash", "power cut", "transfer")


def _whatever_it_says() -> list[Patch]:
    return [(SentContent, "is_selected", lambda *_: True)]


def _as_if_nothing_were_said() -> list[Patch]:
    return [(Addressing, "directs", lambda *_: False)]


def _by_every_way() -> list[Patch]:
    """Where two ways lead to a queue, it has the message twice."""
    send_to_all: Any = Committing.send_to_all

    def send(self: Committing, destinations: Sequence[Any], *rest: Any, **named: Any) -> bool:
        again = [it for it in destinations if it.name == "q1"] * (len(destinations) > 1)
        for each in again:
            send_to_all(self, (each,), *rest[:2], (rest[2][0], None), None, 0, **named)
        return bool(send_to_all(self, destinations, *rest, **named))

    return [(Committing, "send_to_all", send)]


def _often(plan: Plan) -> None:
    plan.kinds[COMPOSITE] = 6
    plan.operations = max(plan.operations, 1_200)
    plan.chaos_seconds = max(plan.chaos_seconds, 8.0)


ABLATIONS = [
    Ablation("forward whatever it says", _whatever_it_says, _TROUBLE, _often),
    Ablation("forward nothing", _as_if_nothing_were_said, _TROUBLE, _often),
    Ablation("forward by every way", _by_every_way, _TROUBLE, _often),
]

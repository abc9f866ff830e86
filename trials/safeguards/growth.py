"""
What keeps long work in pieces right while everything goes on, switched off.

A piece that comes late must not see what came meanwhile: only a node that starts from such a
checkpoint shows it.
"""

from __future__ import annotations

from typing import Any

from holdfast.broker.lasting.snapshot import Snapshot
from holdfast.server.sealer import Sealer
from trials.safeguards.ablation import Ablation, Patch


def _let_records_overtake() -> list[Patch]:
    return [(Snapshot, "_keep", lambda _self, _record: None)]


def _seal_on_for_the_next_leadership() -> list[Patch]:
    return [(Sealer, "stop", lambda _self: None)]


def _seal_in_steps(made: Any) -> None:
    made.seal_records_max = 2
    made.slice_seconds = 0.0


def _small_segments(made: Any) -> None:
    made.segment_bytes = 8 * 1024


ABLATIONS = [
    Ablation(
        "write down what a record changes before a checkpoint has reached it",
        _let_records_overtake,
        ("crash", "power cut", "pause"),
        _small_segments,
    ),
    Ablation(
        "drop what was being sealed when a leadership ends",
        _seal_on_for_the_next_leadership,
        ("leader struck while it seals", "pause", "transfer"),
        _seal_in_steps,
    ),
]

"""
What keeps long work in pieces right while everything goes on, switched off.

A piece that comes late must not see what came meanwhile: only a node that starts from such a
checkpoint shows it.
"""

from __future__ import annotations

from typing import Any

from holdfast.broker.snapshot import Snapshot
from holdfast.testing.ablation import Ablation, Patch


def _let_records_overtake() -> list[Patch]:
    return [(Snapshot, "_keep", lambda _self, _record: None)]


def _small_segments(made: Any) -> None:
    made.segment_bytes = 8 * 1024


ABLATIONS = [
    Ablation(
        "write down what a record changes before a checkpoint has reached it",
        _let_records_overtake,
        ("crash", "power cut", "pause"),
        _small_segments,
    ),
]

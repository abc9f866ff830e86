"""
What keeps a log, and what is only in a leader's memory, from being lost in passing.

Each of these safeguards matters only where something else went wrong at the same time, so the
plans of the seeds are bent towards that.
"""

from __future__ import annotations

from holdfast.store.replicated_store import ReplicatedStore
from holdfast.testing.ablation import Ablation, Patch


def _forget_at_a_hand_over() -> list[Patch]:
    return [(ReplicatedStore, "is_handing_over", property(lambda _self: False))]


ABLATIONS = [
    Ablation(
        "forget memory when a hand-over begins", _forget_at_a_hand_over, ("hand-over given up",)
    ),
]

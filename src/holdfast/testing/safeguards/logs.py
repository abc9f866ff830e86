"""
What keeps a log, and what is only in a leader's memory, from being lost in passing.

Each of these safeguards matters only where something else went wrong at the same time, so the
plans of the seeds are bent towards that.
"""

from __future__ import annotations

from holdfast.journal import recovery
from holdfast.journal.journal import Journal
from holdfast.replication import repair
from holdfast.store.replicated_store import ReplicatedStore
from holdfast.testing.ablation import Ablation, Patch
from holdfast.testing.faults import Plan
from holdfast.testing.troubles.long_outages import OUTAGE, with_a_small_log


def _forget_at_a_hand_over() -> list[Patch]:
    return [(ReplicatedStore, "is_handing_over", property(lambda _self: False))]


def _trust_the_cache() -> list[Patch]:
    return [(recovery, "_write_again", lambda *_arguments: None)]


def _believe_any_copy() -> list[Patch]:
    # It is kept twice: by what the neighbours prove, and by the journal.
    return [
        (repair, "is_proven", lambda *_arguments: True),
        (Journal, "_check_repair", lambda *_arguments: None),
    ]


def _keep_the_old_state() -> list[Patch]:
    return [(ReplicatedStore, "is_begun_anew", lambda _self: False)]


def _on_a_pair_with_a_small_log(plan: Plan) -> None:
    plan.topology = "witness"
    with_a_small_log(plan)


ABLATIONS = [
    Ablation(
        "forget memory when a hand-over begins", _forget_at_a_hand_over, ("hand-over given up",)
    ),
    Ablation(
        "mend with any copy",
        _believe_any_copy,
        ("bit flip", "leader cut off, then paused", "partition", "heal network", "crash"),
    ),
    Ablation(
        "trust at recovery what only the cache may have",
        _trust_the_cache,
        ("fsync EIO", "power cut", "crash"),
    ),
    Ablation(
        "keep the old state when the log is begun anew",
        _keep_the_old_state,
        (OUTAGE,),
        _on_a_pair_with_a_small_log,
    ),
]

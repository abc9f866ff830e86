"""
What a leader does about its own disk when that hangs, switched off.

The two are apart in time: batches go on at once, because a quorum has them; the hand-over comes
when the disk has done nothing for so long that it cannot be called slow any more.
"""

from __future__ import annotations

from typing import Any

from holdfast.replication.disk_watch import DiskWatch
from holdfast.store.replicated_store import ReplicatedStore
from trials.safeguards.ablation import Ablation, Patch


def _wait_for_the_own_disk() -> list[Patch]:
    def is_writing(self: Any) -> bool:
        journal = self.journal
        return bool(min(self._proposed_index, journal.last_index) > journal.stored_index)

    return [(ReplicatedStore, "is_writing", property(is_writing))]


def _lead_with_a_hanging_disk() -> list[Patch]:
    return [(DiskWatch, "hand_over", lambda _self, _state: None)]


ABLATIONS = [
    Ablation(
        "a batch waits for a quorum, not for the leader's own disk",
        _wait_for_the_own_disk,
        ("disk hangs for good",),
    ),
    Ablation(
        "a leader whose disk hangs hands over",
        _lead_with_a_hanging_disk,
        ("disk hangs for good",),
    ),
]

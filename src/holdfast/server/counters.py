"""
What passed through this node since it started: for /metrics and status, never for decisions.
"""

from __future__ import annotations

from holdfast.admin.durations import DurationHistogram
from holdfast.journal.writer import WriteResult


class Counters:
    """Counts since the start of this process."""

    __slots__ = (
        "batches",
        "connections",
        "damaged",
        "deliveries",
        "receipts",
        "records",
        "submitted_at",
        "sync_seconds",
        "syncs",
    )

    def __init__(self) -> None:
        self.batches = 0
        self.records = 0
        self.receipts = 0
        self.deliveries = 0
        self.connections = 0
        self.damaged = 0
        self.syncs = 0
        self.sync_seconds = DurationHistogram()
        self.submitted_at: float | None = None

    def submitted(self, now: float) -> None:
        """Note that a write was handed to the writer."""
        if self.submitted_at is None:
            self.submitted_at = now

    def synced(self, now: float, result: WriteResult) -> None:
        """Note that a write came back."""
        del result
        self.syncs += 1
        if self.submitted_at is not None:
            self.sync_seconds.observe(now - self.submitted_at)
            self.submitted_at = None

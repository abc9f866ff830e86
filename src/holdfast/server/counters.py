"""
What passed through this node since it started: for /metrics and status, never for decisions.

Plain numbers that only grow; a restart starts them anew, as Prometheus expects of counters. Owned
by the loop.
"""

from __future__ import annotations

from holdfast.admin.durations import DurationHistogram
from holdfast.journal.jobs import WriteResult


class Counters:
    """Counts since the start of this process."""

    __slots__ = (
        "batches",
        "connections",
        "damaged",
        "deliveries",
        "receipts",
        "records",
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

    def synced(self, result: WriteResult) -> None:
        """Note that a write came back."""
        if result.failure is None:
            self.syncs += 1
            self.sync_seconds.observe(result.seconds)

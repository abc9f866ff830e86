"""
What passed through this node since it started: for /metrics and status, never for decisions.

Plain numbers that only grow; a restart starts them anew, as Prometheus expects of counters. Owned
by the loop.
"""

from __future__ import annotations

from holdfast.admin.durations import DurationHistogram
from holdfast.store.contract import WriteReport


class Counters:
    """Counts since the start of this process."""

    __slots__ = (
        "batches",
        "damaged",
        "deliveries",
        "records",
        "redeliveries",
        "serving_syncs",
        "sync_seconds",
        "turn_cpu_seconds_max",
        "turn_seconds_max",
    )

    def __init__(self) -> None:
        self.batches = 0
        self.records = 0
        self.deliveries = 0
        self.redeliveries = 0
        self.damaged = 0
        self.turn_seconds_max = 0.0
        """The longest turn of the loop."""
        self.turn_cpu_seconds_max = 0.0
        """The longest that a core has worked for one turn; the rest is waiting for a core."""
        self.serving_syncs = 0
        """Of the syncs those while this node served: they made `records` durable, not a leader's
        that it followed."""
        self.sync_seconds = DurationHistogram()

    def turned(self, seconds: float, cpu_seconds: float) -> None:
        """Note how long a turn took, and for how long of that a core has worked for it."""
        if seconds > self.turn_seconds_max:
            self.turn_seconds_max = seconds
        if cpu_seconds > self.turn_cpu_seconds_max:
            self.turn_cpu_seconds_max = cpu_seconds

    def synced(self, result: WriteReport, *, is_serving: bool) -> None:
        """Note that a write came back."""
        if result.failure is None:
            self.serving_syncs += is_serving
            self.sync_seconds.observe(result.seconds)

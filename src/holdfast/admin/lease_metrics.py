"""
The lease of a shared log as Prometheus reads it: who holds it, how long, how its store is.

A broker without such a log has none of these, so that an alarm on them fires for no other.
"""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from holdfast.admin.lease_status import LeaseStatus
from holdfast.admin.metric_kinds import gauge


def lease_metrics(lease: LeaseStatus) -> Iterator[Metric]:
    """Give who holds it, for how long, and how the store is."""
    held = 0.0 if lease.held_seconds is None else lease.held_seconds
    yield gauge("lease_held", "1 if this broker holds the lease of its log", lease.is_held)
    yield gauge("lease_held_seconds", "For how long it holds it", held)
    yield gauge("lease_left_seconds", "For how long nobody else can take it", lease.left_seconds)
    text = "For how long the holder gave no sign of life"
    yield gauge("lease_silent_seconds", text, lease.silent_seconds)
    yield gauge("shared_store_reached", "1 if the store of the log answers", not lease.trouble)
    text = "1 if the store keeps nothing more, or the holder has no room beside it"
    yield gauge("shared_store_refusing", text, bool(lease.refusal))
    copies = GaugeMetricFamily(
        "holdfast_shared_store_copy",
        "1 for the state of each copy that the store keeps",
        labels=["id", "place", "state"],
    )
    for copy in lease.copies:
        copies.add_metric([copy.id, copy.place, copy.state], 1.0)
    yield copies
    if lease.elector is not None:
        text = "1 if the elector answers"
        yield gauge("elector_reached", text, not lease.elector.trouble)
        text = "1 if this broker is the first in its elector's line"
        yield gauge("elector_elected", text, lease.elector.is_elected)

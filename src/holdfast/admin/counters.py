"""
What a node has counted since its process started, as values.

A part of its status (`status`), which has the rest: each field has a default here, too, so a
program of one version reads what a node of another has counted.
"""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class MessageCounters:
    """Messages since this process started, and what it has read of its log since."""

    enqueued: int = 0
    """Put on a queue, on each node that applies it, or on a topic, on the leader."""

    delivered: int = 0
    acknowledged: int = 0
    """Taken off a queue for good, on each node that applies it: also rejected or purged."""

    redelivered: int = 0
    receipts: int = 0
    refused: int = 0
    dead_lettered: int = 0
    """Rejected on a queue and stored on the dead-letter queue, while this node led."""
    expired: int = 0
    """Those whose time was over before anybody got them, while this node led."""

    fired: int = 0
    """Times that a scheduled message was sent, while this node led."""
    scheduled_refused: int = 0
    """Those that their senders might not send any more as their time came, while this node led."""
    advisories_missed: int = 0
    """Said to nobody, as too many were on their way, while this node led."""
    evicted: int = 0
    """Dropped as too many waited for a subscription of a topic, while this node led."""

    dropped: int = 0
    """Taken off queues that were full as newer ones came, while this node led."""

    unmatched: int = 0
    """Forwarded by policies, and to no destination that they fit, while this node led."""

    duplicates: int = 0
    """Sends that were stored before and only confirmed again, while this node led."""

    answers_refused: int = 0
    """Sent to temporary destinations of others who were behind, while this node led."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DurationStatus:
    """How long something took, since this process started."""

    count: int = 0
    seconds_sum: float = 0.0
    seconds_p50: float = 0.0
    seconds_p99: float = 0.0
    buckets: tuple[tuple[float, int], ...] = ()
    """(upper bound in seconds, cumulative count), ascending; the infinite one is left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchCounters:
    """Group commit since this process started."""

    batches: int = 0
    """Sealed while this node led."""

    records: int = 0
    """Those in them."""

    bytes: int = 0
    """Written to the log, a leader's that this node followed too."""

    serving_syncs: int = 0
    """Those of `syncs` while this node led."""

    uncommitted_bytes: int = 0
    """Sealed and not yet committed, now."""

    syncs: DurationStatus = field(default_factory=DurationStatus)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemoryStatus:
    """Message bodies kept in memory."""

    used_bytes: int = 0
    limit_bytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerStatus:
    """The producers whose last sequence is known."""

    count: int = 0
    count_max: int = 0
    """Beyond it those that have not sent for the longest are forgotten."""

    forgotten: int = 0
    """Since this process started: too many, or idle for too long."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsumerCounters:
    """Consumers that are looked after, as a policy says so."""

    slow: int = 0
    """Found slow at the last look, now; on the leader only."""

    aborted: int = 0
    """Ended as they were slow for too long, while this node led since the process started."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicCounters:
    """Topics of which messages are stored, and who they are stored for."""

    stored: int = 0
    """How many topics there are that have durable subscriptions."""

    messages: int = 0
    """Stored for those, each once, however many need it."""

    bytes: int = 0
    durable_subscriptions: int = 0
    offline: int | None = None
    """Of these, how many nobody consumes from; only the leader knows it."""

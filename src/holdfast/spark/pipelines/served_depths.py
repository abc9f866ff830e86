"""
Does a node serve what its log says? What it has beside the messages that live in the log.

A replay of the log cannot see what a node makes of it in memory. So the node is asked how many
messages each queue and each durable subscription has, until it says the same twice and has not gone
on in the log meanwhile: then the answer is of that very entry. A log that grows at every look
cannot be compared like this; that is said, and is no finding.

Invariants:
    A leader also has messages that are not in the log, as they were not persistent: it may serve
    more than the log has, never less. Every other node serves exactly as many.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any, Final

from holdfast.errors import HoldfastError
from holdfast.model.facts import TOPIC_MARK
from holdfast.model.topic_records import SubscriptionRecord
from holdfast.spark.log.client import RemoteLog
from holdfast.spark.log.naming import declared_name
from holdfast.spark.pipelines.findings import Finding

LOOKS_MAX: Final = 20
PAUSE_SECONDS: Final = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedDepths:
    """How many messages a node has on each queue and durable subscription, after an entry."""

    replica: str
    index: int
    is_leader: bool = False
    depths: dict[int, int] = field(default_factory=dict)
    """By number of the queue or subscription; without those that have none."""

    names: dict[int, str] = field(default_factory=dict)
    not_told: str = ""
    """Why there is nothing to compare; empty if there is."""


def served_depths(name: str, log: RemoteLog) -> ServedDepths:
    """Ask a node for its queues' depths at one entry of the log; tells why if it cannot say."""
    seen = None
    try:
        for look in range(LOOKS_MAX):
            if look:
                time.sleep(PAUSE_SECONDS)
            before, queues, subscriptions = _applied(log), log.queues(), log.subscriptions()
            now = ServedDepths(
                replica=name,
                index=before[0],
                is_leader=before[1] == "leader",
                depths={int(it["number"]): int(it["messages"]) for it in queues + subscriptions},
                names={int(it["number"]): str(it["name"]) for it in queues}
                | {int(it["number"]): _called(it) for it in subscriptions},
            )
            if now == seen and before == _applied(log):
                return now
            seen = now
    except HoldfastError as error:
        return ServedDepths(replica=name, index=0, not_told=str(error))
    return ServedDepths(replica=name, index=0, not_told="its log grew at every look")


def _called(subscription: dict[str, Any]) -> str:
    """Name a durable subscription as the log's readers do."""
    topic, client_id, name = (str(subscription[it]) for it in ("topic", "client_id", "name"))
    record = SubscriptionRecord(0, 0, 0, client_id, name)
    return declared_name(record, {0: f"{TOPIC_MARK}{topic}"})[1]


def _applied(log: RemoteLog) -> tuple[int, str]:
    """How far the node has applied the log, and its role."""
    status = log.ask("GET", "/status", told={"applied_index": int, "role": str})
    return int(status["applied_index"]), str(status["role"])


def compared(served: ServedDepths, live: dict[int, int]) -> list[Finding]:
    """Compare what is served with how many messages of each queue live in the log there."""
    found = []
    for number in sorted(served.depths.keys() | live.keys()):
        has, lives = served.depths.get(number, 0), live.get(number, 0)
        if has == lives or (served.is_leader and has > lives):
            continue
        queue = served.names.get(number, f"#{number}")
        found.append(
            Finding(
                where=served.replica,
                kind="served",
                reason=f"it serves {has:,} messages of {queue}; {lives:,} live in its log",
                first_index=served.index,
                last_index=served.index,
                queue=queue,
            )
        )
    return found

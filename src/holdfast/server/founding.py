"""
Whom a node without a cluster waits for, told at once and then at growing intervals.

A cluster forms when every member of the list was met, so one that is not there keeps all others
waiting; whoever started them must find in any of their logs which one it is, and why. Pure: times
are arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import structlog

from holdfast.admin.health import joined
from holdfast.admin.status import AwaitedStatus
from holdfast.replication.membership import Member
from holdfast.replication.messages import Hello
from holdfast.replication.tellings import Tellings

log = structlog.get_logger("holdfast.server")

Founders = Sequence[tuple[Member, Hello | None]]

_TELL_SECONDS_MIN = 5.0
_TELL_SECONDS_MAX = 300.0


def awaited(founders: Founders, reasons: Mapping[str, str]) -> tuple[AwaitedStatus, ...]:
    """Who is not there yet, or belongs to a cluster already, and why there is no link with it."""
    found = []
    for member, hello in founders:
        if hello is None:
            reason = reasons.get(member.name, "not met yet")
        elif hello.cluster_id:
            reason = (
                f"belongs to cluster {hello.cluster_id[:8]} already, whose leader is to take this"
                f" node in"
            )
        else:
            continue
        found.append(AwaitedStatus(name=member.name, address=member.address, reason=reason))
    return tuple(found)


class FoundingWatch:
    """Tells whom this node waits for until it belongs to a cluster."""

    def __init__(self, look: Callable[[], tuple[AwaitedStatus, ...]]) -> None:
        self._look = look
        self._tellings = Tellings(_TELL_SECONDS_MIN, _TELL_SECONDS_MAX)
        self._due_at = float("-inf")

    def step(self, now: float) -> None:
        """Look, and tell it if that is due."""
        if now < self._due_at:
            return
        waits = self._look()
        if waits and self._tellings.is_due("", "founding", now):
            log.info("waiting to form the cluster", missing=joined(waits))
        self._due_at = now + 1.0

"""
Is this node alive, and is it ready: the two questions that machines ask.

Alive: the process answers at all; a supervisor restarts it when not. Ready: it does its part in
the cluster, as the leader that serves clients or as a member in contact with one; a rolling upgrade
waits for it. A node whose journal failed is neither: it has exited.

Pure: a verdict from a status.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from holdfast.admin.status import NodeStatus


@dataclass(frozen=True, slots=True)
class Readiness:
    """Whether the node does its part, and in a sentence why or why not."""

    ready: bool
    role: str
    leader: str | None
    reason: str

    def as_json(self) -> dict[str, Any]:
        """The same as a dictionary for programs."""
        return {
            "ready": self.ready,
            "role": self.role,
            "leader": self.leader,
            "reason": self.reason,
        }


def readiness(status: NodeStatus) -> Readiness:
    """Judge a node by its status."""
    ready, reason = _judge(status)
    return Readiness(ready, status.role, status.leader, reason)


def _judge(status: NodeStatus) -> tuple[bool, str]:
    if status.store.is_out_of_room:
        return False, "its disk is full: nothing is stored until there is room"
    if status.store.disk_hangs:
        return False, f"its disk has got nothing done for {status.store.disk_wait_seconds:.0f} s"
    if status.role == "leader":
        if not status.serving:
            waits = f"leader of term {status.term}, and not serving clients yet"
            return False, status.store.unknown_end or waits
        if status.store.is_full_of_live:
            return True, (
                "serving clients; publishing is refused: the disk is full of messages that live"
            )
        if status.store.space == "low":
            return True, "serving clients; publishing is refused until disk space returns"
        return True, "serving clients"
    if status.store.unknown_end:
        return False, status.store.unknown_end
    if status.leader is None:
        return False, "no leader is known"
    member = status.member(status.leader)
    if member is not None and not member.connected:
        return False, f"not in contact with the leader {status.leader}"
    return True, f"following {status.leader}"

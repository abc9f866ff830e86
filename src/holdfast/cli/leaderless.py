"""
Why nobody leads, in a sentence for whoever asks a node at night.

A verdict from one node's status: what it says of its own disk and log first, then how many of the
voters it is connected to. Pure.
"""

from __future__ import annotations

from holdfast.admin.health import readiness
from holdfast.admin.promotion import VOTING
from holdfast.admin.status import MemberStatus, NodeStatus
from holdfast.replication.quorum import majority


def trouble(status: NodeStatus) -> str:
    """Why the node does not do its part, in a sentence; empty if it does."""
    verdict = readiness(status)
    if verdict.ready:
        return ""
    is_told = status.store.is_out_of_room or status.store.disk_hangs or status.store.unknown_end
    if status.leader is not None or status.role == "leader" or is_told:
        return f"{status.name}: {verdict.reason}"
    return f"no leader: {_why_nobody_leads(status)}"


def cluster_trouble(status: NodeStatus) -> str:
    """Why the cluster serves nobody, as this node sees it; empty if it does."""
    is_served = status.role == "leader" and status.serving
    return "" if is_served else trouble(status)


def _why_nobody_leads(status: NodeStatus) -> str:
    if not status.members:
        return (
            f"{status.name} belongs to no cluster yet; one forms when every member of the list"
            " has been started, and all of them name the same members"
        )
    voters = [it for it in status.members if it.kind in VOTING]
    away = [it.name for it in voters if not _is_there(it, status)]
    there = len(voters) - len(away)
    needed = majority(len(voters))
    if there < needed:
        return (
            f"{status.name} is connected to {there} of {len(voters)} voters, itself included, and"
            f" {needed} are needed; it does not reach {' and '.join(away)}"
        )
    return (
        f"{status.name} is connected to enough voters ({there} of {len(voters)}), and they have"
        " elected none yet; where that lasts, their logs say why"
    )


def _is_there(member: MemberStatus, status: NodeStatus) -> bool:
    return member.connected or member.name == status.name

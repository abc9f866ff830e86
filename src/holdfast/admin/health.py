"""
Is this node alive, and is it ready: the two questions that machines ask.

Alive: the process answers at all; a supervisor restarts it when not. Ready: it does its part in
the cluster, as the leader that serves clients or as a member in contact with one; a rolling upgrade
waits for it. A node whose journal failed is neither: it has exited.

Why nobody leads is told by one node's status: what it says of its own disk and log first, then whom
it waits for before there is a cluster, then how many of the voters it is connected to. Behind any
verdict stands what has run out by which others know this node: it makes none unready by itself, as
links that stand go on.

Pure: a verdict from a status.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.admin.lease_status import LeaseStatus
from holdfast.admin.promotion import VOTING
from holdfast.admin.status import AwaitedStatus, MemberStatus, NodeStatus
from holdfast.replication.quorum import majority


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
    reason = "; ".join((reason, *(it.sentence for it in status.certificates if it.is_trouble)))
    return Readiness(ready, status.role, status.leader, reason)


def _judge(status: NodeStatus) -> tuple[bool, str]:
    if status.store.is_out_of_room and status.lease is None:
        return False, "its disk is full: nothing is stored until there is room"
    if status.store.disk_hangs:
        return False, f"its disk has got nothing done for {status.store.disk_wait_seconds:.0f} s"
    if status.role == "leader":
        if not status.serving:
            waits = f"leader of term {status.term}, and not serving clients yet"
            return False, status.store.unknown_end or waits
        if status.lease is not None and status.lease.refusal:
            return True, f"serving clients; publishing is refused: {status.lease.refusal}"
        if status.store.is_full_of_live:
            return True, (
                "serving clients; publishing is refused: the disk is full of messages that live"
            )
        if status.store.space == "low":
            return True, "serving clients; publishing is refused until disk space returns"
        return True, f"serving clients{_without_elector(status.lease)}"
    if status.store.unknown_end:
        return False, status.store.unknown_end
    if status.lease is not None and status.store.is_out_of_room:
        return False, "standby that cannot follow the log: its --data is full; make room there"
    if status.lease is not None:
        return True, _standing_by(status.lease)
    if status.leader is None:
        return False, f"no leader: {_why_nobody_leads(status)}"
    member = status.member(status.leader)
    if member is not None and not member.connected:
        return False, f"not in contact with the leader {status.leader}"
    return True, f"following {status.leader}"


def _standing_by(lease: LeaseStatus) -> str:
    elector = _without_elector(lease)
    if lease.holder is None:
        return f"standby: nobody holds the lease{elector}"
    silent = f"{lease.silent_seconds:.1f} s ago"
    return f"standby: {lease.holder} holds the lease, and gave a sign of life {silent}{elector}"


def _without_elector(lease: LeaseStatus | None) -> str:
    """What a missing elector costs: no message, and time when the lease is to be taken."""
    if lease is None or lease.elector is None or not lease.elector.trouble:
        return ""
    return f"; its elector does not answer, so a takeover takes longer: {lease.elector.trouble}"


def joined(awaits: Sequence[AwaitedStatus]) -> str:
    """Whom a node waits for, where, and why it is not there."""
    return " and ".join(f"{it.name} at {it.address} ({it.reason})" for it in awaits)


def _why_nobody_leads(status: NodeStatus) -> str:
    if status.awaits:
        return f"{status.name} belongs to no cluster yet: it waits for {joined(status.awaits)}"
    if status.is_cut_short:
        return (
            f"{status.name} knows of a later generation of the cluster and not of its members: it"
            " was shut out, or ended as an older copy of itself, or a promotion was cut short here;"
            " start it with an empty data directory, or, if all others are lost, promote it by"
            " force"
        )
    if not status.members:
        return (
            f"{status.name} belongs to no cluster yet; one forms when every member of the list"
            " has been started, and all of them name the same members"
        )
    voters = [it for it in status.members if it.kind in VOTING]
    away = [it for it in voters if not _is_there(it, status)]
    there = len(voters) - len(away)
    needed = majority(len(voters))
    if there < needed:
        return (
            f"{status.name} is connected to {there} of {len(voters)} voters, itself included, and"
            f" {needed} are needed; it does not reach {' and '.join(map(_seen, away))}"
        )
    return (
        f"{status.name} is connected to enough voters ({there} of {len(voters)}), and they have"
        " elected none yet; where that lasts, their logs say why"
    )


def _is_there(member: MemberStatus, status: NodeStatus) -> bool:
    return member.connected or member.name == status.name


def _seen(member: MemberStatus) -> str:
    seconds = member.last_seen_seconds
    return member.name if seconds is None else f"{member.name} (last seen {seconds:.0f} s ago)"

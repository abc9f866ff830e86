"""
What a promotion by force means, for the operator to decide on: what is lost, and who is shut out.

Values from a node's status, made into sentences; the same for the node that is asked and for the
command line that asks. How it is done is `replication.promotion`'s.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from holdfast.admin.status import NodeStatus
from holdfast.errors import MembershipError
from holdfast.journal.filling import utc
from holdfast.replication.promotion import LogEnd
from holdfast.replication.quorum import majority

VOTING = {"voter", "witness"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PromotionReport:
    """What going on with some nodes means."""

    name: str
    """The furthest of them, which decides."""

    role: str
    leader: str | None
    term: int
    last_index: int
    commit_index: int
    complete: bool
    """Nothing confirmed can be missing, unless the members were changed without this node."""

    incomplete: bool
    """The log is being filled anew and is not full: confirmed messages of any age are missing."""

    may_lack: str
    """One sentence: what was confirmed elsewhere and may not be here."""

    shut_out: tuple[str, ...]
    """Members that must be dead, and may come back only as new, empty members."""

    companions: tuple[str, ...] = ()
    """Members that go on together with it: they keep their logs and become voters."""

    behind: tuple[str, ...] = ()
    """One sentence for each of them: what it is sent before it is one."""

    def as_json(self) -> dict[str, Any]:
        """The same as a dictionary for programs."""
        return asdict(self)


def promotion_report(status: NodeStatus, companions: Sequence[LogEnd] = ()) -> PromotionReport:
    """Work out what a node may lack if it goes on, alone or with companions."""
    voting = [member for member in status.members if member.kind in VOTING]
    own = status.member(status.name)
    # A quorum of all voting members (2 of 2) cannot have confirmed anything without this one.
    is_voter = own is not None and own.kind == "voter"
    needed = is_voter and majority(len(voting)) == len(voting)
    complete = needed and not (status.store.unrepaired_count or status.is_cut_short)
    names = tuple(end.name for end in companions)
    gone = (member.name for member in status.members if member.name not in {status.name, *names})
    return PromotionReport(
        name=status.name,
        role=status.role,
        leader=status.leader,
        term=status.term,
        last_index=status.store.last_index,
        commit_index=status.commit_index,
        complete=complete and not status.store.incomplete,
        incomplete=bool(status.store.incomplete),
        may_lack=_may_lack(status, complete=complete),
        shut_out=tuple(gone),
        companions=names,
        behind=tuple(_behind(status, end) for end in companions),
    )


def furthest(statuses: Iterable[NodeStatus]) -> NodeStatus:
    """
    Tell which of several nodes goes on: the one with the furthest log, the first of equals.

    Raises:
        MembershipError: They are not of one cluster, or one of them follows a leader, or does not
            say how far its log goes, or has a log that is not full.
    """
    found = list(statuses)
    first = found[0]
    for status in found:
        if status.cluster_id != first.cluster_id:
            raise MembershipError(f"{status.name} and {first.name} are of different clusters")
        if status.leader is not None:
            raise MembershipError(
                f"{status.leader} leads; use force only when there is no leader any more"
            )
        if status.log_end is None:
            raise MembershipError(
                f"{status.name} does not say how far its log goes: it is of an older version"
            )
        if status.store.incomplete and len(found) > 1:
            raise MembershipError(
                f"{status.name} cannot go on with others: {status.store.incomplete}"
            )
    return max(found, key=lambda status: status.log_end.position if status.log_end else (0, 0))


def require_strangers_dead(names: Collection[str], alive: NodeStatus, address: str) -> None:
    """
    Refuse a promotion while somebody answers who is not among those that go on.

    Raises:
        MembershipError: That is so.
    """
    if alive.name not in names:
        together = "" if alive.role == "leader" else ", or name it as one that goes on"
        raise MembershipError(
            f"{alive.name} answers at {address} as {alive.role} of term {alive.term}:"
            f" it is not dead; stop it first{together}"
        )


def _may_lack(status: NodeStatus, *, complete: bool) -> str:
    holds = (
        f"{status.name} holds the log to entry {status.store.last_index:,} of term {status.term}"
    )
    if status.log_end is not None and status.log_end.timestamp > 1:
        records = max(status.log_end.record - 1, 0)
        holds += f", with {records:,} records, the last of {utc(status.log_end.timestamp)}"
    if status.store.incomplete:
        return f"{holds}; {status.store.incomplete}"
    if status.is_cut_short:
        return (
            f"{holds}; it knows of a later generation of the cluster, which shut it out or was cut"
            f" short here: all that was confirmed in that one is missing"
        )
    damage = status.store.unrepaired
    if damage:
        last = damage[-1]
        others = status.store.unrepaired_count - 1
        places = f", here and at {others:,} places before it" if others else ""
        return (
            f"{holds}; its log is damaged: {last.reason} (entry {last.index:,}, {last.segment} byte"
            f" {last.byte:,}){places}; what was confirmed there is lost unless a node that goes on"
            f" has it"
        )
    if complete:
        voting = " and ".join(member.name for member in status.members if member.kind in VOTING)
        return (
            f"{holds}; nothing confirmed is missing, as each confirmation needed this node while"
            f" the voting members were {voting}"
        )
    if status.leader_contact_seconds is None:
        return (
            f"{holds}; it has not heard of a leader since it started, so all confirmed after that"
            f" may be missing"
        )
    return (
        f"{holds}; what was confirmed in the {status.leader_contact_seconds:,.1f} s since it last"
        f" heard of a leader, and shortly before, may be missing"
    )


def _behind(status: NodeStatus, end: LogEnd) -> str:
    own = status.log_end
    assert own is not None, "it is compared with the others"
    if end.position == own.position:
        return f"{end.name} has the same log"
    records = max(own.record - end.record, 0)
    seconds = max(own.timestamp - end.timestamp, 0) / 1e6
    return (
        f"{end.name} is behind {own.name} by {records:,} messages and acknowledgements of"
        f" {seconds:,.1f} s, and is sent them"
    )

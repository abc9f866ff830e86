"""
What a broker tells its operator of the lease of its log, put together from who knows it.

Reads memory only: the store is not asked.
"""

from __future__ import annotations

from holdfast.admin.lease_status import CopyStatus, ElectorStatus, LeaseStatus
from holdfast.server.leased_group import LeasedGroup


def lease_status(group: LeasedGroup) -> LeaseStatus:
    """Who may write the log, since when, and where it is kept; nothing is asked of the store."""
    facts, holder = group.facts(), group.holder
    unshown = [f"what it shows is not new: {it}" for it in (group.projection_trouble,) if it]
    return LeaseStatus(
        kind=facts.kind,
        place=facts.place,
        lease_seconds=group.lease_seconds,
        is_held=group.is_leader,
        holder=None if holder is None else holder.name,
        holder_stomp="" if holder is None else holder.stomp,
        holder_admin="" if holder is None else holder.admin,
        held_seconds=group.held_seconds,
        left_seconds=group.lease_left_seconds,
        silent_seconds=group.silent_seconds,
        trouble=group.trouble,
        refusal=group.refusal_reason,
        warnings=(*facts.warnings, *unshown),
        copies=tuple(
            CopyStatus(id=id_, place=place, state=state) for id_, place, state in facts.members
        ),
        elector=_elector(group),
    )


def _elector(group: LeasedGroup) -> ElectorStatus | None:
    facts, elections = group.elector_facts(), group.elections
    if facts is None or elections is None:
        return None
    elected = elections.elected()
    return ElectorStatus(
        kind=facts.kind,
        place=facts.place,
        trouble=elections.trouble,
        elected=group.name_of(elected) if elected else None,
        is_elected=group.is_elected,
        heard_seconds=group.elector_heard_seconds(),
        line=tuple(group.name_of(it) for it in elections.line),
        strangers=elections.strangers,
    )

"""
What a witness keeps of the log and says of its disk, and what any node keeps of it in memory.

A witness serves nobody: it keeps what a data voter may still need of it. That is bounded by what
the leader has cleaned away, so a data node that is down for long does not fill its disk.

Invariants:
    Whatever was dropped, every data voter held, or the leader had cleaned away.
    Only who is a witness for good drops anything: that a change may yet be undone, and its node
    become a voter by another one, with the same identity and log.
    What names the members, and what is not known to be committed, stays.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from holdfast.journal.journal import Journal
from holdfast.replication import leader
from holdfast.replication.messages import Hello
from holdfast.replication.state import Role, State

logger = logging.getLogger("holdfast.replication")


def trim(state: State, journal: Journal) -> None:
    """Drop the segments of a witness that nobody needs."""
    if not _is_witness_for_good(state):
        return
    through = leader.data_match(state) if state.role is Role.LEADER else state.data_match
    limit = min(through, state.commit_index, state.config_index)
    if limit > journal.first_index:
        journal.drop_before(limit)


def _is_witness_for_good(state: State) -> bool:
    """Whether the change that made it one is known to be committed: that identity stays one."""
    settled = state.settled_membership()
    own = settled.get(state.name) if settled is not None else None
    is_own = own is not None and own.node_id == state.node_id
    return own is not None and is_own and "witness" in {own.kind, own.promote_to}


def with_space(state: State, journal: Journal, hello: Hello) -> Hello:
    """Return what a witness says of itself, renewed if its disk came to be almost full or not."""
    is_low = journal.space_state(state.now) == "low"
    if is_low is hello.space_low or not state.cluster_id or state.fenced_reason:
        return hello
    if is_low:
        logger.error("the disk is almost full; the log takes %d bytes", journal.bytes_on_disk)
    else:
        logger.warning("the disk has room again")
    return replace(hello, space_low=is_low)


def keep_at_hand(state: State, journal: Journal, taken_index: int) -> None:
    """Let the journal keep in memory what is still to be sent, and what is to be given out."""
    wanted = [it.next_index for name, it in state.progress.items() if name in state.connected]
    if not state.is_witness:
        wanted.append(taken_index + 1)
    journal.need_from(min(wanted, default=journal.last_index + 1))

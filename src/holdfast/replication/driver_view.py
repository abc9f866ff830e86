"""
What a member of the group says of itself, without changing anything.

The face of `Driver` that is only read: role, term, what is committed, who may dispatch, status. A
turn changes what is seen here; nothing here does.

Owned by the loop thread, as the driver is.
"""

from __future__ import annotations

from typing import Final

from holdfast.journal.journal import Journal
from holdfast.model.numbering import Numbering
from holdfast.replication import repair, resting
from holdfast.replication.disk_watch import DiskWatch
from holdfast.replication.membership import Member, Membership
from holdfast.replication.messages import Hello
from holdfast.replication.outgoing import Outgoing
from holdfast.replication.state import Role, State
from holdfast.replication.status import (
    LagLedger,
    MemberView,
    ReplicationStatus,
    contact_seconds,
    role_name,
    view_members,
    whole_status,
)

QUORUM_LOST: Final = (
    "too few members of the cluster answer: nothing is confirmed until they return"
    " or an operator promotes this node"
)
_LEASE_SPARE = 0.25
"""The share of the lease that must be left where something is confirmed that only we have."""


class DriverView:
    """One member as the node sees it between two turns."""

    _state: State
    _journal: Journal
    _bootstrap: Membership
    _ledger: LagLedger
    _repairs: repair.Repairs
    _disk_watch: DiskWatch
    _outgoing: Outgoing

    @property
    def hello(self) -> Hello:
        """What this node says of itself when a link is made."""
        return self._outgoing.hello

    @property
    def role(self) -> str:
        """leader, follower, candidate, witness or learner."""
        return role_name(self._state)

    @property
    def is_leader(self) -> bool:
        """Whether this node leads the present term, serving or not."""
        return self._state.role is Role.LEADER

    @property
    def generation(self) -> int:
        """The generation of the cluster that rules: each forced promotion begins one."""
        return self._state.generation

    @property
    def numbering(self) -> Numbering:
        """Where queues' numbers begin while this node leads."""
        known = self._state.membership
        return Numbering(0, self.term) if known is None else known.numbering(self.term)

    @property
    def term(self) -> int:
        """The number of the newest election this node knows of."""
        return self._state.term

    @property
    def leader(self) -> str | None:
        """The name of the present leader, where known."""
        return self._state.leader

    @property
    def commit_index(self) -> int:
        """Entries through here will never be undone."""
        return self._state.commit_index

    @property
    def told_commit_index(self) -> int:
        """Through which entry a leader has said that the log is committed, here or not."""
        return max(self._state.told_commit_index, self._state.commit_index)

    @property
    def unheard_seconds(self) -> float | None:
        """How long ago any leader was heard; 0 on the leader, None if never since the start."""
        return contact_seconds(self._state)

    @property
    def sure_index(self) -> int:
        """All that was committed before this process began is up to here; -1: not known yet."""
        return self._state.sure_index

    @property
    def taken_index(self) -> int:
        """Entries through here were given out by `take_committed`."""
        return self._state.taken_index

    @property
    def has_committed(self) -> bool:
        """Whether `take_committed` has an entry to give."""
        state = self._state
        return state.taken_index < state.commit_index and not state.is_witness

    @property
    def config_index(self) -> int:
        """Where the present members are written; this entry must not be reclaimed."""
        return self._state.config_index

    @property
    def copies(self) -> int:
        """Nodes with data that must hold what is committed; by the present members."""
        return self._state.copies

    @property
    def reclaim_limit(self) -> int:
        """Entries before this index may be dropped for all that replication cares."""
        return min(self._state.config_index, self._state.commit_index)

    @property
    def log_epoch(self) -> int:
        """
        Counts how often the log was thrown away and begun anew from a leader.

        When it changed, all state built from `take_committed` must be thrown away as well, before
        the next call: what comes next starts at the journal's new first entry.
        """
        return self._state.log.epoch

    @property
    def uncommitted_bytes(self) -> int:
        """Entries of this leader that are not yet committed."""
        return self._state.uncommitted_bytes

    @property
    def is_backlog_full(self) -> bool:
        """Whether so much waits for this leader's own disk that it must set the pace."""
        journal = self._journal
        bytes_max = self._state.settings.backlog_bytes_max
        return self._ledger.is_over(journal.stored_index, journal.last_index, bytes_max)

    def is_writing(self, index: int) -> bool:
        """
        Whether an entry proposed is on its way: to this node's disk and to a quorum's.

        Whichever is done first lets the next one go, so a disk that hangs here stops nobody, until
        so much has piled up behind it that it sets the pace again.
        """
        # What a former leadership proposed may have been cut off since: nobody will store it.
        index = min(index, self._journal.last_index)
        if index <= self._journal.stored_index:
            return False
        return index > self._state.commit_index or self.is_backlog_full

    @property
    def farewell(self) -> str:
        """Why a lead ended after which no other one is known: a majority has not answered."""
        return QUORUM_LOST

    @property
    def promotion(self) -> str:
        """By which promotion by force this cluster goes on: generation and time; or empty."""
        hello = self.hello
        return f"{hello.generation}-{hello.lineage[0]}" if hello.lineage else ""

    @property
    def is_witness(self) -> bool:
        """Whether this node keeps the log without ever serving."""
        return self._state.is_witness

    @property
    def fenced_reason(self) -> str:
        """Why this node is shut out for good; empty if it is not."""
        return self._state.fenced_reason

    @property
    def is_serving(self) -> bool:
        """Whether this node leads, its own term is committed, and all before it was given out."""
        state = self._state
        is_able = state.role is Role.LEADER and state.transfer is None and not state.is_witness
        return is_able and state.taken_index >= state.term_start

    @property
    def rests_until(self) -> float:
        """When a turn has something to do by the clock alone; see `resting`."""
        return resting.rests_until(self._state)

    @property
    def is_handing_over(self) -> bool:
        """Whether this node leads and gives the lead away: nothing is proposed or delivered."""
        return self._state.role is Role.LEADER and self._state.transfer is not None

    def may_dispatch(self, now: float) -> bool:
        """
        Whether a quorum has surely not turned to another leader by `now`, and no earlier one may.

        `now` must be read from the clock just before: after a pause it says no, whatever was
        queued meanwhile.
        """
        state = self._state
        is_sole = state.dispatch_from <= now < state.lease_until
        return is_sole and state.role is Role.LEADER and not self._outgoing.hello.has_ended

    def holds_lease(self, now: float) -> bool:
        """
        Whether this node leads, and no quorum can turn to another leader for a while yet.

        What is confirmed now is delivered a few turns later at most: it must be ours still.
        """
        state = self._state
        spare = _LEASE_SPARE * state.lease_seconds
        return state.role is Role.LEADER and now < state.lease_until - spare

    def is_lease_awaited(self, now: float) -> bool:
        """Whether this node leads and a leader before it may still dispatch."""
        return self._state.role is Role.LEADER and now < self._state.dispatch_from

    def founders(self) -> list[tuple[Member, Hello | None]]:
        """Before there is a cluster: who else is named, and what each said if it was met."""
        state = self._state
        others = [it for it in self._bootstrap.members if it.name != state.name]
        return [] if state.cluster_id else [(it, state.connected.get(it.name)) for it in others]

    def members_at_hand(self) -> tuple[MemberView, ...]:
        """The members, without looking into the log for the lag of who is far behind."""
        return view_members(self._state, self._ledger, is_log_read=False)

    def status(self) -> ReplicationStatus:
        """Everything an operator may want to see; no disk is read."""
        return whole_status(
            self._state,
            self._ledger,
            repaired_count=self._repairs.repaired_count,
            disk_wait_seconds=self._disk_watch.seconds,
        )

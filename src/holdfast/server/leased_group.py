"""
The brokers over one shared log, as the node and its operators see them.

A `LeasedDriver` with the words that a node has for its group: members, roles, status. Brokers come
and go by themselves: what changes the members of a replicated group is refused here, by name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from holdfast.admin.forwarding import LIFE
from holdfast.errors import MembershipError, StoreError
from holdfast.leases.contract import Claimant, Waiter
from holdfast.leases.driver import LeasedDriver
from holdfast.leases.elector import Elector, ElectorFacts
from holdfast.leases.state import ALWAYS
from holdfast.raidb.raidb_log import RaidbLog
from holdfast.replication.membership import Member
from holdfast.replication.messages import Hello
from holdfast.replication.promotion import LogEnd
from holdfast.replication.status import MemberView, ReplicationStatus

_ID_SHOWN = 8


class LeasedGroup(LeasedDriver):
    """One of several brokers over a log that one of them may write."""

    is_witness = False
    copies = 1
    """What the medium makes of it is its own affair."""

    def __init__(
        self, *, monotonic: Callable[[], float], elector: Elector | None = None, **parts: Any
    ) -> None:
        """Args are those of `LeasedDriver`; `monotonic` is the loop's clock."""
        super().__init__(has_elector=elector is not None, **parts)
        self._monotonic = monotonic
        self._elector = elector
        self.on_turned: Callable[[], None] = lambda: None
        """Called after each turn, when something may be wanted of others."""

    def turn(self, now: float) -> None:
        super().turn(now)
        self.on_turned()

    def elector_facts(self) -> ElectorFacts | None:
        """What elects; None if nothing does. Waits for nothing."""
        return None if self._elector is None else self._elector.facts()

    def name_of(self, holder: str) -> str:
        """What the broker is called that is known by this id; the id's beginning if unknown."""
        known = [self.claimant, *(it.claimant for it in self.others())]
        if self.holder is not None:
            known.append(self.holder)
        return next((it.name for it in known if it.holder == holder), holder[:_ID_SHOWN])

    def elector_heard_seconds(self) -> float | None:
        """How long ago the elector answered; None if it never did."""
        elections = self.elections
        if elections is None or elections.heard_at < 0:
            return None
        return max(self._clock() - elections.heard_at, 0.0)

    @property
    def is_elected(self) -> bool:
        """Whether this broker is the first in the line, for sure."""
        return self.elections is not None and self.elections.is_elected(self._clock())

    @property
    def several(self) -> RaidbLog | None:
        """The log, where it is kept in several databases."""
        return self._log if isinstance(self._log, RaidbLog) else None

    def start(self, now: float, process_started_at: float | None = None) -> None:
        """Nothing to begin with: the first turn orders what is due."""

    @property
    def rests_until(self) -> float:
        """When a turn has something to do by the clock alone, by the loop's clock."""
        due = super().rests_until
        return due if due == ALWAYS else self._monotonic() + max(due - self._clock(), 0.0)

    @property
    def role(self) -> str:
        """Leader or standby."""
        return "leader" if self.is_leader else "standby"

    def founders(self) -> list[tuple[Member, Hello | None]]:
        """Nobody is waited for."""
        return []

    def members_at_hand(self) -> tuple[MemberView, ...]:
        """This broker and all others that told of themselves."""
        own = self._view(self.claimant, 0.0, self.taken_index)
        others = [self._view_of(it) for it in self.others()]
        return tuple(sorted([own, *others], key=lambda it: it.name))

    def _view_of(self, waiter: Waiter) -> MemberView:
        seen = self.seen_seconds(waiter.claimant.name)
        is_there = self.is_there(waiter.claimant.name)
        return self._view(waiter.claimant, 0.0 if is_there else seen, waiter.applied_index)

    def _view(self, claimant: Claimant, seen: float, applied_index: int) -> MemberView:
        lag = max(self.commit_index - applied_index, 0)
        return MemberView(
            name=claimant.name,
            address="",
            kind="broker",
            site="",
            node_id=claimant.holder,
            connected=seen == 0.0,
            last_seen_seconds=None if seen == ALWAYS else seen,
            metadata={"admin": claimant.admin, "stomp": claimant.stomp, LIFE: claimant.holder},
            match_index=applied_index if self.is_leader else None,
            lag_entries=lag if self.is_leader else None,
        )

    def status(self) -> ReplicationStatus:
        """Everything an operator may want to see; the medium is not asked."""
        journal = self._journal
        leader = self.leader
        return ReplicationStatus(
            name=self.claimant.name,
            node_id=self.claimant.holder,
            cluster_id=self.identity(),
            generation=0,
            role=self.role,
            term=self.term,
            leader=leader,
            leader_contact_seconds=None if leader is None else self.silent_seconds,
            commit_index=self.commit_index,
            last_index=journal.last_index,
            stored_index=journal.stored_index,
            config_index=0,
            uncommitted_bytes=self.uncommitted_bytes,
            damaged=self.damaged,
            incomplete="",
            unknown_end=self.trouble,
            log_end=LogEnd(
                name=self.claimant.name,
                node_id=self.claimant.holder,
                index=journal.last_index,
                term=journal.last_term,
                chain=journal.last_chain.hex(),
                record=journal.next_record_number,
                timestamp=journal.last_timestamp,
                commit_index=self.commit_index,
                commit_chain="",
            ),
            awaited=(),
            is_cut_short=False,
            repaired_count=self.repaired_count,
            fenced_reason="",
            disk_wait_seconds=0.0,
            disk_hangs=False,
            members=self.members_at_hand(),
        )

    def add_member(self, member: Member) -> NoReturn:
        """Refuse: a broker is added by starting it."""
        raise self._no_members("start a broker with this store to add it")

    def remove_member(self, name: str) -> int:
        """Forget a broker that is gone for good; returns an index that is committed already."""
        self.forget_broker(name)
        return self.commit_index

    def promote(self, name: str) -> NoReturn:
        """Refuse: whoever waits takes the lease by itself."""
        raise self._no_members("whoever waits takes the lease when its holder is gone")

    def promote_force(
        self,
        companions: Iterable[LogEnd] = (),
        *,
        is_incomplete_accepted: bool = False,
        wall_microseconds: int | None = None,
    ) -> NoReturn:
        """Refuse: the store itself says who may write it."""
        raise self._no_members("whoever waits takes the lease when its holder is gone")

    def _no_members(self, instead: str) -> StoreError | MembershipError:
        return MembershipError(
            f"the log of this broker is kept in {self.facts().place} under a lease, and has no"
            f" members: {instead}"
        )

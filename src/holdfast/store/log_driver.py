"""
What a store asks of who keeps its log: the driver of a quorum's log, or of one under a lease.

The promises are those of `store.contract`, one layer below: entries instead of records. The words
are the driver's own; see `replication.driver` and `leases.driver` for what they do.

Owned by the loop thread.
"""

from __future__ import annotations

from typing import Protocol

from holdfast.journal.entry import Entry
from holdfast.journal.entry_body import EntryBody
from holdfast.model.numbering import Numbering
from holdfast.store.contract import WriteReport


class LogDriver(Protocol):
    """Who keeps the log, and says who may write it."""

    def propose(
        self,
        parts: list[bytes] | EntryBody,
        record_count: int,
        *,
        now: float,
        wall_microseconds: int,
    ) -> Entry:
        """
        Make one batch an entry; it is committed when `commit_index` reaches its index.

        Raises:
            NotLeaderError: This node does not lead, or gives the lead away.
        """
        ...

    def stored(self, result: WriteReport) -> None:
        """Take a writer's word."""
        ...

    def turn(self, now: float) -> None:
        """Do what is due; raises once nothing may be claimed any more."""
        ...

    def take_committed(self, bytes_max: int) -> list[Entry]:
        """Give committed entries in order; CorruptEntryError if the next one is damaged here."""
        ...

    def report_damage(self, index: int) -> None:
        """Have an entry repaired."""
        ...

    def is_writing(self, index: int) -> bool:
        """Whether an entry proposed is on its way: the next batch gathers meanwhile."""
        ...

    def refusal(self) -> str:
        """Why nothing may be published, as far as the driver knows; empty if it may."""
        ...

    def may_dispatch(self, now: float) -> bool:
        """Whether this node is certain to be the only leader now."""
        ...

    def holds_lease(self, now: float) -> bool:
        """Whether no other leader can be there for a while yet."""
        ...

    def is_lease_awaited(self, now: float) -> bool:
        """Whether a leader before this one may still dispatch."""
        ...

    def tell_format_level(self, level: int) -> None:
        """Let the others know which level this log has reached."""
        ...

    def learner_matches(self) -> dict[str, int]:
        """Through which entry each that follows without a vote holds the log; 0 if not known."""
        ...

    def repropose_config(self) -> int:
        """Write again what the driver itself keeps in entries; returns the index to commit."""
        ...

    @property
    def log_epoch(self) -> int:
        """Counts how often the log was begun anew here."""
        ...

    @property
    def commit_index(self) -> int:
        """Entries through here will never be undone."""
        ...

    @property
    def taken_index(self) -> int:
        """Entries through here were given out."""
        ...

    @property
    def has_committed(self) -> bool:
        """Whether there is an entry to give out."""
        ...

    @property
    def config_index(self) -> int:
        """The entry in which the driver keeps what must not go."""
        ...

    @property
    def reclaim_limit(self) -> int:
        """Entries before this index may go, for all that the driver cares."""
        ...

    @property
    def is_serving(self) -> bool:
        """Whether this node leads and all before its lead was given out."""
        ...

    @property
    def is_leader(self) -> bool:
        """Whether this node leads."""
        ...

    @property
    def is_handing_over(self) -> bool:
        """Whether it gives the lead away."""
        ...

    @property
    def term(self) -> int:
        """The newest leadership known."""
        ...

    @property
    def farewell(self) -> str:
        """Why a lead ended after which no other one is known; empty if it was given away."""
        ...

    @property
    def promotion(self) -> str:
        """By which promotion by force the log goes on; empty if none."""
        ...

    @property
    def numbering(self) -> Numbering:
        """Where queues' numbers begin while this node leads."""
        ...

    @property
    def format_level_of_all(self) -> int:
        """The newest level of the log's format that all who keep the log know."""
        ...

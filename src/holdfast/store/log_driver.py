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
from holdfast.store.contract import Tenure, WriteReport


class LogDriver(Tenure, Protocol):
    """Who keeps the log, and says who may write it: the store's tenure is its driver's."""

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

    @property
    def is_journal_a_copy(self) -> bool:
        """Whether the journal copies what is kept elsewhere, and is not the log's own place."""
        ...

    @property
    def cache_refusal(self) -> str:
        """Why nothing may be published though the log's own place has room; empty if it may."""
        ...

    @property
    def message_bytes_max(self) -> int:
        """The most that one message may have so that it can be stored; 0: any."""
        ...

    @property
    def batch_bytes_max(self) -> int:
        """The most that is to be gathered into one entry, so that it is stored in time; 0: any."""
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
    def sure_index(self) -> int:
        """All that was committed before this process began is up to here; -1: not known yet."""
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

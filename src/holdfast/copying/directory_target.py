"""
A data directory made of a copied log, to be served by a single node.

It is written as a draft beside the directory, by the journal's own code, and gets the directory's
name when all is durable; a draft that was broken off is begun anew. Behind the copied entries comes
one of its own: the membership of the one node, of the next generation of the same cluster, so that
nodes of before are shut out, as after a promotion by force.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from holdfast.copying.scanned_log import ScannedLog
from holdfast.environment.clock import Clock, SystemClock
from holdfast.environment.disk import Disk, RealDisk
from holdfast.environment.randomness import Randomness, SystemRandomness
from holdfast.errors import JournalFailedError, StoreError
from holdfast.journal.ballot import Ballot
from holdfast.journal.draft import COPYING, Draft
from holdfast.journal.entry import KIND_CONFIG, Entry, seal_entry
from holdfast.journal.jobs import BallotJob, WriteJob, WriteResult
from holdfast.journal.journal import Journal
from holdfast.journal.settings import JournalSettings
from holdfast.journal.writer import JournalWriter
from holdfast.leases.contract import Place
from holdfast.leases.copies import CopyPlan
from holdfast.replication.membership import (
    Member,
    Membership,
    decode_membership,
    encode_membership,
)

NODE_ID_BYTES: Final = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class NewNode:
    """The one node that the copy is for."""

    name: str = "holdfast"
    address: str = ""
    """Where its peers will find it; empty for a single node."""

    site: str = ""


class DirectoryTarget:
    """A `Target` that becomes a node's own directory."""

    def __init__(
        self,
        directory: Path,
        node: NewNode,
        settings: JournalSettings,
        *,
        disk: Disk | None = None,
        randomness: Randomness | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Take where it is to be; nothing is touched before `begin`."""
        self.place = str(directory)
        self.is_whole = False
        self._directory = directory
        self._node = node
        self._settings = settings
        self._disk = disk or RealDisk()
        self._randomness = randomness or SystemRandomness()
        self._clock = clock or SystemClock()
        self._draft: Draft | None = None
        self._journal: Journal | None = None
        self._writer: JournalWriter | None = None
        self._failure: JournalFailedError | None = None
        self._members: Membership | None = None
        """By the newest copied entry that names any."""
        self._read: ScannedLog | None = None

    def begin(self, plan: CopyPlan) -> Place:
        """Begin a draft; what a broken-off copy left in it is removed."""
        self._plan = plan
        self._draft = draft = Draft(self._directory, COPYING)
        self._journal = Journal.open(draft.path, self._disk, self._settings)
        self._writer = JournalWriter(self._journal, self._told, waits_for_room=False)
        anchor = plan.anchor
        if anchor is not None:
            reset = self._journal.stage_reset(
                anchor.index + 1, anchor.term, anchor.chain, anchor.next_record
            )
            self._write([reset])
        return plan.begins_behind

    def append(self, entries: list[Entry]) -> None:
        """Store what follows, as a leader's writer does."""
        assert self._journal is not None, "a copy is begun first"
        for entry in entries:
            if entry.kind == KIND_CONFIG:
                self._members = decode_membership(bytes(entry.body))
        self._write([self._journal.stage(entries)])

    def entries(self, after: int) -> list[Entry]:
        """Read back from the files, which are complete by now."""
        if self._read is None:
            assert self._draft is not None, "a copy is begun first"
            self._close_log()
            self._read = ScannedLog(self._draft.path, self._disk)
        return self._read.entries(after)

    def keep(self) -> None:
        """Nothing to do: a lock lasts as long as its process."""

    def finish(self, last_look: Callable[[], None]) -> str:
        """Write whose the directory is, and give it its name."""
        draft = self._draft
        assert draft is not None, "a copy is begun first"
        self._close_log()
        self._journal = Journal.open(draft.path, self._disk, self._settings)
        self._writer = JournalWriter(self._journal, self._told, waits_for_room=False)
        if Place(self._journal.last_index, self._journal.last_chain) != self._plan.end:
            raise StoreError(f"{draft.path} does not end as it was copied; copy again")
        self._write_owner(self._journal)
        self._close_log()
        last_look()
        draft.finish(self._disk)
        return f"holdfast serve --name {self._node.name} --data {self._directory}"

    def _write_owner(self, journal: Journal) -> None:
        plan = self._plan
        node_id = self._randomness.bytes(NODE_ID_BYTES)
        membership = self._membership(node_id.hex())
        term = plan.epoch_before
        entry = seal_entry(
            index=journal.last_index + 1,
            term=term,
            kind=KIND_CONFIG,
            timestamp=max(journal.last_timestamp + 1, self._clock.wall_microseconds()),
            first_record=journal.next_record_number,
            record_count=0,
            parts=[encode_membership(membership)],
            previous_chain=journal.last_chain,
        )
        ballot = Ballot(
            node_id=node_id,
            term=term,
            generation=membership.generation,
            cluster_id=bytes.fromhex(plan.identity),
        )
        self._write([BallotJob(ballot), journal.stage([entry])])

    def _membership(self, node_id: str) -> Membership:
        node = self._node
        own = Member(node.name, node.address, "voter", node.site, node_id)
        now = self._clock.wall_microseconds()
        known = self._members
        if known is None:
            # No node of its own had this log, or none whose name is kept.
            return Membership(
                (own,),
                cluster_id=self._plan.identity,
                generation=1,
                number_range=0,
                promoted_at=now,
            )
        gone = [it.node_id for it in known.members if it.node_id and it.kind != "fenced"]
        return Membership(
            (own,),
            cluster_id=self._plan.identity,
            generation=known.generation + 1,
            retired=tuple(dict.fromkeys((*known.retired, *gone))),
            # It is the whole log: numbers go on where they were.
            number_range=known.numbers,
            promoted_at=now,
        )

    def _write(self, jobs: list[WriteJob]) -> None:
        assert self._writer is not None, "a copy is begun first"
        self._writer.turn(jobs)
        if self._failure is not None:
            raise JournalFailedError(
                f"{self.place} cannot be written: {self._failure.__cause__}; the next copy to it"
                f" begins anew"
            ) from self._failure

    def _told(self, result: WriteResult) -> None:
        if result.failure is not None:
            self._failure = result.failure

    def _close_log(self) -> None:
        writer, self._writer = self._writer, None
        journal, self._journal = self._journal, None
        if writer is not None:
            writer.close()
        if journal is not None:
            journal.close()

    def close(self) -> None:
        """Let the draft go."""
        self._close_log()
        if self._draft is not None:
            self._draft.release()

"""
A data directory made anew: a log that begins where an archive was left, and a ballot to boot with.

Written by the journal's own code: entries are sealed, staged and synced as a leader does it, so the
directory opens like any other. The log begins with the entry after the archive's, with the chain
value before it: it says of itself what it continues. Its first entry is the membership of a new
cluster, with an identity of its own, so the old cluster's nodes are refused.

Invariants:
    The directory has its name only when everything in it is durable; before, it is a draft, which
    belongs to one process.
    The first 8 digits of the cluster's identity stay: they stand in message ids.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

from holdfast.broker.lasting.access import KeptRecord
from holdfast.broker.lasting.queue import LastingQueue
from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.lasting.topics import LastingSubscription, LastingTopic
from holdfast.broker.settings import BrokerSettings
from holdfast.environment.disk import Disk, RealDisk
from holdfast.environment.randomness import Randomness, SystemRandomness
from holdfast.errors import ArchiveError, JournalFailedError
from holdfast.journal.ballot import Ballot
from holdfast.journal.draft import Draft
from holdfast.journal.entry import KIND_CONFIG, KIND_RECORDS, seal_entry
from holdfast.journal.jobs import BallotJob, WriteJob, WriteResult
from holdfast.journal.journal import Journal
from holdfast.journal.settings import JournalSettings
from holdfast.journal.writer import JournalWriter
from holdfast.model.facts import TOPIC_MARK
from holdfast.model.format_level import NEWEST_LEVEL
from holdfast.model.numbering import RANGES_STEP
from holdfast.model.records import (
    CleanedRecord,
    CountersRecord,
    FormatRecord,
    PolicyRecord,
    ProducerRecord,
    QueueRecord,
    Record,
    SubscriptionAcknowledgeRecord,
)
from holdfast.model.topic_records import SubscriptionRecord, TopicRecord
from holdfast.replication.membership import Member, Membership, encode_membership
from holdfast.replication.promotion import TERMS_SKIPPED
from holdfast.spark.log.naming import CLUSTER_DIGITS
from holdfast.store.record_codec import decode_records, encode_records

ENTRY_RECORDS_MAX: Final = 4096
"""Records of queues and producers in one entry."""
GENERATIONS_SKIPPED: Final = 100 * RANGES_STEP
"""What a hundred forced promotions may have skipped behind the archive's end."""
GENERATIONS_DRAWN: Final = 1 << 18
"""Restores of one archive draw from so many generations, so that no two get the same."""
WRITE_BYTES: Final = 16 * 1024 * 1024
"""So much is written in one turn of the journal's writer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogStart:
    """Where the restored log begins: what is said of the entry before it."""

    index: int
    """The first entry of the restored log."""
    record: int
    term: int
    chain: str
    timestamp: int
    cluster_id: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NewMember:
    """The one node that the restored cluster begins with."""

    name: str = "holdfast"
    address: str = ""
    """Where its peers will find it; empty for a single node."""
    site: str = ""


@dataclass(slots=True)
class Restored:
    """What was written."""

    cluster_id: str = ""
    first_index: int = 0
    last_index: int = 0
    messages: int = 0
    """On each queue where it stands a message counts."""
    bytes: int = 0
    live: dict[str, int] = field(default_factory=dict)
    """Messages that live, by queue, counted by reading the directory back."""


class LastingTopics(Protocol):
    """What is to be restored of topics."""

    @property
    def topics(self) -> Sequence[TopicRecord]:
        """The stored ones."""

    @property
    def subscriptions(self) -> Sequence[SubscriptionRecord]:
        """The durable subscriptions on them."""

    @property
    def settled(self) -> Sequence[SubscriptionAcknowledgeRecord]:
        """What they are done with of what lives there."""


class RestoredLog:
    """
    Writes the draft of a data directory; use as a context manager.

    `finish` gives it its name. Leaving without it leaves a draft, which the next attempt removes.
    """

    def __init__(
        self,
        directory: Path,
        start: LogStart,
        *,
        segment_bytes: int,
        disk: Disk | None = None,
        randomness: Randomness | None = None,
    ) -> None:
        """
        Prepare the draft beside `directory`.

        Raises:
            ConfigError: There is something in the directory already.
            StoreLockedError: Another process is restoring to it.
        """
        self._held = Draft(directory)
        self._disk = disk or RealDisk()
        self._randomness = randomness or SystemRandomness()
        self._settings = JournalSettings(segment_bytes=segment_bytes)
        self._start = start
        self._timestamp = start.timestamp
        self._term = start.term + TERMS_SKIPPED
        self.restored = Restored(first_index=start.index)
        self._failure: JournalFailedError | None = None
        self._jobs: list[WriteJob] = []
        self._waiting_bytes = 0
        self._is_open = False
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def _open(self) -> None:
        start = self._start
        self._journal = Journal.open(self.draft, self._disk, self._settings)
        self._writer = JournalWriter(self._journal, self._told, waits_for_room=False)
        self._is_open = True
        reset = self._journal.stage_reset(
            start.index, start.term, bytes.fromhex(start.chain), start.record
        )
        self._turn([reset])

    def __enter__(self) -> RestoredLog:  # noqa: PYI034 - final in practice
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def draft(self) -> Path:
        """What is written, until it gets the directory's name."""
        return self._held.path

    @property
    def scratch(self) -> Path:
        """A folder in the draft for whatever is needed on the way; gone when it is finished."""
        return self.draft / "scratch"

    def close(self) -> None:
        """Let the draft go."""
        self._close_log()
        self._held.release()

    def _close_log(self) -> None:
        if self._is_open:
            self._is_open = False
            self._writer.close()
            self._journal.close()

    def _told(self, result: WriteResult) -> None:
        if result.failure is not None:
            self._failure = result.failure

    def begin(self, member: NewMember, generation: int = 0) -> None:
        """
        Write the ballot and the new cluster's membership.

        It begins a generation far behind the archive's: the old cluster may have been promoted
        by force since, and this archive may have been restored before.
        """
        drawn = int.from_bytes(self._randomness.bytes(4)) % GENERATIONS_DRAWN
        node_id = self._randomness.bytes(16)
        old = self._start.cluster_id
        digits = self._randomness.bytes(16).hex()
        cluster_id = old[:CLUSTER_DIGITS] + digits[len(old[:CLUSTER_DIGITS]) :]
        membership = Membership(
            (Member(member.name, member.address, "voter", member.site, node_id.hex()),),
            cluster_id=cluster_id,
            generation=generation + GENERATIONS_SKIPPED + drawn,
        )
        self.restored.cluster_id = cluster_id
        ballot = Ballot(
            node_id=node_id,
            term=self._term,
            generation=membership.generation,
            cluster_id=bytes.fromhex(cluster_id),
        )
        self._turn([BallotJob(ballot)])
        self._append(KIND_CONFIG, 0, [encode_membership(membership)])

    def add_state(
        self,
        queues: tuple[QueueRecord, ...],
        producers: tuple[ProducerRecord, ...],
        next_queue_number: int,
        policies: tuple[PolicyRecord, ...] = (),
        access: tuple[KeptRecord, ...] = (),
    ) -> None:
        """Write all that is no message; the new cluster begins at the newest level."""
        level = FormatRecord(NEWEST_LEVEL)
        counters = CountersRecord(next_queue_number)
        records: list[Record] = [level, counters, *policies, *access, *queues, *producers]
        for first in range(0, len(records), ENTRY_RECORDS_MAX):
            self._add(records[first : first + ENTRY_RECORDS_MAX])

    def add_messages(self, body: bytes, records: int, places: int) -> None:
        """Write the body of one entry with so many messages, which stand on so many places."""
        self._append(KIND_RECORDS, records, [body])
        self.restored.messages += places
        self.restored.bytes += len(body)

    def add_topics(self, state: LastingTopics) -> None:
        """Write, behind the messages, who needs them: topics last, as the cleaner does it."""
        records: list[Record] = [*state.settled, *state.subscriptions, *state.topics]
        for first in range(0, len(records), ENTRY_RECORDS_MAX):
            self._add(records[first : first + ENTRY_RECORDS_MAX])

    def finish(self) -> Restored:
        """
        Write the end, read everything back, and give the directory its name.

        Raises:
            JournalFailedError: The disk refused.
            ArchiveError: What is read back is not what was written.
            ConfigError: Somebody has put something into the directory meanwhile.
        """
        # All that is older than this log was written again in it: an archive of it is complete.
        self._add([CleanedRecord(self._start.index - 1)])
        self.restored.last_index = self._journal.last_index
        self._write()
        self._close_log()
        shutil.rmtree(self.scratch, ignore_errors=True)
        self.restored.live = live_by_queue(self.draft, self._disk, self._settings)
        found = sum(self.restored.live.values())
        if found != self.restored.messages:
            raise ArchiveError(
                f"{self.restored.messages:,} messages were written to {self.draft} and"
                f" {found:,} live there; nothing was put in place"
            )
        self._held.finish(self._disk)
        self.close()
        return self.restored

    def _add(self, records: list[Record]) -> None:
        self._append(KIND_RECORDS, len(records), encode_records(records))

    def _append(self, kind: int, count: int, parts: list[bytes]) -> None:
        journal = self._journal
        self._timestamp += 1
        entry = seal_entry(
            index=journal.last_index + 1,
            term=self._term,
            kind=kind,
            timestamp=self._timestamp,
            first_record=journal.next_record_number,
            record_count=count,
            parts=parts,
            previous_chain=journal.last_chain,
        )
        self._jobs.append(journal.stage([entry]))
        self._waiting_bytes += len(entry.raw)
        if self._waiting_bytes >= WRITE_BYTES:
            self._write()

    def _write(self) -> None:
        """Make what was staged durable: many entries in one turn."""
        jobs, self._jobs, self._waiting_bytes = self._jobs, [], 0
        self._turn(jobs)

    def _turn(self, jobs: list[WriteJob]) -> None:
        self._writer.turn(jobs)
        if self._failure is not None:
            raise JournalFailedError(
                f"nothing was restored to {self._held.directory}: {self.draft} cannot be written:"
                f" {self._failure.__cause__}; the next restore to it removes that draft"
            ) from self._failure


def live_by_queue(directory: Path, disk: Disk, settings: JournalSettings) -> dict[str, int]:
    """
    Open a data directory as a node does, apply its log, and count what lives in each queue.

    Raises:
        StoreError: It cannot be opened, or is damaged.
    """
    journal = Journal.open(directory, disk, settings)
    try:
        if journal.damage:
            raise journal.damage[0].error()
        state = BrokerState(BrokerSettings())
        for index in range(journal.first_index, journal.last_index + 1):
            entry = journal.entry(index)
            if entry.kind == KIND_RECORDS:
                records = decode_records(entry.body, with_content=False)
                state.apply(entry.first_record, records, entry.timestamp, entry.term)
        return {
            _name(queue): queue.index.live_count
            for queue in state.queues.values()
            if not isinstance(queue, LastingSubscription)
        }
    finally:
        journal.close()


def _name(queue: LastingQueue) -> str:
    if isinstance(queue, LastingTopic):
        return f"{TOPIC_MARK}{queue.name}"
    return queue.name or f"#{queue.number}"

"""
A data directory written directly, without a broker: logs of any content for tests and benches.

The entries are sealed by the same code as a node's, in the calling thread. A ballot gives the log
an identity, so that readers can tell message ids.
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from holdfast.environment.disk import RealDisk
from holdfast.journal.ballot import Ballot, BallotFile
from holdfast.journal.entry import FIRST_CHAIN, KIND_RECORDS, Entry, parse_entry, seal_entry
from holdfast.journal.jobs import BallotJob
from holdfast.journal.journal import Journal
from holdfast.journal.scan import scan_log
from holdfast.journal.settings import JournalSettings, KiB
from holdfast.journal.writer import JournalWriter
from holdfast.model.facts import (
    Attributes,
    BodyKind,
    Cause,
    Encoding,
    Form,
    Hops,
    MessageFacts,
    Origin,
    Place,
)
from holdfast.model.records import MessageRecord, QueueRecord, Record
from holdfast.spark.log.directory import LogDirectory
from holdfast.spark.log.entry_block import EntryBlock, cut_entries
from holdfast.store.record_codec import decode_records, encode_records

CLUSTER_ID = bytes(range(16))
FIRST_TIME = 1_700_000_000_000_000
"""When the first entry is sealed: 2023-11-14 22:13:20 UTC, in microseconds."""

EACH_FACT: Final[dict[str, Any]] = {
    "attributes": Attributes(1_800_000_000_000, 0xCAFE, 7, 2),
    "due_ms": 1_750_000_000_000,
    "places": (Place(8, 80), Place(9, 90)),
    "skips": b"\x05\x80",
    "form": Form(Encoding.AMQP, BodyKind.MAP),
    "hops": Hops((0xABCDEF01, 0x12345678), Place(3, 33)),
    "origin": Origin(Cause.REJECTED, "or:ders", "ID:abcdef01-1-7"),
}
"""A value of each kind of fact that a message may have."""

STEP_MICROSECONDS = 1_000_000
"""Between one entry and the next."""


class WrittenLog:
    """A log being written in `directory`; use it in a `with` block."""

    def __init__(self, directory: Path, *, segment_bytes: int = 64 * KiB) -> None:
        settings = JournalSettings(segment_bytes=segment_bytes, spare_segments=0)
        self.directory = directory
        self.journal = Journal.open(directory, RealDisk(), settings)
        self.writer = JournalWriter(self.journal, lambda _: None)
        ballot = Ballot(node_id=bytes(16), cluster_id=CLUSTER_ID)
        self.writer.turn([BallotJob(ballot)])
        self.time = self.journal.last_timestamp or FIRST_TIME - STEP_MICROSECONDS
        self.term = 1
        self.stamps = True
        """Whether messages without a time get that of their entry; the oldest records had none."""

    def put(self, *records: Record, kind: int = KIND_RECORDS, body: bytes = b"") -> Entry:
        """Append one entry with these records, or one of another kind with this body."""
        journal = self.journal
        self.time += STEP_MICROSECONDS
        for record in records:
            if self.stamps and isinstance(record, MessageRecord) and not record.stored_at:
                record.stored_at = self.time
        entry = seal_entry(
            index=journal.last_index + 1,
            term=self.term,
            kind=kind,
            timestamp=self.time,
            first_record=journal.next_record_number,
            record_count=len(records),
            parts=encode_records(list(records)) if records else [body],
            previous_chain=journal.last_chain,
        )
        self.writer.turn([journal.stage([entry])])
        return entry

    def close(self) -> None:
        """Stop as a node stops that was told to."""
        self.writer.close()
        self.journal.close()

    def __enter__(self) -> Self:
        """The log is open already."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close it."""
        self.close()


def records_of(data: Path) -> list[Record]:
    """Read every record of a log, by the journal's own scan."""
    found: list[Record] = []
    for segment in scan_log(data / "journal", RealDisk()).segments:
        content = segment.path.read_bytes()
        for index in range(segment.base_index, segment.last_index + 1):
            entry = parse_entry(content, segment.place(index)[0])
            if entry.kind == KIND_RECORDS:
                found += decode_records(entry.body)
    return found


def clean_first_segment(data: Path) -> None:
    """Drop the oldest file as cleaning does: the ballot knows first."""
    first, second = sorted((data / "journal").glob("*.segment"))[:2]
    ballot = BallotFile(data / "ballot", RealDisk())
    ballot.load()
    ballot.save_first(int(second.stem))
    ballot.close()
    first.unlink()


def message(
    queue: int, sequence: int, body: bytes = b"", headers: bytes = b"", producer: str | None = None
) -> MessageRecord:
    """Make a message record; a producer's number is the sequence."""
    number = sequence if producer is not None else 0
    return MessageRecord(queue, sequence, headers, body, len(headers) + len(body), producer, number)


def knowing(record: MessageRecord, *names: str) -> MessageRecord:
    """Give the same record with these of `EACH_FACT`."""
    record.facts = MessageFacts(**{name: EACH_FACT[name] for name in names})
    return record


def sealed(*batches: list[Record] | tuple[int, bytes], first_index: int = 1) -> list[Entry]:
    """Seal entries in memory: a list of records each, or a kind and a body."""
    entries: list[Entry] = []
    chain, record = FIRST_CHAIN, 100
    for place, batch in enumerate(batches):
        kind, parts, count = KIND_RECORDS, [], 0
        if isinstance(batch, tuple):
            kind, parts = batch[0], [batch[1]]
        else:
            parts, count = encode_records(batch), len(batch)
        entry = seal_entry(
            index=first_index + place,
            term=3,
            kind=kind,
            timestamp=1_000_000 + place,
            first_record=record,
            record_count=count,
            parts=parts,
            previous_chain=chain,
        )
        chain, record = entry.chain, record + count
        entries.append(entry)
    return entries


def block_of(*batches: list[Record] | tuple[int, bytes], first_index: int = 1) -> EntryBlock:
    """Seal the same and give them as one block."""
    entries = sealed(*batches, first_index=first_index)
    return cut_entries(b"".join(entry.raw for entry in entries), first_index)


def orders_log(folder: Path, *bodies: bytes) -> LogDirectory:
    """Write a log with one queue and one message an entry; the same bodies make the same log."""
    with WrittenLog(folder) as written:
        written.put(QueueRecord(1, "orders"))
        for number, body in enumerate(bodies, 1):
            written.put(message(1, number, body, b"", "p"))
    return LogDirectory(str(folder))

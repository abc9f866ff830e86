"""A log with one of everything, for the tests of rows and of entries."""

from __future__ import annotations

import pytest

from holdfast.journal.entry import (
    FIRST_CHAIN,
    KIND_CONFIG,
    KIND_NOOP,
    KIND_RECORDS,
    Entry,
    seal_entry,
)
from holdfast.model.records import (
    AcknowledgeRecord,
    CleanedRecord,
    CountersRecord,
    DeadLetterRecord,
    DeleteQueueRecord,
    DispatchMarkRecord,
    ForgetProducerRecord,
    HoldRecord,
    MessageRecord,
    ProducerRecord,
    PurgeRecord,
    QueueRecord,
    Record,
)
from holdfast.spark.log.entry_block import EntryBlock, cut_entries
from holdfast.store.record_codec import encode_records

SECOND = 1_000_000


class LogMaker:
    """Seals entries one behind the other, as a leader does."""

    def __init__(self) -> None:
        self.entries: list[Entry] = []

    def add(self, *records: Record, kind: int = KIND_RECORDS, body: bytes = b"") -> Entry:
        last = self.entries[-1] if self.entries else None
        entry = seal_entry(
            index=last.index + 1 if last else 1,
            term=1,
            kind=kind,
            timestamp=(last.timestamp if last else 1_700_000_000 * SECOND) + SECOND,
            first_record=last.next_record if last else 1,
            record_count=len(records),
            parts=encode_records(list(records)) if records else [body],
            previous_chain=last.chain if last else FIRST_CHAIN,
        )
        self.entries.append(entry)
        return entry

    def block(self) -> EntryBlock:
        return cut_entries(b"".join(entry.raw for entry in self.entries), 1)


def message(
    sequence: int,
    body: bytes = b"body",
    *,
    producer: str | None = None,
    number: int = 0,
    rewritten: int | None = None,
) -> MessageRecord:
    headers = b"content-type:text/plain\n"
    record = MessageRecord(1, sequence, headers, body, len(headers) + len(body), producer, number)
    record.stored_at = 1_700_000_000 * SECOND + sequence
    if rewritten is not None:
        record.rewritten, record.redelivery_count = True, rewritten
    return record


@pytest.fixture
def empty_log() -> LogMaker:
    """A log to be filled."""
    return LogMaker()


@pytest.fixture
def log() -> LogMaker:
    """One of everything that a log can hold."""
    log = LogMaker()
    log.add(kind=KIND_CONFIG, body=b'{"members":[]}')
    log.add(kind=KIND_NOOP)
    log.add(QueueRecord(1, "orders", 1, 4096), message(1), message(2, b"x" * 5000))
    log.add(message(3, b"", producer="p-ä", number=7), message(4, rewritten=3))
    log.add(AcknowledgeRecord(1, [1, 2]), DeadLetterRecord(1, [3]), DispatchMarkRecord(1, 9000))
    log.add(ProducerRecord("p-2", 5, 99), ForgetProducerRecord("p-3"), CountersRecord(8))
    log.add(PurgeRecord(1, 4), DeleteQueueRecord(1), HoldRecord("archive", 3, 1 << 30, 2))
    log.add(CleanedRecord(2), message(5, producer="p-2", number=6, rewritten=1))
    return log

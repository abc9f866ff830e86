"""
What is live at one moment of the log: which messages are stored and not settled as of an entry.

The log is gone through once without headers and bodies: of every message its queue, sequence and
place are noted, of every acknowledgement, rejection, purge and deletion what it removes. What is
left is where the bodies have to be read.

Invariants:
    A message's record stands before whatever settles it, and a copy by the cleaner too, so what
    was removed need not be remembered.
    Of several records of the same message the last one counts.

    A message that stands on several queues is live on each by itself.

Pure but for the source it reads. Memory: 20 bytes per live message.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from holdfast.errors import RecordNotFoundError
from holdfast.journal.record import RECORD_HEADER_BYTES
from holdfast.model.records import (
    AcknowledgeRecord,
    CleanedRecord,
    DeadLetterRecord,
    DeleteQueueRecord,
    DispatchMarkRecord,
    PurgeRecord,
    QueueRecord,
)
from holdfast.spark.log.entry_block import EntryBlock, Integers
from holdfast.spark.log.record_table import MessageRows, RecordTable
from holdfast.spark.log.source import LogPosition, LogSource
from holdfast.store.record_codec import decode_records

_SETTLE_MIN: Final = 1_000_000
"""Rows gathered before what is settled is taken out: each time costs as much as there is."""


class QueueBacklog:
    """The live messages of one queue. Rows are sorted by sequence once `settle` was called."""

    __slots__ = ("_gathered", "_places", "_removed", "_sequences", "is_deleted", "mark", "purged")

    def __init__(self) -> None:
        self.mark = 0
        """Messages up to here may have been seen by a consumer."""
        self.is_deleted = False
        self.purged = 0
        self._sequences: list[Integers] = []
        self._places: list[Integers] = []
        self._removed: list[Integers] = []
        self._gathered = 0

    def add(self, sequences: Integers, places: Integers) -> None:
        """Note messages and their places (see `place_of`)."""
        self._sequences.append(sequences)
        self._places.append(places)
        self._gathered += len(sequences)
        self._settle_if_many()

    def remove(self, sequences: list[int]) -> None:
        """Note what is settled."""
        self._removed.append(np.array(sequences, dtype=np.int64))
        self._gathered += len(sequences)
        self._settle_if_many()

    def settle(self) -> tuple[Integers, Integers]:
        """Return sequences and places of what is live."""
        if self.is_deleted or not self._sequences:
            empty = np.empty(0, dtype=np.int64)
            self._sequences, self._places, self._removed = [], [], []
            return empty, empty
        # Newest first, so that `unique` finds the last record of each message.
        sequences = np.concatenate(self._sequences)[::-1]
        places = np.concatenate(self._places)[::-1]
        sequences, chosen = np.unique(sequences, return_index=True)
        places = places[chosen]
        live = sequences > self.purged
        if self._removed:
            live &= ~np.isin(sequences, np.concatenate(self._removed))
        sequences, places = sequences[live], places[live]
        self._sequences, self._places, self._removed = [sequences], [places], []
        self._gathered = 0
        return sequences, places

    def _settle_if_many(self) -> None:
        if self._gathered > max(_SETTLE_MIN, len(self._sequences[0]) if self._sequences else 0):
            self.settle()


class Backlog:
    """What is live after the entries that were taken."""

    def __init__(self) -> None:
        self.queues: dict[int, QueueBacklog] = {}
        self.names: dict[int, str] = {}
        self.cleaned_by: dict[int, int] = {}
        """Which entry says that the log up to an index may go."""
        self.has_several = False
        """Whether a message was seen that stands on several queues."""

    def take(self, block: EntryBlock) -> None:
        """
        Go on by the entries of a block.

        Raises:
            CorruptRecordError: A record makes no sense.
        """
        table = RecordTable(block)
        rows = MessageRows(table)
        self.has_several |= rows.spread()
        numbers = rows.field("queue_number")
        sequences = rows.field("sequence")
        places = place_of(rows.entries + block.first_index, rows.ordinals)
        for number in np.unique(numbers).tolist():
            mask = numbers == number
            self._queue(number).add(sequences[mask], places[mask])
        others = np.flatnonzero(~table.is_message)
        starts = table.starts[others].tolist()
        ends = (table.starts[others] + RECORD_HEADER_BYTES + table.lengths[others]).tolist()
        entries = (table.entries[others] + block.first_index).tolist()
        for start, end, index in zip(starts, ends, entries, strict=True):
            for record in decode_records(block.buffer[start:end]):
                self._take(record, index)

    def marks(self) -> dict[int, int]:
        """Up to which sequence each queue's messages may have been seen."""
        return {number: queue.mark for number, queue in self.queues.items()}

    def live(self) -> tuple[Integers, Integers]:
        """
        The places of all live messages, in the order of the log, and the queue of each.

        The queues are left out (none are given) where no message stands on several.
        """
        empty = np.empty(0, dtype=np.int64)
        found = {number: queue.settle()[1] for number, queue in self.queues.items()}
        places = np.concatenate([empty, *found.values()])
        if not self.has_several:
            return np.sort(places), empty
        numbers = np.repeat([*found], [len(it) for it in found.values()]).astype(np.int64)
        order = np.lexsort((numbers, places))
        return places[order], numbers[order]

    def _queue(self, number: int) -> QueueBacklog:
        queue = self.queues.get(number)
        if queue is None:
            queue = self.queues[number] = QueueBacklog()
        return queue

    def _take(self, record: object, index: int) -> None:
        match record:
            case AcknowledgeRecord() | DeadLetterRecord():
                self._queue(record.queue_number).remove(record.sequences)
            case PurgeRecord():
                queue = self._queue(record.queue_number)
                queue.purged = max(queue.purged, record.through_sequence)
            case DeleteQueueRecord():
                self._queue(record.queue_number).is_deleted = True
            case QueueRecord():
                self.names[record.queue_number] = record.name
                queue = self._queue(record.queue_number)
                queue.mark = max(queue.mark, record.dispatch_mark)
            case DispatchMarkRecord():
                queue = self._queue(record.queue_number)
                queue.mark = max(queue.mark, record.mark)
            case CleanedRecord():
                self.cleaned_by.setdefault(record.through_index, index)
            case _:
                pass  # producers, counters and holds are no messages


def place_of(indexes: Integers, ordinals: Integers) -> Integers:
    """Return one number for entry and ordinal together, that sorts like the log."""
    return (indexes << 24) | ordinals


def index_of(places: Integers) -> Integers:
    """Return the entries of places."""
    return places >> 24


def backlog_as_of(
    source: LogSource, position: LogPosition, as_of: int, *, is_strict: bool = True
) -> Backlog:
    """
    Return what is live after entry `as_of`.

    Args:
        is_strict: False passes over damaged entries.

    Raises:
        RecordNotFoundError: The log was cleaned so far that it cannot tell any more.
        CorruptEntryError: An entry is damaged.
    """
    backlog = Backlog()
    for block in source.blocks(position.first_index, as_of):
        if isinstance(block, EntryBlock):
            backlog.take(block)
        elif is_strict:
            raise block.error
    if position.first_index > 1:
        _check_told(backlog, position, as_of)
    return backlog


def _check_told(backlog: Backlog, position: LogPosition, as_of: int) -> None:
    """Make sure that what lived in the dropped part was written again by `as_of`."""
    dropped = position.first_index - 1
    if any(through >= dropped for through in backlog.cleaned_by):
        return
    raise RecordNotFoundError(
        f"the log begins with entry {position.first_index:,}, and what still lived before it was"
        f" written again only after entry {as_of:,}: the backlog of that moment cannot be told"
    )

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
    What was moved is read where its bytes stand, and shown with the way that it came.
    What stands on a stored topic is live there, once, while any of its subscriptions needs it.

Pure but for the source it reads. Memory: 20 bytes per live message.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np

from holdfast.errors import RecordNotFoundError
from holdfast.journal.record import RECORD_HEADER_BYTES
from holdfast.model.facts import TOPIC_MARK
from holdfast.model.records import (
    AcknowledgeRecord,
    CleanedRecord,
    DeadLetterRecord,
    DeleteQueueRecord,
    DispatchMarkRecord,
    MoveRecord,
    PurgeRecord,
    QueueRecord,
    SubscriptionAcknowledgeRecord,
)
from holdfast.model.topic_records import SubscriptionRecord, TopicRecord
from holdfast.spark.log.entry_block import EntryBlock, Integers
from holdfast.spark.log.record_table import MessageRows, RecordTable
from holdfast.spark.log.source import LogPosition, LogSource
from holdfast.spark.log.topic_backlog import StoredTopics
from holdfast.store.fact_blocks import SKIPS
from holdfast.store.record_codec import FLAG_REWRITTEN, decode_records

_SETTLE_MIN: Final = 1_000_000
"""Rows gathered before what is settled is taken out: each time costs as much as there is."""


class QueueBacklog:
    """The live messages of one queue. Rows are sorted by sequence once `settle` was called."""

    __slots__ = (
        "_gathered",
        "_places",
        "_removed",
        "_sequences",
        "is_deleted",
        "mark",
        "moved_by",
        "purged",
    )

    def __init__(self) -> None:
        self.mark = 0
        """Messages up to here may have been seen by a consumer."""
        self.is_deleted = False
        self.purged = 0
        self._sequences: list[Integers] = []
        self._places: list[Integers] = []
        self._removed: list[Integers] = []
        self._gathered = 0
        self.moved_by: dict[int, int] = {}
        """Of each message that was moved here, in which of all moves."""

    def add(self, sequences: Integers, places: Integers) -> None:
        """Note messages and their places (see `place_of`)."""
        self._sequences.append(sequences)
        self._places.append(places)
        self._gathered += len(sequences)
        self._settle_if_many()

    def is_sent(self, sequences: Integers) -> None:
        """Note that these have records of their own: the cleaner wrote what was moved again."""
        if self.moved_by:
            for sequence in sequences.tolist():
                self.moved_by.pop(sequence, None)

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

    @property
    def gathered(self) -> int:
        """How much is noted, with what was settled since it was put in order."""
        return sum(map(len, self._sequences))

    def unmoved(self) -> Integers:
        """Return the places of what is live and was sent here."""
        sequences, places = self.settle()
        if not self.moved_by:
            return places
        moved = np.fromiter(self.moved_by, dtype=np.int64, count=len(self.moved_by))
        return places[~np.isin(sequences, moved)]

    def _settle_if_many(self) -> None:
        if self._gathered > max(_SETTLE_MIN, len(self._sequences[0]) if self._sequences else 0):
            self.settle()


class MovedRows(NamedTuple):
    """Messages that live where they were moved to, a row each, sorted by where their bytes are."""

    places: Integers
    queues: Integers
    sequences: Integers
    moved_by: Integers
    """Which of the moves has put each there."""

    moves: list[MoveRecord]

    def part(self, start: int, stop: int) -> MovedRows:
        """Give the rows from one to another, and the moves of these alone."""
        wanted, moved_by = np.unique(self.moved_by[start:stop], return_inverse=True)
        return MovedRows(
            self.places[start:stop],
            self.queues[start:stop],
            self.sequences[start:stop],
            moved_by.astype(np.int64),
            [self.moves[which] for which in wanted.tolist()],
        )


class Backlog:
    """What is live after the entries that were taken."""

    def __init__(self) -> None:
        self.queues: dict[int, QueueBacklog] = {}
        self.names: dict[int, str] = {}
        self.cleaned_by: dict[int, int] = {}
        """Which entry says that the log up to an index may go."""
        self.has_several = False
        """Whether a message was seen that stands on several queues."""
        self.moves: list[MoveRecord] = []
        """All of them, in the order of the log."""
        self._pending: list[int] = []
        """Those whose messages were not yet looked up on the queue that they come from."""
        self._pending_sources: dict[int, set[int]] = {}
        self._pending_targets: dict[int, set[int]] = {}
        """Of these by queue what leaves it, and what comes to it."""
        self._topics = StoredTopics()
        self._topics_look_at = _SETTLE_MIN
        """At so many messages of topics it is seen which of them somebody needs."""

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
        self._note_skips(rows)
        for number in np.unique(numbers).tolist():
            mask = numbers == number
            self._queue(number).add(sequences[mask], places[mask])
            self._queue(number).is_sent(sequences[mask])
        others = np.flatnonzero(~table.is_message)
        starts = table.starts[others].tolist()
        ends = (table.starts[others] + RECORD_HEADER_BYTES + table.lengths[others]).tolist()
        entries = (table.entries[others] + block.first_index).tolist()
        for start, end, index in zip(starts, ends, entries, strict=True):
            for record in decode_records(block.buffer[start:end]):
                self._take(record, index)
        self._move()
        if self._topics.by_number:
            self._settle_topics_if_many()

    def _note_skips(self, rows: MessageRows) -> None:
        """Note which subscriptions do not want these messages."""
        for row, facts in rows.facts(SKIPS).items():
            fixed = rows.fixed[row]
            topic = self._topics.topic(int(fixed["queue_number"]))
            # A copy says so of those, too, that are done with it: who was there knows them.
            if not (topic.is_whole and int(fixed["flags"]) & FLAG_REWRITTEN):
                topic.skipped(int(fixed["sequence"]), facts.skips)

    def _settle_topics_if_many(self) -> None:
        numbers = self._topics.by_number
        if sum(self._queue(it).gathered for it in numbers) > self._topics_look_at:
            self._settle_topics()
            left = sum(self._queue(it).gathered for it in numbers)
            self._topics_look_at = max(_SETTLE_MIN, 2 * left)

    def _settle_topics(self) -> None:
        """Take what nobody needs off the topics."""
        for number, topic in self._topics.by_number.items():
            queue = self._queue(number)
            sequences, _ = queue.settle()
            needed = topic.needed(sequences)
            if not needed.all():
                queue.remove(sequences[~needed].tolist())
            topic.forget_all_but(sequences[needed])

    def marks(self) -> dict[int, int]:
        """Up to which sequence each queue's messages may have been seen."""
        return {number: queue.mark for number, queue in self.queues.items()}

    def live(self) -> tuple[Integers, Integers]:
        """
        The places of all live messages, in the order of the log, and the queue of each.

        The queues are left out (none are given) where no message stands on several.
        """
        self._settle_topics()
        empty = np.empty(0, dtype=np.int64)
        found = {number: queue.unmoved() for number, queue in self.queues.items()}
        places = np.concatenate([empty, *found.values()])
        if not self.has_several:
            return np.sort(places), empty
        numbers = np.repeat([*found], [len(it) for it in found.values()]).astype(np.int64)
        order = np.lexsort((numbers, places))
        return places[order], numbers[order]

    def moved(self) -> MovedRows:
        """Give what lives where it was moved to, in the order of where its bytes stand."""
        self._settle_topics()
        rows = [
            (place, number, sequence, queue.moved_by[sequence])
            for number, queue in self.queues.items()
            if queue.moved_by
            for sequence, place in zip(*(each.tolist() for each in queue.settle()), strict=True)
            if sequence in queue.moved_by
        ]
        rows.sort()
        places, queues, sequences, moved_by = np.array(rows, dtype=np.int64).reshape(len(rows), 4).T
        return MovedRows(places, queues, sequences, moved_by, self.moves)

    def _note_move(self, record: MoveRecord) -> None:
        """Look it up later, with others: what is on a queue has to be put in order for it."""
        if record.queue_number in self._pending_targets:
            self._move()
        self._pending.append(len(self.moves))
        self._pending_sources.setdefault(record.queue_number, set()).update(record.sequences)
        coming = self._pending_targets.setdefault(record.target_number, set())
        coming.update(record.target_sequences)
        self.moves.append(record)

    def _move_before(self, number: int, sequences: list[int] | None = None) -> None:
        """Look up what is being moved, if what comes now takes any of it off a queue."""
        for pending in (self._pending_sources, self._pending_targets):
            moving = pending.get(number)
            if moving and (sequences is None or not moving.isdisjoint(sequences)):
                self._move()
                return

    def _move(self) -> None:
        pending, self._pending = self._pending, []
        self._pending_sources, self._pending_targets = {}, {}
        by_source: dict[int, list[int]] = {}
        for which in pending:
            by_source.setdefault(self.moves[which].queue_number, []).append(which)
        for number, chosen in by_source.items():
            subscription = self._topics.subscriptions.get(number)
            source = self._queue(number if subscription is None else subscription.topic.number)
            sequences, places = source.settle()
            if subscription is not None:
                needed = subscription.needs(sequences)
                sequences, places = sequences[needed], places[needed]
            for which in chosen:
                record = self.moves[which]
                wanted = np.array(record.sequences, dtype=np.int64)
                at = np.searchsorted(sequences, wanted)
                at[at == len(sequences)] = 0
                lives = sequences[at] == wanted if len(sequences) else wanted < 0
                if record.target_number:
                    targets = np.array(record.target_sequences, dtype=np.int64)
                    target = self._queue(record.target_number)
                    # Of a block messages come first: what was written again is there already.
                    lives &= ~np.isin(targets, target.settle()[0])
                    target.moved_by.update(dict.fromkeys(targets[lives].tolist(), which))
                    target.add(targets[lives], places[at[lives]])
                if record.is_copy:
                    continue
                if subscription is None:
                    source.remove(record.sequences)
                else:
                    subscription.done(record.sequences)

    def _queue(self, number: int) -> QueueBacklog:
        queue = self.queues.get(number)
        if queue is None:
            queue = self.queues[number] = QueueBacklog()
        return queue

    def _take(self, record: object, index: int) -> None:
        match record:
            case MoveRecord():
                if record.topic_number:
                    self._topics.subscription(record.queue_number, record.topic_number)
                self._note_move(record)
            case SubscriptionAcknowledgeRecord():
                self._move_before(record.queue_number, record.sequences)
                self._topics.settled(record)
            case AcknowledgeRecord() | DeadLetterRecord():
                self._move_before(record.queue_number, record.sequences)
                self._queue(record.queue_number).remove(record.sequences)
            case PurgeRecord() if record.topic_number:
                self._move_before(record.queue_number)
                self._topics.purged(record)
            case DeleteQueueRecord() if record.topic_number:
                self._move_before(record.queue_number)
                self._topics.deleted(record)
            case TopicRecord():
                self.names[record.topic_number] = f"{TOPIC_MARK}{record.name}"
                self._queue(record.topic_number)
                self._topics.topic(record.topic_number).declared(record)
            case SubscriptionRecord():
                self._topics.declared(record)
                self._note_mark(record.topic_number, record.dispatch_mark)
            case PurgeRecord():
                self._move_before(record.queue_number)
                queue = self._queue(record.queue_number)
                queue.purged = max(queue.purged, record.through_sequence)
            case DeleteQueueRecord():
                self._move()  # Of its subscriptions, too, if it is a topic.
                self._queue(record.queue_number).is_deleted = True
            case QueueRecord():
                self.names[record.queue_number] = record.name
                self._note_mark(record.queue_number, record.dispatch_mark)
            case DispatchMarkRecord():
                subscription = self._topics.subscriptions.get(record.queue_number)
                of_topic = subscription is not None and subscription.topic.number
                self._note_mark(of_topic or record.queue_number, record.mark)
            case CleanedRecord():
                self.cleaned_by.setdefault(record.through_index, index)
            case _:
                pass  # producers, counters and holds are no messages

    def _note_mark(self, number: int, mark: int) -> None:
        queue = self._queue(number)
        queue.mark = max(queue.mark, mark)


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

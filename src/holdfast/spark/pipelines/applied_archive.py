"""
What lived in a small archive, worked out here, by what the broker itself makes of the records.

Spark's first queries take seconds, however little they ask: each is planned, compiled and run cold.
A hundred thousand records are applied in less. `queried_archive` gives the same of an archive of
any size; tests hold both to one log of operations.

Invariants:
    The archive is whole up to the moment: the records are applied as a node does it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, Self

import pyarrow as pa

from holdfast.broker.lasting.producers import unpack_producer
from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.lasting.topics import LastingSubscription, LastingTopic
from holdfast.broker.settings import BrokerSettings
from holdfast.model.records import (
    FiredRecord,
    MessageRecord,
    ProducerRecord,
    QueueRecord,
    Record,
    SubscriptionAcknowledgeRecord,
)
from holdfast.model.schedules import SCHEDULE_QUEUE
from holdfast.model.topic_records import SubscriptionRecord, TopicRecord
from holdfast.spark.archive.manifests import ArchivedFile
from holdfast.spark.archive.places import Place
from holdfast.spark.archive.rows import ENTRY_ROW
from holdfast.spark.archive.store import Archive
from holdfast.spark.pipelines.log_state import LastingState
from holdfast.spark.pipelines.message_packing import PLACE_COLUMNS, Packed, packed
from holdfast.spark.pipelines.topic_rows import SETTLED_MAX
from holdfast.store.fact_blocks import unpack_facts
from holdfast.store.record_codec import decode_records, encode_records

ROWS_MAX: Final = 100_000
"""Two seconds of one core."""
BYTES_MAX: Final = 256 * 1024 * 1024
FILES_MAX: Final = 128
"""They are read one after the other, and an object store may take a tenth of a second for each."""

_COLUMNS: Final = (
    "index",
    "ordinal",
    "record_number",
    "term",
    "entry_time",
    "chain",
    "kind",
    "queue_number",
    "sequence",
    "producer_id",
    "producer_sequence",
    "rewritten",
    "body_size",
    "record",
)


def is_small(files: list[ArchivedFile], rows_max: int = ROWS_MAX) -> bool:
    """Whether these data files are so few and small that one process is done with them soonest."""
    return (
        len(files) <= FILES_MAX
        and sum(file.rows for file in files) <= rows_max
        and sum(file.bytes for file in files) <= BYTES_MAX
    )


class AppliedArchive:
    """An archive up to an entry, which these files hold whole, in the order of the log."""

    def __init__(self, archive: Archive, files: list[ArchivedFile], as_of: int) -> None:
        """
        Read the files without contents, and apply what they hold.

        Raises:
            CorruptArchiveError: One is no such file.
            CorruptRecordError: A record makes no sense.
        """
        self._archive = archive
        self._files = files
        self._as_of = as_of
        self._state = BrokerState(BrokerSettings())
        self._homes: dict[int, tuple[str, int]] = {}
        """Of each message's record the file that holds it, and the bytes of the body."""
        self._moves: dict[int, bytes] = {}
        """Of each record that moves messages the bytes."""
        self._last: Mapping[str, Any] | None = None
        for file in files:
            for batch in archive.batches(file, list(_COLUMNS)):
                self._apply(file.path, batch)

    def __enter__(self) -> Self:
        """It is read already."""
        return self

    def __exit__(self, *_: object) -> None:
        """There is nothing to give back."""

    def _apply(self, path: str, batch: pa.RecordBatch) -> None:
        at = batch.schema.get_field_index("entry_time")
        times = batch.column(at).cast(pa.timestamp("us", tz="UTC")).cast(pa.int64())
        rows = batch.set_column(at, "entry_time", times).to_pylist()
        for row in rows:
            if row["index"] > self._as_of:
                return
            self._last = row
            if row["ordinal"] == ENTRY_ROW:
                continue
            number = row["record_number"]
            if row["kind"] == "message":
                self._homes[number] = path, row["body_size"]
            elif row["kind"] == "move":
                self._moves[number] = row["record"]
            self._state.apply(number, [_record(row)], row["entry_time"], row["term"])

    def lasting_state(self) -> LastingState:
        """Give queues, producers, counters, policies and users."""
        state = self._state
        queues = [
            QueueRecord(queue.number, queue.name, queue.next_sequence, queue.dispatch_mark)
            for number, queue in sorted(state.queues.items())
            if queue.is_declared and not isinstance(queue, LastingTopic | LastingSubscription)
        ]
        producers = []
        for producer_id, value in sorted(state.producers.as_they_are()):
            producer = unpack_producer(value)
            producers.append(ProducerRecord(producer_id, producer.last, producer.used_at))
        next_number = max(state.next_queue_number, *(number + 1 for number in state.queues), 1)
        policies = tuple(state.policies.by_key.values())
        return LastingState(
            *(tuple(queues), tuple(producers), next_number, policies),
            topics=tuple(_topics(state)),
            subscriptions=tuple(map(_subscription, state.subscriptions.values())),
            settled=tuple(_settled(state)),
            access=tuple(state.access.records()),
        )

    def last_record(self) -> Mapping[str, Any] | None:
        """Give where the last record stands, and what its entry says; None if there is none."""
        return None if self._last is None else {**self._last, "time": self._last["entry_time"]}

    def queues(self) -> Iterable[Mapping[str, Any]]:
        """Say of each queue on which something lives how much, and from where to where."""
        for number, queue in self._state.queues.items():
            index = queue.index
            if not index.live_count or isinstance(queue, LastingSubscription):
                continue
            first, last = index.first(), index.last()
            homes = map(index.record_number, index.sequences(first, last + 1))
            yield {
                "queue_number": number,
                "messages": index.live_count,
                "bytes": sum(self._homes[home][1] for home in homes),
                "first": first,
                "last": last,
            }

    def packed(self, _scratch: Place, cluster: str) -> Iterator[Packed]:
        """Give what lives, file by file."""
        living: dict[str, list[tuple[int, int, int, bytes | None]]] = defaultdict(list)
        for number, queue in self._state.queues.items():
            index = queue.index
            if isinstance(queue, LastingSubscription):
                continue  # Its messages are its topic's.
            for sequence in index.sequences(index.first(), index.last() + 1):
                home = index.record_number(sequence)
                move = self._moves.get(index.move_number(sequence))
                if queue.name == SCHEDULE_QUEUE:
                    due = index.expires_ms(sequence), index.repeats(sequence)
                    move = b"".join(encode_records([FiredRecord(number, sequence, *due)]))
                living[self._homes[home][0]].append((home, number, sequence, move))
        for file in self._files:
            if places := living.get(file.path):
                *columns, moves = zip(*places, strict=True)
                arrays = [pa.array(each, pa.int64()) for each in columns]
                arrays.append(pa.array(moves, pa.binary()))
                table = pa.table(dict(zip(PLACE_COLUMNS, arrays, strict=True)))
                yield from packed(self._archive, file, table, cluster)


def _topics(state: BrokerState) -> Iterator[TopicRecord]:
    for topic in state.topics.values():
        yield TopicRecord(topic.number, topic.name, topic.next_sequence, topic.declared_count)


def _subscription(subscription: LastingSubscription) -> SubscriptionRecord:
    return SubscriptionRecord(
        subscription.number,
        subscription.topic.number,
        subscription.index.slot,
        subscription.client_id,
        subscription.name,
        selector=subscription.selector,
        has_no_local=subscription.has_no_local,
        first_sequence=subscription.index.first() or subscription.next_sequence,
        dispatch_mark=subscription.dispatch_mark,
        detached_at=subscription.detached_at,
        owner=subscription.owner,
    )


def _settled(state: BrokerState) -> Iterator[SubscriptionAcknowledgeRecord]:
    """Say of what lives on topics, for others, which subscriptions are done with it."""
    for topic in state.topics.values():
        lives = list(topic.index.sequences(topic.index.first(), topic.index.last() + 1))
        for number, subscription in topic.subscriptions.items():
            first = subscription.index.first()
            is_live = subscription.index.is_live
            done = [it for it in lives if first and it > first and not is_live(it)]
            for begin in range(0, len(done), SETTLED_MAX):
                some = done[begin : begin + SETTLED_MAX]
                yield SubscriptionAcknowledgeRecord(number, some, topic.number)


def _record(row: Mapping[str, Any]) -> Record:
    """Give a row's record, a message without its content."""
    if row["kind"] != "message":
        return next(decode_records(row["record"]))
    record = MessageRecord(
        row["queue_number"] or 0,
        row["sequence"] or 0,
        None,
        None,
        row["body_size"],
        row["producer_id"],
        row["producer_sequence"] or 0,
    )
    record.rewritten = row["rewritten"]
    if row["record"] is not None:
        record.facts = unpack_facts(row["record"])
    return record

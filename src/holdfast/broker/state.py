"""
Lasting state: what the log says, the same on every node that applied the same entries.

`apply` is the only thing that changes it. Contents (headers and bodies) are not state: the leader
keeps some in memory for its consumers, up to a limit, and anybody can read the rest from the log.

Invariants:
    Equal logs give equal `digest()`s.
    A record about something unknown changes nothing, except a message: its queue's declaration was
    written again further on, so a nameless queue holds its place until then.
"""

from __future__ import annotations

import hashlib
from collections import deque
from collections.abc import Iterable
from typing import Any

from holdfast.broker.producers import Producers
from holdfast.broker.queue import Queue
from holdfast.broker.settings import BrokerSettings
from holdfast.broker.snapshot import Snapshot, encode_state
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


class BrokerState:
    """Queues, producers and counters of one broker cluster."""

    __slots__ = (
        "appliers",
        "by_name",
        "cached_bytes",
        "cleaned_through",
        "counters_home",
        "hold_homes",
        "holds",
        "next_queue_number",
        "overhead",
        "plans",
        "producers",
        "queues",
        "settings",
        "snapshot",
        "timestamp",
        "touched",
        "volatile_bytes",
    )

    def __init__(self, settings: BrokerSettings) -> None:
        self.settings = settings
        self.overhead = settings.message_memory_overhead_bytes
        self.queues: dict[int, Queue] = {}
        self.by_name: dict[str, Queue] = {}
        """The queues by name; on the leader also those whose declaration is on its way."""
        self.plans: dict[int, Queue] = {}
        """On the leader, by number: queues whose declaration is on its way."""
        self.producers = Producers()
        self.next_queue_number = 1
        self.counters_home = 0
        self.cleaned_through = 0
        """The log up to this entry holds nothing that lives; each node may drop it."""
        self.timestamp = 0
        """Log time of what is being applied, in microseconds."""
        self.snapshot: Snapshot | None = None
        """What must be told of records before they change anything; see there."""
        self.holds: dict[str, HoldRecord] = {}
        """Named readers of the log, and from where on it is kept for each."""
        self.hold_homes: dict[str, int] = {}
        self.cached_bytes = 0
        """Contents of stored messages held in memory, with their overhead."""
        self.volatile_bytes = 0
        """On the leader: non-persistent messages on queues, with their overhead."""
        self.touched: deque[Queue] = deque()
        """Queues that may have something new to dispatch."""
        self.appliers: dict[type, Any] = {
            AcknowledgeRecord: self._apply_acknowledge,
            DeadLetterRecord: self._apply_acknowledge,
            HoldRecord: self._apply_hold,
            QueueRecord: self._apply_queue,
            DispatchMarkRecord: self._apply_dispatch_mark,
            PurgeRecord: self._apply_purge,
            DeleteQueueRecord: self._apply_delete_queue,
            ProducerRecord: self._apply_producer,
            ForgetProducerRecord: self._apply_forget_producer,
            CountersRecord: self._apply_counters,
            CleanedRecord: self._apply_cleaned,
        }

    def apply(self, first_record: int, records: Iterable[Record], timestamp: int) -> None:
        """
        Change the state by committed records, numbered from `first_record` on.

        `timestamp` is the entry's, in microseconds. A message that comes with its body is kept in
        memory while there is room.
        """
        self.timestamp = timestamp
        if self.snapshot is not None:
            records = self.snapshot.ahead_of(records)
        number = first_record
        queues = self.queues
        memory_max = self.settings.memory_bytes - self.volatile_bytes
        overhead = self.overhead
        for record in records:
            if type(record) is MessageRecord:
                queue = queues.get(record.queue_number)
                if queue is None:
                    queue = queues[record.queue_number] = Queue(record.queue_number, "")
                sequence = record.sequence
                size = record.size
                producer_id = record.producer_id
                in_log = size if producer_id is None else size + len(producer_id) + 8
                if queue.index.put(sequence, number, in_log):
                    queue.enqueued_total += 1
                    cost = size + overhead
                    if record.body is not None and self.cached_bytes + cost <= memory_max:
                        queue.cache[sequence] = record
                        self.cached_bytes += cost
                if sequence >= queue.next_sequence:
                    queue.next_sequence = sequence + 1
                if producer_id is not None and not record.rewritten:
                    self.producers.stored(producer_id, record.producer_sequence, number, timestamp)
                if not queue.is_touched:
                    queue.is_touched = True
                    self.touched.append(queue)
            else:
                self.appliers[type(record)](record, number)
            number += 1

    @property
    def memory_bytes(self) -> int:
        """Contents held in memory, with their overhead."""
        return self.cached_bytes + self.volatile_bytes

    def touch(self, queue: Queue) -> None:
        """Note that `queue` may have something to dispatch."""
        if not queue.is_touched:
            queue.is_touched = True
            self.touched.append(queue)

    def forget_content(self, queue: Queue, sequence: int) -> None:
        """Drop a message's content from memory, if it is there."""
        record = queue.cache.pop(sequence, None)
        if record is not None:
            self.cached_bytes -= record.size + self.overhead
        if not queue.is_idle:
            if queue.redelivered:
                queue.redelivered.discard(sequence)
            if queue.withheld:
                queue.withheld.discard(sequence)

    def _apply_hold(self, record: HoldRecord, number: int) -> None:
        if record.index:
            self.holds[record.name] = record
            self.hold_homes[record.name] = number
        else:
            self.holds.pop(record.name, None)
            self.hold_homes.pop(record.name, None)

    def _apply_acknowledge(
        self, record: AcknowledgeRecord | DeadLetterRecord, _number: int
    ) -> None:
        queue = self.queues.get(record.queue_number)
        if queue is None:
            return
        remove = queue.index.remove
        forget = self.forget_content
        for sequence in record.sequences:
            if remove(sequence) >= 0:
                queue.acknowledged_total += 1
                forget(queue, sequence)

    def _apply_queue(self, record: QueueRecord, number: int) -> None:
        queue = self.queues.get(record.queue_number)
        if queue is None:
            queue = self.plans.pop(record.queue_number, None)
            if queue is None:
                queue = Queue(record.queue_number, record.name)
            self.queues[record.queue_number] = queue
        queue.name = record.name
        queue.is_declared = True
        queue.home = number
        queue.next_sequence = max(queue.next_sequence, record.next_sequence)
        queue.dispatch_mark = max(queue.dispatch_mark, record.dispatch_mark)
        if not queue.is_deleted:  # Else the leader has planned its deletion, maybe its successor.
            self.by_name[record.name] = queue
        if record.queue_number >= self.next_queue_number:
            self.next_queue_number = record.queue_number + 1
            self.counters_home = number

    def _apply_dispatch_mark(self, record: DispatchMarkRecord, _number: int) -> None:
        queue = self.queues.get(record.queue_number)
        if queue is not None and record.mark > queue.dispatch_mark:
            queue.dispatch_mark = record.mark
            self.touch(queue)

    def _apply_purge(self, record: PurgeRecord, _number: int) -> None:
        queue = self.queues.get(record.queue_number)
        if queue is None:
            return
        through = record.through_sequence
        queue.acknowledged_total += queue.index.drop_through(through)
        own = () if queue.is_idle else (queue.redelivered, queue.withheld)
        for known in (queue.cache, *own):
            for sequence in [each for each in known if 0 < each <= through]:
                self.forget_content(queue, sequence)

    def _apply_delete_queue(self, record: DeleteQueueRecord, _number: int) -> None:
        queue = self.queues.pop(record.queue_number, None)
        if queue is None:
            return
        queue.is_deleted = True
        if queue.is_touched:
            queue.is_touched = False
            self.touched.remove(queue)
        for sequence in list(queue.cache):
            self.forget_content(queue, sequence)
        if self.by_name.get(queue.name) is queue:
            del self.by_name[queue.name]

    def _apply_producer(self, record: ProducerRecord, number: int) -> None:
        used_at = record.used_at or self.timestamp
        self.producers.stored(record.producer_id, record.sequence, number, used_at)

    def _apply_forget_producer(self, record: ForgetProducerRecord, _number: int) -> None:
        self.producers.forget(record.producer_id)

    def _apply_counters(self, record: CountersRecord, number: int) -> None:
        self.next_queue_number = max(self.next_queue_number, record.next_queue_number)
        self.counters_home = number

    def _apply_cleaned(self, record: CleanedRecord, _number: int) -> None:
        self.cleaned_through = max(self.cleaned_through, record.through_index)

    def live_count(self) -> int:
        """How many persistent messages live."""
        return sum(queue.index.live_count for queue in self.queues.values())

    def live_bytes(self) -> int:
        """How many bytes the live persistent messages have."""
        return sum(queue.index.live_bytes for queue in self.queues.values())

    def digest(self) -> bytes:
        """Give 16 bytes that are equal where the lasting state is equal."""
        whole = hashlib.blake2b(digest_size=16)
        for part in encode_state(self, canonical=True):
            whole.update(part)
        return whole.digest()

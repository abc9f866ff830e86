"""
What in an old part of the log still lives, and must be written again before that part may go.

A message lives if its queue says that this very record holds it. Acknowledgements never need
writing again: what they refer to is older and goes first (design.md 4). Beside messages, each
queue, producer and counter has a *home*: the newest record that carries it whole.

What an acknowledgement, purge or deletion under way is about to remove is left out: written again
behind that record it would live once more after a restart.
"""

from __future__ import annotations

from holdfast.broker.broker import Broker
from holdfast.model.records import (
    AcknowledgeRecord,
    CountersRecord,
    DeadLetterRecord,
    ForgetProducerRecord,
    HoldRecord,
    MessageRecord,
    ProducerRecord,
    QueueRecord,
    Record,
)


def settling(broker: Broker) -> dict[int, set[int]]:
    """Give, by queue number, the sequences whose acknowledgement is on its way to the log."""
    found: dict[int, set[int]] = {}
    for queue in broker.acknowledged_queues:
        found.setdefault(queue.number, set()).update(queue.acknowledged)
    for batch in (*broker.in_flight, broker.batch):
        for record in batch.records:
            if type(record) is AcknowledgeRecord or type(record) is DeadLetterRecord:
                found.setdefault(record.queue_number, set()).update(record.sequences)
    return found


def is_kept(
    broker: Broker, record: MessageRecord, record_number: int, leaving: dict[int, set[int]]
) -> bool:
    """Whether this record is what keeps its message alive, and goes on doing so."""
    queue = broker.state.queues.get(record.queue_number)
    if queue is None or queue.is_deleted or record.sequence <= queue.purging_through:
        return False
    if queue.index.record_number(record.sequence) != record_number:
        return False
    return record.sequence not in leaving.get(record.queue_number, ())


def live_copy(
    broker: Broker,
    record: MessageRecord,
    record_number: int,
    stored_at: int,
    leaving: dict[int, set[int]],
) -> MessageRecord | None:
    """Give the record that keeps this message alive when its segment goes; None if it is dead."""
    if not is_kept(broker, record, record_number, leaving):
        return None
    copy = MessageRecord(
        record.queue_number,
        record.sequence,
        record.headers,
        record.body,
        record.size,
        record.producer_id,
        record.producer_sequence,
    )
    copy.rewritten = True
    copy.redelivery_count = record.redelivery_count
    copy.stored_at = record.stored_at or stored_at
    return copy


def homeless(broker: Broker, through_record: int, now_microseconds: int) -> list[Record]:
    """
    Give the records that carry on what has its home at or before `through_record`.

    A queue's record says what is assigned, not what is applied: everything on its way to the log
    stands before this record there, and may be cleaned away before it.
    """
    state = broker.state
    records: list[Record] = []
    if state.counters_home <= through_record:
        number = max(broker.next_queue_number, state.next_queue_number)
        records.append(CountersRecord(number))
    records.extend(
        QueueRecord(queue.number, queue.name, queue.assigned_sequence, queue.asked_mark)
        for queue in state.queues.values()
        if queue.is_declared and not queue.is_deleted and queue.home <= through_record
    )
    # A hold that is moved or ended by a record on its way must not come back behind it.
    moving = {
        record.name
        for batch in (*broker.in_flight, broker.batch)
        for record in batch.records
        if type(record) is HoldRecord
    }
    records.extend(
        hold
        for name, hold in state.holds.items()
        if state.hold_homes[name] <= through_record and name not in moving
    )
    idle_before = now_microseconds - int(broker.settings.producer_idle_seconds * 1_000_000)
    for producer_id, producer in state.producers.by_id.items():
        if not producer.last or producer.home > through_record:
            continue
        if producer.used_at < idle_before and producer.assigned == producer.last:
            records.append(ForgetProducerRecord(producer_id))
        else:
            records.append(ProducerRecord(producer_id, producer.last, producer.used_at))
    return records

"""
COMMIT: what a transaction held becomes part of one batch, so of one log entry, all or nothing.

Each queue keeps as many numbers free as the transaction has messages for it: that takes no time for
the messages. Many get theirs in steps, before the batch is sealed; until then nobody looks at them.

What can be refused is refused before anything is taken, so a refused commit may be repeated under
the same number.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from holdfast.broker.outputs import Publications, Replier
from holdfast.broker.producers import Verdict
from holdfast.broker.queue import Queue
from holdfast.broker.temporaries import require_room
from holdfast.broker.topic import Topic
from holdfast.broker.transactions import NUMBERED_PER_STEP, Run, Transaction, number_messages
from holdfast.model.records import ProducerRecord

if TYPE_CHECKING:
    from holdfast.broker.broker import Broker


def commit(
    broker: Broker,
    transaction: Transaction,
    replier: Replier,
    receipt: bytes | None,
    producer_id: str | None,
    producer_sequence: int,
) -> None:
    """Do what `Broker.commit` says."""
    missing = transaction.missing_queues(known := broker.state.by_name)
    if missing:
        require_room(len(known) + missing - 1, broker.settings.queue_count_max, "queues")
    is_new = producer_id is None or (
        broker.state.producers.check(producer_id, producer_sequence) is Verdict.NEW
    )
    # ---- From here on nothing is refused.
    if is_new:
        _put(broker, transaction, producer_id, producer_sequence)
    _settle(broker, transaction)
    if receipt is not None:
        # Also of a repetition: what it acknowledges was not in the first.
        broker.reply_after_pending(replier, receipt)


def _put(
    broker: Broker, transaction: Transaction, producer_id: str | None, producer_sequence: int
) -> None:
    if not broker.batch.has_room(transaction.size_bytes, broker.settings.batch_bytes_max):
        broker.close_batch()
    with broker.all_or_nothing(producer_id):
        runs: list[Run] = []
        try:
            put_sends(broker, transaction, runs)
            if producer_id is not None:
                broker.record(ProducerRecord(producer_id, producer_sequence))
        except Exception:
            for run in runs:
                run.queue.assigned_sequence = run.first
            raise
    if broker.batch.publications:
        broker.batch.is_urgent = True


def put_sends(broker: Broker, transaction: Transaction, runs: list[Run]) -> None:
    """
    Put the sends of a transaction into the batch; queues that are gone are declared.

    `runs` tells what numbers were taken, also if it fails in the middle.
    """
    current = {each: current_of(broker, each) for each in transaction.destinations}
    if transaction.publications:
        broker.batch.publications.append(Publications(current, transaction.publications))
    broker.uncommitted_bytes += broker.batch.add_messages(
        transaction.records, transaction.records_bytes
    )
    for destination, records in transaction.by_queue.items():
        queue = current[destination]
        assert isinstance(queue, Queue)
        runs.append(Run(queue, queue.assigned_sequence, records))
        queue.assigned_sequence += len(records)
        is_far = queue.assigned_sequence + (queue.mark_step >> 1) > queue.asked_mark + 1
        if is_far and queue.subscriptions:
            broker.advance_mark(queue)
    # Many get the numbers that are kept for them only as they are sealed.
    steps = number_messages(runs, broker.now_microseconds)
    if len(transaction.records) > NUMBERED_PER_STEP:
        broker.batch.unnumbered.append(steps)
        return
    for _ in steps:
        pass


def current_of(broker: Broker, destination: Queue | Topic) -> Queue | Topic:
    """Give what has the name of a held destination now: it may have been deleted since."""
    if not destination.is_deleted or destination.is_temporary:
        return destination
    if isinstance(destination, Queue):
        return broker.queue(destination.name)  # A record for the deleted one would be lost.
    return broker.topics.get(destination.name, destination)


def _settle(broker: Broker, transaction: Transaction) -> None:
    broker.held_bytes -= transaction.held_bytes
    for subscription, keys in transaction.settlements.items():
        if subscription.queue is not None:
            settle_all(broker, subscription.queue, keys)
        broker.refill(subscription)
    for queue, keys in transaction.late.items():
        settle_all(broker, queue, keys)


def settle_all(broker: Broker, queue: Queue, keys: list[int]) -> None:
    """
    Settle many at once, that a transaction had reserved or that were just in delivery.

    What is only in memory is freed in steps, and nobody else's meanwhile.
    """
    lasting = [key for key in keys if key > 0]
    if lasting:
        queue.reserved.difference_update(lasting)
        if not queue.acknowledged:
            broker.acknowledged_queues.append(queue)
        queue.acknowledged += lasting
        broker.batch.settled_count += len(lasting)
    if len(lasting) < len(keys):
        volatile = [key for key in keys if key < 0]
        queue.reserved.update(volatile)
        broker.errands.begin(_free(broker, queue, volatile))


def _free(broker: Broker, queue: Queue, keys: list[int]) -> Iterator[None]:
    """Settle non-persistent messages that nobody can have any more."""
    for place, key in enumerate(keys):
        if place and not place % broker.settings.step_count_max:
            yield
        broker.settle_transient(queue, key)
        queue.reserved.discard(key)

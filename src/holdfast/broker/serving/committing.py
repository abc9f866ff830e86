"""
COMMIT: what a transaction held becomes part of one batch, so of one log entry, all or nothing.

Each queue keeps as many numbers free as the transaction has messages for it: that takes no time for
the messages. Many get theirs in steps, before the batch is sealed; until then nobody looks at them.
Acknowledgements become part of the batch whole queues at a time. What is to be done for each of
them, and for each subscription, is an errand; until it is done, what they settle stays reserved.

What can be refused is refused before anything is taken, so a refused commit may be repeated under
the same number.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import TYPE_CHECKING

from holdfast.broker.lasting.producers import Verdict
from holdfast.broker.outputs import Batch, Publications, Publisher
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.temporaries import require_room
from holdfast.broker.serving.topic import Topic
from holdfast.broker.serving.transactions import (
    NUMBERED_PER_STEP,
    Run,
    Transaction,
    number_messages,
)
from holdfast.model.records import ProducerRecord

if TYPE_CHECKING:
    from holdfast.broker.broker import Broker

Told = tuple[Publisher, bytes | None]
"""Who is told, if anybody, that it is committed, and by what receipt."""


def commit(
    broker: Broker,
    transaction: Transaction,
    replier: Publisher,
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
    if is_new:
        _put(broker, transaction, (replier, receipt), producer_id, producer_sequence)
    else:
        broker.duplicates_total += len(transaction.records) + len(transaction.publications)
    _settle(broker, transaction)
    if receipt is not None and not (is_new and transaction.publications):
        # Also of a repetition: what it acknowledges was not in the first.
        broker.receipts.reply_after_pending(replier, receipt)


def _put(
    broker: Broker,
    transaction: Transaction,
    told: Told,
    producer_id: str | None,
    producer_sequence: int,
) -> None:
    if not broker.receipts.batch.has_room(transaction.size_bytes, broker.settings.batch_bytes_max):
        broker.receipts.close_batch()
    with broker.all_or_nothing(producer_id):
        runs: list[Run] = []
        try:
            put_sends(broker, transaction, told, runs)
            if producer_id is not None:
                broker.receipts.record(ProducerRecord(producer_id, producer_sequence))
        except Exception:
            for run in runs:
                run.queue.assigned_sequence = run.first
            raise
    if broker.receipts.batch.publications:
        broker.receipts.batch.is_urgent = True
    broker.errands.begin(_advance_marks(broker, runs))


def put_sends(broker: Broker, transaction: Transaction, told: Told, runs: list[Run]) -> None:
    """
    Put the sends of a transaction into the batch; queues that are gone are declared.

    With messages that are not kept go those who are told when these are out.
    `runs` tells what numbers were taken, also if it fails in the middle.
    """
    current = {each: current_of(broker, each) for each in transaction.destinations}
    if transaction.publications:
        held = transaction.publications
        broker.receipts.batch.publications.append(Publications(current, held, *told))
    broker.receipts.uncommitted_bytes += broker.receipts.batch.add_messages(
        transaction.records, transaction.records_bytes
    )
    for destination, records in transaction.by_queue.items():
        queue = current[destination]
        assert isinstance(queue, Queue)
        runs.append(Run(queue, queue.assigned_sequence, records))
        queue.assigned_sequence += len(records)
    # Many get the numbers that are kept for them only as they are sealed.
    steps = number_messages(runs, broker.now_microseconds)
    if len(transaction.records) > NUMBERED_PER_STEP:
        broker.receipts.batch.unnumbered.append(steps)
        return
    for _ in steps:
        pass


def _advance_marks(broker: Broker, runs: list[Run]) -> Iterator[None]:
    """Ask in steps for dispatch marks further ahead, where the messages come near to them."""
    for place, (queue, _, _) in enumerate(runs, 1):
        try:
            is_far = queue.assigned_sequence + (queue.mark_step >> 1) > queue.asked_mark + 1
            if is_far and queue.subscriptions and not queue.is_deleted:
                broker.advance_mark(queue)
        except Exception as error:  # noqa: BLE001 - its queue's, which is built anew
            broker.broken.append((queue, error))
        if not place % broker.settings.step_count_max:
            yield


def current_of(broker: Broker, destination: Queue | Topic) -> Queue | Topic:
    """Give what has the name of a held destination now: it may have been deleted since."""
    if not destination.is_deleted or destination.is_temporary:
        return destination
    if isinstance(destination, Queue):
        return broker.queue(destination.name)  # A record for the deleted one would be lost.
    return broker.topics.get(destination.name, destination)


def _settle(broker: Broker, transaction: Transaction) -> None:
    """
    Let all acknowledgements of a transaction be part of the batch, whole queues at a time.

    Until they are taken out of what is reserved, in steps, nobody else gets what they settle.
    """
    broker.held_bytes -= transaction.held_bytes
    for queue, keys in transaction.keys_by_queue.items():
        broker.receipts.settle(queue, keys)
    broker.errands.begin(_let_go(broker, transaction))


def settle_all(broker: Broker, queue: Queue, keys: list[int]) -> None:
    """
    Settle many at once that were just in delivery.

    What is only in memory is freed in steps, and nobody else's meanwhile.
    """
    lasting = [key for key in keys if key > 0]
    broker.receipts.settle(queue, lasting)
    if len(lasting) < len(keys):
        volatile = [key for key in keys if key < 0]
        queue.reserved.update(volatile)
        broker.errands.begin(_free(broker, queue, volatile))


def _let_go(broker: Broker, transaction: Transaction) -> Iterator[None]:
    """Do in steps what is left to be done for each key and each subscription of a COMMIT."""
    step_count = broker.settings.step_count_max
    effort = 0
    for subscription, queue, keys in chain(
        ((it, it.queue, keys) for it, keys in transaction.settlements.items()),
        ((None, queue, keys) for queue, keys in transaction.late.items()),
    ):
        if effort >= step_count:
            effort = 0
            yield
        if queue is not None:
            yield from _free(broker, queue, keys)
        if subscription is not None:
            broker.refill(subscription)
        effort += 1 + min(len(keys), step_count)


def _free(broker: Broker, queue: Queue, keys: list[int]) -> Iterator[None]:
    """Give up, in steps, what was reserved and is settled; what is only in memory ends here."""
    step_count = broker.settings.step_count_max
    for start in range(0, len(keys), step_count):
        if start:
            yield
        some = keys[start : start + step_count]
        try:
            for key in some:
                if key < 0:
                    broker.settle_transient(queue, key)
            queue.unreserve(some)
        except Exception as error:  # noqa: BLE001 - its queue's, which is built anew
            broker.broken.append((queue, error))


def publish_after_commit(broker: Broker, batch: Batch) -> Iterator[None]:
    """Do what `Broker.publish_after_commit` says."""
    effort = 0
    for publications in batch.publications:
        for destination, headers, body in publications.sends():
            try:
                if isinstance(destination, Topic):
                    message = broker.topic_message(headers, body)
                    broker.publishing.publish_later(destination, message)
                elif not destination.is_deleted:
                    broker.send_transient(destination, headers, body)
            except Exception as error:  # noqa: BLE001 - lasting state is applied already
                broker.broken.append((destination, error))
            effort += 1
            if effort >= broker.settings.step_count_max:
                effort = 0
                yield
        _confirm_publications(broker, publications)


def _confirm_publications(broker: Broker, publications: Publications) -> None:
    """Let who committed be told when its messages are out."""
    if publications.receipt is None:
        return
    is_for_topics = publications.is_for_topics
    confirm = broker.publishing.confirm_later if is_for_topics else broker.publishing.confirm
    confirm(publications.publisher, publications.receipt)

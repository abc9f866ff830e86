"""
Deliveries that end without being done: moved to the dead-letter queue, given back, withheld.

What rejecting moves and what it settles go into one batch, so into one log entry: a message is on
one of the two queues, whatever happens.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from holdfast.broker.outputs import Replier
from holdfast.broker.serving.dead_letters import with_origin
from holdfast.broker.serving.late import not_in_delivery
from holdfast.broker.serving.queue import Queue, TransientMessage
from holdfast.broker.serving.subscription import Subscription
from holdfast.model.facts import Cause, MessageFacts, Origin
from holdfast.model.format_level import FACTS_LEVEL
from holdfast.model.records import DeadLetterRecord, MessageRecord

if TYPE_CHECKING:
    from holdfast.broker.broker import Broker


def reject(
    broker: Broker,
    subscription: Subscription,
    key: int,
    record: MessageRecord | TransientMessage | None,
    told: tuple[Replier, bytes | None],
    message_id: str,
) -> None:
    """Do what `Broker.reject` says."""
    if key not in subscription.unacknowledged:
        raise not_in_delivery(key)
    replier, receipt = told
    queue = subscription.queue
    if queue is not None:
        size = record.size if record is not None else 0
        if not broker.receipts.batch.has_room(size, broker.settings.batch_bytes_max):
            broker.receipts.close_batch()  # Many small frames can move many large messages.
        is_moved = record is not None and queue.name != broker.settings.dead_letter_queue
        with broker.all_or_nothing():
            if record is not None and is_moved:
                _send_dead_letter(broker, queue, record, replier, message_id)
            if key > 0:
                broker.receipts.record(DeadLetterRecord(queue.number, [key]))
        broker.receipts.batch.dead_letter_count += is_moved
        if key < 0:
            broker.settle_transient(queue, key)
    del subscription.unacknowledged[key]
    if receipt is not None:
        broker.receipts.reply_after_pending(replier, receipt)
    broker.refill(subscription)


def _send_dead_letter(
    broker: Broker,
    queue: Queue,
    record: MessageRecord | TransientMessage,
    replier: Replier,
    message_id: str,
) -> None:
    assert record.headers is not None and record.body is not None
    origin = Origin(Cause.REJECTED, queue.name, message_id)
    dead_letters = broker.queue(broker.settings.dead_letter_queue)
    if broker.state.format_level < FACTS_LEVEL:
        broker.send(dead_letters, with_origin(record.headers, origin), record.body, replier, None)
        return
    receipts = broker.receipts
    place = len(receipts.batch.records)
    broker.send(dead_letters, record.headers, record.body, replier, None)
    sent = receipts.batch.records[place]
    assert type(sent) is MessageRecord
    # What it was is kept; where it stood, and from when on, is over.
    before = record.facts or MessageFacts()
    sent.facts = facts = replace(before, origin=origin, places=(), skips=b"", due_ms=None)
    receipts.batch.size_bytes += facts.size
    receipts.uncommitted_bytes += facts.size


def put_back(broker: Broker, subscription: Subscription, key: int) -> None:
    """Do what `Broker.put_back` says."""
    queue = subscription.queue
    assert queue is not None, "only queues keep messages"
    del subscription.unacknowledged[key]
    queue.give_back([key], redelivered=True, client=subscription.client)
    broker.state.touch(queue)
    broker.refill(subscription)


def withhold(broker: Broker, subscription: Subscription, key: int) -> None:
    """Do what `Broker.withhold` says."""
    queue = subscription.queue
    assert queue is not None, "only queues keep messages"
    subscription.unacknowledged.pop(key, None)
    if key in queue.acknowledged:
        queue.acknowledged.remove(key)  # Settled as it was dispatched, to one that never does.
    queue.withheld.add(key)
    broker.refill(subscription)

"""
What operators ask of queues: one record each, however much is on them.

What the record will remove is out of everybody's reach from the request on: it is delivered to
nobody any more. What comes after the request stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.broker.outputs import Replier
from holdfast.broker.serving.queue import Queue
from holdfast.errors import DestinationError
from holdfast.model.records import DeleteQueueRecord, PurgeRecord

if TYPE_CHECKING:
    from holdfast.broker.broker import Broker


def purge(broker: Broker, name: str, replier: Replier, receipt: bytes) -> int:
    """
    Remove every message now on a queue, also those in delivery; give their number.

    Raises:
        DestinationError: There is no such queue.
    """
    queue = _existing(broker, name)
    through = queue.assigned_sequence - 1
    removed = queue.index.live_count + len(queue.transients)
    broker.empty(queue)
    queue.purging_through = through
    queue.cursor = max(queue.cursor, through + 1)
    broker.receipts.record(PurgeRecord(queue.number, through))
    broker.receipts.reply_with_batch(replier, receipt)
    return removed


def delete(broker: Broker, name: str, replier: Replier, receipt: bytes) -> int:
    """
    Remove a queue with its messages; give their number.

    Raises:
        DestinationError: There is no such queue, or somebody consumes from it.
    """
    queue = _existing(broker, name)
    if queue.subscriptions:
        raise DestinationError(
            f"queue {name!r} has {len(queue.subscriptions)} consumers; disconnect them first"
        )
    removed = queue.index.live_count + len(queue.transients)
    queue.is_deleted = True
    del broker.state.by_name[name]
    broker.state.leaving[queue.number] = queue
    broker.empty(queue)
    broker.receipts.record(DeleteQueueRecord(queue.number))
    broker.receipts.reply_with_batch(replier, receipt)
    return removed


def _existing(broker: Broker, name: str) -> Queue:
    queue = broker.state.by_name.get(name)
    if queue is None or queue.is_deleted:
        raise DestinationError(f"there is no queue {name!r}")
    return queue

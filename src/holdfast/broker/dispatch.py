"""
Who gets the next message: pure choice, no delivery.

Consumers with room stand in a ring; each message goes to the one at the head, which then moves to
the tail. A consumer without room leaves the ring and is skipped until it has room again, so a slow
one holds nobody up.
"""

from __future__ import annotations

from holdfast.broker.queue import Queue
from holdfast.broker.subscription import AcknowledgeMode, Subscription
from holdfast.broker.topic import Delivery


def dispatch(queue: Queue, out: list[Delivery], auto_acknowledged: list[int]) -> None:
    """
    Assign as many messages of `queue` as there is room for, appending to `out`.

    Keys given to subscriptions that never acknowledge are appended to `auto_acknowledged`.
    """
    ready = queue.ready
    cache = queue.cache
    index = queue.index
    next_key = queue.next_key
    is_flagged = queue.is_flagged
    while ready:
        subscription = ready[0]
        receiver = subscription.receiver
        unacknowledged = subscription.unacknowledged
        if receiver.room_bytes <= 0 or len(unacknowledged) >= subscription.prefetch:
            ready.popleft()
            subscription.is_ready = False
            continue
        key = next_key()
        if not key:
            return
        flagged = is_flagged(key)
        if key > 0:
            record = cache.get(key)
            receiver.room_bytes -= record.size if record is not None else 1024
            out.append(
                (subscription, key, record, 0 if record else index.record_number(key), flagged)
            )
        else:
            transient = queue.transients[key]
            receiver.room_bytes -= transient.size
            out.append((subscription, key, transient, 0, flagged))
        if flagged:
            queue.redelivered_total += 1
        queue.delivered_total += 1
        if subscription.mode is AcknowledgeMode.AUTO:
            auto_acknowledged.append(key)
        else:
            unacknowledged[key] = None
        if len(ready) > 1:
            ready.rotate(-1)


def make_ready(subscription: Subscription) -> bool:
    """Put a subscription that has room into its queue's ring; True if it was not there."""
    queue = subscription.queue
    if queue is None or subscription.is_ready or subscription.is_closed:
        return False
    if not subscription.has_room():
        return False
    subscription.is_ready = True
    queue.ready.append(subscription)
    return True

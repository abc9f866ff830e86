"""
Who gets the next message: pure choice, no delivery.

Consumers with room stand in a ring; each message goes to the one at the head, which then moves to
the tail. A consumer without room leaves the ring and is skipped until it has room again, so a slow
one holds nobody up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from holdfast.broker.queue import Queue
from holdfast.broker.subscription import AcknowledgeMode, Subscription
from holdfast.broker.topic import Delivery


def dispatch(queue: Queue, settle: Callable[[Queue, int], None]) -> Iterator[Delivery]:
    """
    Assign messages of `queue` while there is room for them, each when its delivery is asked for.

    So it may be left off after any delivery. What goes to a subscription that never acknowledges
    is settled through `settle`.
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
            if subscription.is_closed:
                queue.closed_ready_count -= 1
            continue
        key = next_key()
        if not key:
            return
        flagged = is_flagged(key)
        if key > 0:
            record = cache.get(key)
            receiver.room_bytes -= record.size if record is not None else 1024
            delivery: Delivery = (
                subscription,
                key,
                record,
                0 if record else index.record_number(key),
                flagged,
            )
        else:
            transient = queue.transients[key]
            receiver.room_bytes -= transient.size
            delivery = (subscription, key, transient, 0, flagged)
        if flagged:
            queue.redelivered_total += 1
        queue.delivered_total += 1
        if subscription.mode is AcknowledgeMode.AUTO:
            settle(queue, key)
        else:
            unacknowledged[key] = None
        if len(ready) > 1:
            ready.rotate(-1)
        yield delivery


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


def next_mark(queue: Queue, step_max: int) -> int:
    """Give a mark further ahead, in steps that double while a backlog is drained."""
    backlog = queue.assigned_sequence - queue.cursor > queue.mark_step
    if backlog:
        queue.mark_step = min(queue.mark_step * 2, step_max)
    base = queue.cursor if backlog else queue.assigned_sequence
    return max(base, queue.dispatch_mark) + queue.mark_step

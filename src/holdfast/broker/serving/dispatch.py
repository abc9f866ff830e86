"""
Who gets the next message: pure choice, no delivery.

Consumers with room stand in a ring; each message goes to the one at the head, which then moves to
the tail. A consumer without room leaves the ring and is skipped until it has room again, so a slow
one holds nobody up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from holdfast.broker.serving.consumer import AcknowledgeMode
from holdfast.broker.serving.delivery import EFFORT_SHIFT, Delivery
from holdfast.broker.serving.publishing import Broken
from holdfast.broker.serving.queue import Queue

Settle = Callable[[Queue, int], None]


def dispatch(
    queue: Queue, settle: Settle, count_max: int, broken: Broken
) -> Iterator[list[Delivery]]:
    """
    Assign messages of `queue` while there is room for them, in steps of so many, when asked; large
    ones count for several.

    So it may be left off after any step, also after one in which only consumers without room were
    passed over; one that must be read from the log is the last of its
    step. What goes to a subscription that never acknowledges is settled through `settle`. A mistake
    of ours ends it and is put into `broken`, with the queue.
    """
    is_over = False
    while not is_over:
        step: list[Delivery] = []
        try:
            is_over = _assign(queue, settle, step, count_max)
        except Exception as error:  # noqa: BLE001 - its queue's, which is built anew
            broken.append((queue, error))
            is_over = True
        if step or not is_over:
            yield step


def _assign(queue: Queue, settle: Settle, step: list[Delivery], count_max: int) -> bool:
    """Put deliveries into a step; whether there is none after it."""
    ready = queue.ready
    cache = queue.cache
    transients = queue.transients
    next_key = queue.next_key
    flag_through = queue.flag_through
    redelivered = queue.redelivered
    returned, withheld = queue.returned, queue.withheld
    passed_over = 0
    left = count_max
    while ready:
        subscription = ready[0]
        receiver = subscription.receiver
        unacknowledged = subscription.unacknowledged
        if receiver.room_bytes <= 0 or len(unacknowledged) >= subscription.prefetch:
            ready.popleft()
            subscription.is_ready = False
            if subscription.is_closed:
                queue.closed_ready_count -= 1
            passed_over += 1
            if passed_over >= count_max:
                return False
            continue
        if returned or withheld:
            passed_over += queue.pass_over(count_max - passed_over)
            if passed_over >= count_max:
                return False
        key = next_key()
        if not key:
            return True
        record = cache.get(key) if key > 0 else transients[key]
        number = 0
        if record is not None:
            receiver.room_bytes -= record.size
            left -= record.size >> EFFORT_SHIFT
        else:
            receiver.room_bytes -= 1024
            number = queue.index.record_number(key)
        # As `is_flagged` says it, without a call for each message.
        flagged = 0 < key <= flag_through or key in redelivered
        step.append((subscription, key, record, number, flagged))
        if flagged:
            queue.redelivered_total += 1
        if subscription.mode is AcknowledgeMode.AUTO:
            settle(queue, key)
        else:
            unacknowledged[key] = None
        if len(ready) > 1:
            ready.rotate(-1)
        left -= 1
        if record is None or left <= 0:
            return False
    return True


def next_mark(queue: Queue, step_max: int) -> int:
    """Give a mark further ahead, in steps that double while a backlog is drained."""
    cursor, end = queue.cursor, queue.next_sequence
    if cursor >= end or queue.index.next_live(cursor, end) >= end:
        # Nothing of former leaders waits: what they left out is no backlog.
        cursor = max(cursor, queue.newest_before + 1)
    backlog = queue.assigned_sequence - cursor > queue.mark_step
    if backlog:
        queue.mark_step = min(queue.mark_step * 2, step_max)
    base = cursor if backlog else queue.assigned_sequence
    return max(base, queue.dispatch_mark) + queue.mark_step

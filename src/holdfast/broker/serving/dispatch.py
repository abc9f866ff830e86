"""
Deliveries of one queue, in steps, and the mark up to which they may go.

What goes to whom is the choice's (`choice`). Dispatch is not logged: a mark is, in steps ahead of
it, and nothing beyond the mark goes out; so a new leader knows what may have been seen.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from holdfast.broker.serving.delivery import Delivery
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
    step. What goes to a consumer that never acknowledges is settled through `settle`. A mistake
    of ours ends it and is put into `broken`, with the queue.
    """
    settle_key = partial(settle, queue)
    is_over = False
    while not is_over:
        step: list[Delivery] = []
        try:
            # Its choice each time: whoever a delivery broke may have had the queue built anew.
            is_over = queue.choice.assign(settle_key, step, count_max)
        except Exception as error:  # noqa: BLE001 - its queue's, which is built anew
            broken.append((queue, error))
            is_over = True
        if step and queue.time_limits is not None:
            queue.time_limits.begin(step)
        if step or not is_over:
            yield step


def next_mark(queue: Queue, step_max: int) -> int:
    """Give a mark further ahead, in steps that double while a backlog is drained."""
    cursor, end = queue.choice.cursor, queue.lasting.next_sequence
    if cursor >= end or queue.index.next_live(cursor, end) >= end:
        # Nothing of former leaders waits: what they left out is no backlog.
        cursor = max(cursor, queue.newest_before + 1)
    backlog = queue.assigned_sequence - cursor > queue.mark_step
    if backlog:
        queue.mark_step = min(queue.mark_step * 2, step_max)
    base = cursor if backlog else queue.assigned_sequence
    return max(base, queue.lasting.dispatch_mark) + queue.mark_step

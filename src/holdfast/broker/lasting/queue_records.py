"""
What is said of a queue as a whole, as it is applied: declared, marked, emptied, deleted.

What is taken off at once goes out of sight at once, and is let go of in steps.
"""

from __future__ import annotations

from typing import Protocol

from holdfast.broker.lasting.queue import LastingQueue
from holdfast.broker.lasting.topics import TopicState, delete, subscription_of, trim
from holdfast.model.records import (
    DeleteQueueRecord,
    DispatchMarkRecord,
    PurgeRecord,
    QueueRecord,
)


class Queues(TopicState, Protocol):
    """The state, as far as these change it."""

    expiring: dict[int, LastingQueue]

    def settled(self, queue: LastingQueue, before: tuple[int, int]) -> None:
        """Count what is gone since so many messages and bytes lived."""


def apply_queue(state: Queues, record: QueueRecord, number: int) -> None:
    """Declare a queue, or say again what it is."""
    queue = state.queues.get(record.queue_number)
    if queue is None:
        if state.planning is not None:
            queue = state.planning.planned(record.queue_number)
        if queue is None:
            queue = LastingQueue(record.queue_number, record.name)
        state.queues[record.queue_number] = queue
    queue.name = record.name
    queue.is_declared = True
    queue.home = number
    queue.next_sequence = max(queue.next_sequence, record.next_sequence)
    # Also where it only says again what was so: who has but the rest of the log must agree.
    queue.numbered_term = state.term
    queue.see(0, record.dispatch_mark)
    state.by_name[record.name] = queue
    state.note_number(record.queue_number, number)


def apply_dispatch_mark(state: Queues, record: DispatchMarkRecord, _number: int) -> None:
    """Let more of a queue be dispatched."""
    queue = state.queues.get(record.queue_number)
    if queue is not None and queue.see(record.first, record.mark) and queue.listener is not None:
        queue.listener.mark_moved()


def apply_purge(state: Queues, record: PurgeRecord, _number: int) -> None:
    """Take off what stands up to a sequence."""
    if record.topic_number:
        subscription = subscription_of(state, record)
        if subscription is not None:
            trim(state, subscription, record.through_sequence)
        return
    queue = state.queues.get(record.queue_number)
    if queue is None:
        return
    state.settled(queue, _empty(state, queue, record.through_sequence))
    if queue.listener is not None:
        queue.listener.purged()


def _empty(state: Queues, queue: LastingQueue, through: int) -> tuple[int, int]:
    """Take off what stands up to a sequence; gives how many messages and bytes lived before."""
    index = queue.index
    before = index.live_count, index.live_bytes
    state.discards.add(index.detach_through(through))
    return before


def apply_delete_queue(state: Queues, record: DeleteQueueRecord, _number: int) -> None:
    """Let a queue, and all that is on it, be no more."""
    queue = state.queues.pop(record.queue_number, None)
    if queue is None or type(queue) is not LastingQueue:
        delete(state, record, queue)
        return
    state.forgotten(*_empty(state, queue, queue.index.last()))
    if state.by_name.get(queue.name) is queue:
        del state.by_name[queue.name]
    state.expiring.pop(record.queue_number, None)
    queue.end()

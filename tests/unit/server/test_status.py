"""
The numbers of a status, for what `test_node` does not see.
"""

from __future__ import annotations

from holdfast.broker.queue import Queue, TransientMessage
from holdfast.server.status import queue_status


def test_a_queue_counts_what_is_stored_and_what_is_only_in_memory() -> None:
    """
    A person asks how many messages wait, not how they are kept.
    """
    queue = Queue(7, "orders")
    queue.index.put(1, 10, 100)
    queue.transients[-1] = TransientMessage(-1, b"", b"12345", 0)
    queue.enqueued_total, queue.acknowledged_total, queue.redelivered_total = 3, 1, 2

    status = queue_status(queue)
    assert (status.name, status.number) == ("orders", 7)
    assert (status.messages, status.bytes) == (2, 105)
    assert (status.enqueued, status.acknowledged, status.redelivered) == (3, 1, 2)
    assert (status.consumers, status.unacknowledged) == (0, 0)

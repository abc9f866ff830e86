"""
A queue's lasting half has nothing of the leader's but who listens.
"""

from __future__ import annotations

from holdfast.broker.lasting.queue import LastingQueue


def test_a_queue_that_nobody_leads_has_no_listener() -> None:
    """
    Nothing was said of it yet: it holds nothing, and begins at 1.
    """
    queue = LastingQueue(3, "orders")
    assert queue.listener is None
    assert (queue.number, queue.name, queue.next_sequence, queue.dispatch_mark) == (
        3,
        "orders",
        1,
        0,
    )
    assert (queue.is_declared, queue.index.live_count) == (False, 0)
    assert not hasattr(queue, "__dict__")

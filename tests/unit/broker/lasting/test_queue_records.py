"""
What is said of a queue as a whole; states of many queues are in `test_state`.
"""

from __future__ import annotations

from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.settings import BrokerSettings
from holdfast.model.records import (
    DeleteQueueRecord,
    DispatchMarkRecord,
    MessageRecord,
    PurgeRecord,
    QueueRecord,
)


def test_a_queue_is_declared_marked_purged_and_deleted() -> None:
    """
    What is purged was settled; what goes with its queue was not.
    """
    state = BrokerState(BrokerSettings())
    messages = [MessageRecord(1, each, b"", b"", 5) for each in range(1, 5)]
    state.apply(1, [QueueRecord(1, "q", 1, 3), *messages, DispatchMarkRecord(1, 2)], 1)
    assert state.by_name["q"].dispatch_mark == 3
    state.apply(7, [DispatchMarkRecord(1, 9), PurgeRecord(1, 3)], 2)
    assert state.by_name["q"].dispatch_mark == 9
    assert (state.live_count(), state.live_bytes(), state.acknowledged_total) == (1, 5, 3)
    state.apply(9, [DeleteQueueRecord(1), DeleteQueueRecord(1), PurgeRecord(1, 4)], 3)
    assert (state.live_count(), state.live_bytes(), state.acknowledged_total) == (0, 0, 3)
    assert not state.queues
    assert not state.by_name
    assert state.next_queue_number == 2


def test_what_is_said_again_takes_nothing_back() -> None:
    """
    The cleaner's copy of a declaration may say less than is known.
    """
    state = BrokerState(BrokerSettings())
    state.apply(1, [QueueRecord(1, "q", 50, 60)], 1, 7)
    state.apply(2, [QueueRecord(1, "q", 20, 30)], 2, 8)
    queue = state.by_name["q"]
    assert (queue.next_sequence, queue.dispatch_mark, queue.home) == (50, 60, 2)
    assert queue.numbered_term == 8

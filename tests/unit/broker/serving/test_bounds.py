"""
What is on its way to a queue with limits, in bytes, and its oldest messages.
"""

from __future__ import annotations

from holdfast.broker.serving.bounds import Bounds
from holdfast.broker.serving.message import TransientMessage
from holdfast.broker.serving.queue import Queue
from tests.unit.broker.served import served


def given(queue: Queue, count: int) -> int:
    first = queue.assigned_sequence
    queue.assigned_sequence += count
    return first


def test_what_is_applied_counts_no_more_and_what_was_taken_back_never() -> None:
    """A request that failed in the middle gave its numbers back, and others have them now."""
    queue = served(1)
    bounds = Bounds(queue)
    bounds.sent(given(queue, 1), 1, 10)
    bounds.sent(given(queue, 2), 2, 50)
    assert (bounds.count_on_its_way, bounds.bytes_on_their_way) == (3, 60)
    assert [*bounds.sizes_on_their_way(2)] == [(2, 25), (3, 25)]
    queue.lasting.next_sequence = 2
    assert (bounds.count_on_its_way, bounds.bytes_on_their_way) == (2, 50)
    queue.assigned_sequence = 2
    bounds.sent(given(queue, 1), 1, 7)
    assert (bounds.count_on_its_way, bounds.bytes_on_their_way) == (1, 7)
    queue.assigned_sequence = 2
    assert (bounds.count_on_its_way, bounds.bytes_on_their_way) == (0, 0)


def test_what_came_back_is_looked_at_again() -> None:
    """The lowest number, and the highest key: these are the oldest."""
    bounds = Bounds(served(1))
    bounds.first, bounds.volatile = 9, -9
    bounds.came_back([5, -7, 6, -8])
    assert (bounds.first, bounds.volatile) == (5, -7)
    bounds.begin_anew()
    assert (bounds.first, bounds.volatile) == (0, 0)


def test_the_newest_is_the_one_that_was_sent_last() -> None:
    """Stored or not; and non-persistent ones are given from the oldest that may be free on."""
    queue = served(1)
    bounds = Bounds(queue)
    assert bounds.newest == 0
    given(queue, 2)
    assert bounds.newest == 2
    for key in (-1, -2, -600):
        queue.transients[key] = TransientMessage(key, b"", b"", 2, 0)
    assert bounds.newest == -600
    assert [*bounds.volatile_keys()] == [-1, -2, -600]
    bounds.volatile = -2
    assert [*bounds.volatile_keys()] == [-2, -600]
    given(queue, 1)
    assert bounds.newest == 3

"""
A delivery names its consumer, its key, and where its content is.
"""

from __future__ import annotations

from holdfast.broker.serving.delivery import EFFORT_SHIFT


def test_a_delivery_brings_its_content_or_says_where_it_is(desk) -> None:
    """
    What is in memory is handed on as it is; the rest is read from the record that holds it.
    """
    desk.send(b"in memory")
    desk.send(b"in the log")
    desk.turn()
    content = desk.queue().cache[1]
    desk.queue().leadership.flow.forget(desk.queue().cache, [2])
    consumer = desk.subscribe()
    deliveries = [each for step in desk.broker.dispatch() for each in step]
    stored = desk.queue().index.record_number(2)
    assert deliveries == [(consumer, 1, content, 0, False), (consumer, 2, None, stored, False)]


def test_a_large_message_counts_for_several() -> None:
    """
    One of 64 KiB for sixteen, so that a step of large ones is as short as one of small ones.
    """
    assert (64 * 1024) >> EFFORT_SHIFT == 16

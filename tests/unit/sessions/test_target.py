"""
What a send comes to.
"""

from __future__ import annotations

from holdfast.broker.serving.topic import Topic
from holdfast.sessions.target import Target
from tests.unit.broker.served import served


def test_a_queue_is_told_apart_once() -> None:
    """
    It is asked for with each message.
    """
    queue, topic = served(1, "q"), Topic("t")
    assert Target(queue, b"", persistent=True).queue is queue
    assert Target(topic, b"", persistent=False).queue is None

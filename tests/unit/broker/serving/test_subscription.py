"""
What a subscription hangs on.
"""

from __future__ import annotations

from holdfast.broker.serving.consumer import AcknowledgeMode
from holdfast.broker.serving.subscription import Subscription


def test_a_subscription_knows_its_queue_or_its_topic(desk, new_client) -> None:
    """
    One of both; a delivery asks only whether it is a topic.
    """
    of_queue = desk.subscribe()
    of_topic = Subscription(new_client(), "t", mode=AcknowledgeMode.AUTO, prefetch=1)
    assert (of_topic.queue, of_topic.topic) == (None, None)
    topic = desk.broker.topic("news")
    desk.broker.subscribe(of_topic, topic)
    assert (of_queue.queue, of_queue.topic, of_queue.is_on_topic) == (desk.queue(), None, False)
    assert (of_topic.queue, of_topic.topic, of_topic.is_on_topic) == (None, topic, True)

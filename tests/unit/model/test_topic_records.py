"""
Records of topics as values.
"""

from __future__ import annotations

from holdfast.model.topic_records import SubscriptionRecord, TopicRecord


def test_what_is_new_has_nothing_yet() -> None:
    """
    It begins with the first message, nobody saw any, and it was never said that nobody is there.
    """
    topic = TopicRecord(1, "t")
    assert (topic.next_sequence, topic.subscription_count) == (1, 0)
    subscription = SubscriptionRecord(2, 1, 0, "client", "name")
    assert (subscription.first_sequence, subscription.dispatch_mark) == (1, 0)
    assert (subscription.selector, subscription.has_no_local) == ("", False)
    assert subscription.detached_at == 0

"""
Rows of a dump that speak of topics.
"""

from __future__ import annotations

from holdfast.model.owners import Owner
from holdfast.model.topic_records import (
    CountedRecord,
    DetachedRecord,
    SubscriptionRecord,
    TopicRecord,
)
from holdfast.store.topic_rows import topic_row


def test_each_says_what_it_is_and_all_that_it_has() -> None:
    """
    What is not set is null.
    """
    subscription = SubscriptionRecord(3, 2, 1, "c", "n", first_sequence=4, dispatch_mark=5)
    common = {"number": 3, "topic_number": 2, "slot": 1, "client_id": "c", "name": "n"}
    common |= {"first_sequence": 4, "dispatch_mark": 5}
    off = {"selector": None, "no_local": False, "detached_at_ms": None}
    assert topic_row(subscription) == ("subscription", common | off)
    subscription.selector, subscription.has_no_local, subscription.detached_at = "a = 1", True, 9
    on = {"selector": "a = 1", "no_local": True, "detached_at_ms": 9}
    assert topic_row(subscription) == ("subscription", common | on)
    subscription.owner = Owner("ann", 6)
    assert topic_row(subscription)[1] == common | on | {"owner": "ann", "owner_life": 6}
    assert topic_row(TopicRecord(2, "t", 7, 3)) == (
        "topic",
        {"number": 2, "name": "t", "next_sequence": 7, "subscriptions": 3},
    )
    assert topic_row(DetachedRecord(3, 9)) == ("detached", {"number": 3, "at_ms": 9})
    assert topic_row(DetachedRecord(3, 0)) == ("detached", {"number": 3, "at_ms": None})
    assert topic_row(CountedRecord(3, 2, [7], attempts=2, failures=1)) == (
        "counted",
        {"attempts": 2, "failures": 1, "due_ms": None, "sequences": [7]},
    )

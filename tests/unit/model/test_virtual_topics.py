"""
Which names are those of virtual topics, and which of queues that consume them.
"""

from __future__ import annotations

import pytest

from holdfast.model.virtual_topics import is_virtual, virtual_topic_of


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("VirtualTopic", True),
        ("VirtualTopic.a", True),
        ("VirtualTopic.a.b", True),
        ("VirtualTopics", False),
        ("virtualtopic.a", False),
        ("a.VirtualTopic.b", False),
        ("", False),
    ],
)
def test_a_topic_is_virtual_by_its_first_part(name: str, expected: bool) -> None:
    """
    As ActiveMQ's `VirtualTopic.>` has it.
    """
    assert is_virtual(name) is expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Consumer.A.VirtualTopic.a", "VirtualTopic.a"),
        ("Consumer.A.VirtualTopic.a.b", "VirtualTopic.a.b"),
        ("Consumer.A.VirtualTopic", "VirtualTopic"),
        ("Consumer.A.B.VirtualTopic.a", None),
        ("Consumer..VirtualTopic.a", None),
        ("Consumer.VirtualTopic.a", None),
        ("Consumer.A.orders", None),
        ("Consumer.", None),
        ("consumer.A.VirtualTopic.a", None),
        ("VirtualTopic.a", None),
    ],
)
def test_a_queue_consumes_one_by_its_name(name: str, expected: str | None) -> None:
    """
    One part stands for the application.
    """
    assert virtual_topic_of(name) == expected

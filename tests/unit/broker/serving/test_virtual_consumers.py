"""
Which queues consume which virtual topic.
"""

from __future__ import annotations

from holdfast.broker.serving import virtual_consumers
from holdfast.broker.serving.virtual_consumers import VirtualConsumers


def test_queues_come_and_go() -> None:
    """
    In the order in which they came; what is not there is removed without a word.
    """
    names = ["a", "Consumer.A.VirtualTopic.x", "Consumer.B.VirtualTopic.y"]
    consumers = VirtualConsumers(names)
    consumers.add("Consumer.C.VirtualTopic.x")
    consumers.add("orders")
    assert consumers.of("VirtualTopic.x") == [names[1], "Consumer.C.VirtualTopic.x"]
    for name in (names[1], names[1], "orders", "Consumer.Z.VirtualTopic.z"):
        consumers.remove(name)
    assert consumers.of("VirtualTopic.x") == ["Consumer.C.VirtualTopic.x"]
    assert consumers.of("VirtualTopic.z") == []


def test_there_are_never_more_of_one_topic_than_may_be(monkeypatch) -> None:
    """
    Each message goes to all of them in one turn.
    """
    monkeypatch.setattr(virtual_consumers, "VIRTUAL_CONSUMERS_MAX", 2)
    consumers = VirtualConsumers(f"Consumer.{n}.VirtualTopic.x" for n in range(2))
    assert not consumers.has_room_for("Consumer.2.VirtualTopic.x")
    assert consumers.has_room_for("Consumer.2.VirtualTopic.y")
    assert consumers.has_room_for("orders")

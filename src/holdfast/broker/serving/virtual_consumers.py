"""
Which queues consume which virtual topic, as a leader has it.

Invariants:
    It follows from the names of the queues alone, so each leader finds out for itself.
"""

from __future__ import annotations

from collections.abc import Iterable

from holdfast.model.limits import VIRTUAL_CONSUMERS_MAX
from holdfast.model.virtual_topics import CONSUMER, virtual_topic_of


class VirtualConsumers:
    """Names of queues, by the virtual topic that they consume."""

    __slots__ = ("_by_topic",)

    def __init__(self, queues: Iterable[str]) -> None:
        self._by_topic: dict[str, dict[str, None]] = {}
        for name in [each for each in queues if each.startswith(CONSUMER)]:
            self.add(name)

    def add(self, queue: str) -> None:
        """Note that there is a queue of this name."""
        topic = virtual_topic_of(queue)
        if topic is not None:
            self._by_topic.setdefault(topic, {})[queue] = None

    def remove(self, queue: str) -> None:
        """Note that there is none any more."""
        topic = virtual_topic_of(queue)
        if topic is not None:
            of_topic = self._by_topic.get(topic, {})
            of_topic.pop(queue, None)
            if not of_topic:
                self._by_topic.pop(topic, None)

    def of(self, topic: str) -> list[str]:
        """Give the queues that consume a topic, in the order in which they came."""
        return list(self._by_topic.get(topic, ()))

    def has_room_for(self, queue: str) -> bool:
        """Whether one more queue of this name may be: each message goes to all of a topic."""
        topic = virtual_topic_of(queue)
        return topic is None or len(self._by_topic.get(topic, ())) < VIRTUAL_CONSUMERS_MAX

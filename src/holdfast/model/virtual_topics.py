"""
Virtual topics, by their names: what is sent to `VirtualTopic.orders` goes to each queue that is
called `Consumer.<anything>.VirtualTopic.orders`, too, as in ActiveMQ (whose default names these
are). So each of several applications has a queue of its own of one topic, and its consumers share
it. Pure; nothing here knows whether a destination exists.
"""

from __future__ import annotations

from typing import Final

_TOPIC: Final = "VirtualTopic"
CONSUMER: Final = "Consumer."
"""With which the names of all their queues begin."""


def is_virtual(topic: str) -> bool:
    """Whether a topic of this name is a virtual one."""
    return topic == _TOPIC or topic.startswith(f"{_TOPIC}.")


def virtual_topic_of(queue: str) -> str | None:
    """Give the name of the virtual topic that a queue of this name consumes; None: of none."""
    if not queue.startswith(CONSUMER):
        return None
    who, _, topic = queue.removeprefix(CONSUMER).partition(".")
    return topic if who and is_virtual(topic) else None

"""
What a send comes to.
"""

from __future__ import annotations

from holdfast.broker.durables import Wanted
from holdfast.broker.serving.topic import Topic
from holdfast.model.format_level import NEWEST_LEVEL
from holdfast.sessions.target import MomentaryBasis, StoredBasis, Target
from tests.unit.broker.served import served


def test_a_queue_is_told_apart_once() -> None:
    """
    It is asked for with each message.
    """
    queue, topic = served(1, "q"), Topic("t")
    assert Target(queue, b"", persistent=True).queue is queue
    assert Target(topic, b"", persistent=False).queue is None


def test_a_stored_topic_is_outdated_once_one_of_both_is_gone(desk) -> None:
    """
    Or nobody is left whom its messages are stored for, or a wildcard came that may mean it; not as
    it is stored.
    """
    desk.broker.state.format_level = NEWEST_LEVEL
    desk.broker.durables.open(Wanted("prices", "ann", "mine"))
    desk.turn()
    topic, stored = desk.broker.topic("prices"), desk.broker.destinations.stored.topic("prices")

    def is_outdated(topic: Topic = topic) -> bool:
        patterns = desk.broker.destinations.leadership.patterns
        return StoredBasis(topic, stored, patterns).is_outdated

    assert topic.is_outdated
    assert not is_outdated()
    desk.broker.durables.open(Wanted("prices.*", "ben", "his"))
    assert is_outdated()
    desk.broker.destinations.stored.topic("prices")
    assert not is_outdated()
    stored.subscription_count = 0
    assert is_outdated()
    stored.subscription_count = 1
    topic.delete()
    assert is_outdated()
    other = Topic("prices")
    assert not is_outdated(other)
    stored.delete()
    assert is_outdated(other)


def test_what_counts_from_now_is_outdated_as_time_passes(desk) -> None:
    """
    By either clock, ours or the log's; or as what it rests on beside is.
    """
    broker = desk.broker
    queue = broker.queue("q")

    def made() -> MomentaryBasis:
        return MomentaryBasis(queue, broker.sending, broker.state)

    assert not made().is_outdated
    before = made()
    broker.sending.now_microseconds += 1
    assert before.is_outdated
    before = made()
    broker.state.timestamp += 1
    assert before.is_outdated
    assert not made().is_outdated
    queue.delete()
    assert made().is_outdated

"""
What the leader adds to a stored topic and to its durable subscriptions.
"""

from __future__ import annotations

import pytest

from holdfast.broker.durables import Wanted
from holdfast.broker.serving.message import TransientMessage
from holdfast.broker.settings import BrokerSettings
from holdfast.model.format_level import DURABLE_LEVEL
from holdfast.model.records import FormatRecord, SubscriptionAcknowledgeRecord


class Wants:
    """Selects messages whose headers begin with a letter."""

    effort = 2
    cost_bytes = 100

    def __init__(self, letter: bytes) -> None:
        self.letter = letter

    def values_of(self, _key, message, _redelivered):
        return {"headers": message.headers}

    def is_true_of(self, values) -> bool:
        return values["headers"].startswith(self.letter)


@pytest.fixture
def desk(new_desk):
    desk = new_desk(BrokerSettings(known_format_level=DURABLE_LEVEL))
    desk.broker.receipts.record(FormatRecord(DURABLE_LEVEL))
    desk.turn()
    return desk


@pytest.fixture
def opened(desk):
    """Make three subscriptions: of everything, of what begins with an a, and with a b."""
    wanted = [
        Wanted("t", "c", "all"),
        *(Wanted("t", "c", it, it, Wants(it.encode())) for it in ("a", "b")),
    ]
    queues = [desk.broker.durables.open(it) for it in wanted]
    desk.turn()
    return queues


def message(headers: bytes) -> TransientMessage:
    return TransientMessage(-1, headers, b"", 0, 1)


def test_who_does_not_want_a_message_is_a_bit_of_his_slot(opened) -> None:
    """
    No bits where all want it; the effort is what asking all of them takes.
    """
    topic = opened[0].topic
    assert topic.skips_of(1, message(b"a")) == b"\x04"
    assert topic.skips_of(1, message(b"x")) == b"\x06"
    assert topic.effort == 4
    topic.selective.clear()
    assert topic.skips_of(1, message(b"x")) == b""


def test_what_is_not_stored_is_for_those_who_consume_and_want_it(opened, desk, new_client) -> None:
    """
    Each by itself: who is away, or wants others, has nothing of it.
    """
    everything, some, others = opened
    topic = everything.topic
    for queue in (everything, others):
        topic.active[queue] = None
    assert list(topic.wanting(message(b"a"), "")) == [everything]
    assert list(topic.wanting(message(b"b"), "")) == [everything, others]
    topic.active[some] = None
    assert list(topic.wanting(message(b"a"), "")) == [everything, some]


def test_contents_are_in_memory_once_and_only_where_somebody_gets_them(
    opened, desk, new_client
) -> None:
    """
    They go when nobody needs the message any more, not when the first has had it.
    """
    everything = opened[0]
    topic = everything.topic
    topic.selective.clear()
    desk.broker.send(topic, b"", b"1", desk.client, None)
    desk.turn()
    assert not topic.cache.shelves
    topic.active[everything] = None
    desk.broker.send(topic, b"", b"2", desk.client, None)
    desk.turn()
    for queue in opened:
        assert queue.cache is topic.cache
        assert queue.cache.find(2).body == b"2"
        desk.broker.settling.settle(queue, 2)
        desk.turn()
    assert topic.cache.find(2) is None
    assert desk.broker.flow.cached_bytes == 0


def test_numbers_are_the_topics(opened) -> None:
    """
    None of its subscriptions gives any; what is said of their messages names the topic.
    """
    queue = opened[1]
    queue.assigned_sequence = 100
    queue.topic.assigned_sequence = 7
    assert queue.assigned_sequence == 7
    said = queue.acknowledgement([5])
    assert type(said) is SubscriptionAcknowledgeRecord
    assert (said.queue_number, said.topic_number) == (queue.number, queue.topic.number)


def test_a_half_that_is_built_anew_has_no_consumer(opened, desk) -> None:
    """
    It is one of those who get what is not stored no more.
    """
    queue = opened[0]
    queue.topic.active[queue] = None
    queue.renew(set())
    assert not queue.topic.active


def test_what_expires_is_looked_after_for_each(opened, desk) -> None:
    """
    Also of a subscription that nobody has asked for under this leader.
    """
    desk.broker.destinations.read_selector = lambda text, _topic: Wants(text.encode())
    desk.fail_over()
    topic = desk.broker.destinations.stored.topic("t")
    assert not desk.broker.destinations.leadership.durables
    topic.mortal([])
    assert len(desk.broker.destinations.leadership.durables) == 3

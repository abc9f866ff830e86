"""
What waits for topic subscribers without room: counted once for all, and for each connection.
"""

from __future__ import annotations

import pytest

from holdfast.broker.serving.backlogs import PLACE_BYTES, Backlogs
from holdfast.broker.serving.consumer import AcknowledgeMode
from holdfast.broker.serving.message import TransientMessage
from holdfast.broker.serving.subscription import Subscription


def message(serial: int, size: int = 10) -> TransientMessage:
    return TransientMessage(-serial, b"", b"x" * size, 0)


@pytest.fixture
def consumer(new_client):
    return Subscription(new_client(), "s", mode=AcknowledgeMode.AUTO, prefetch=1)


def test_what_waits_for_two_is_there_once(new_client) -> None:
    """
    Each connection counts it; the second place costs next to nothing.
    """
    backlogs, one = Backlogs(7), message(1)
    both = [
        Subscription(new_client(), "s", mode=AcknowledgeMode.AUTO, prefetch=1) for _ in range(2)
    ]
    for each in both:
        backlogs.add(each, one)
    assert list(backlogs.sizes.values()) == [17, 17]
    assert backlogs.total_bytes == 17 + PLACE_BYTES
    assert backlogs.growth_bytes == 34
    assert backlogs.take(both[0]) is one
    assert backlogs.total_bytes == 17
    backlogs.drop(both[1])
    assert (backlogs.total_bytes, backlogs.sizes) == (0, {})


def test_the_oldest_goes_where_too_many_or_too_much_waits(consumer) -> None:
    """
    Whoever wants to know is told of each that is too many.
    """
    backlogs, told = Backlogs(7), []
    backlogs.tell_evicted = lambda _consumer, key: told.append(key)
    for serial in range(1, 6):
        backlogs.add(consumer, message(serial))
    backlogs.drop_oldest(consumer)
    assert len(consumer.pending) == 5
    consumer.pending_max = 3
    backlogs.drop_oldest(consumer)
    assert told == [-1, -2]
    backlogs.shorten(consumer, 15)
    assert [it.key for it in consumer.pending] == [-5]
    backlogs.shorten(consumer, 5)
    assert [it.key for it in consumer.pending] == [-5], "the newest stays"
    assert backlogs.evicted_total == 4


def test_what_was_sent_before_is_the_oldest_and_counted_by_itself(consumer) -> None:
    """
    Of it, too, the oldest goes; what is not there to wait counts for nothing.
    """
    backlogs = Backlogs(7)
    for serial in (1, 2):
        backlogs.add(consumer, message(serial))
        backlogs.note_recovered(consumer, consumer.pending[-1])
    backlogs.note_recovered(consumer, message(3))
    backlogs.add(consumer, message(4, 30))
    assert backlogs.since_bytes(consumer) == 30
    assert backlogs.recovered_sizes == {consumer.receiver: 34}
    backlogs.take(consumer)
    assert backlogs.recovered_sizes == {consumer.receiver: 17}
    backlogs.take(consumer)
    assert (backlogs.recovered_sizes, backlogs.since_bytes(consumer)) == ({}, 30)
    backlogs.clear()
    assert backlogs.sizes == {}

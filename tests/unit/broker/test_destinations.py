"""
A name means one queue or topic.
"""

from __future__ import annotations

import pytest

from holdfast.broker.settings import BrokerSettings
from holdfast.errors import DestinationError
from holdfast.model.records import QueueRecord


def test_a_queue_is_declared_once(desk) -> None:
    """
    By a record, when somebody first names it; from then on the name means it.
    """
    queue = desk.queue()
    assert desk.queue() is queue
    [record] = desk.broker.receipts.batch.records
    assert type(record) is QueueRecord
    assert desk.broker.destinations.numbered(queue.number) is queue
    desk.turn()
    assert desk.broker.destinations.existing("orders") is queue


def test_a_name_means_nothing_once_its_deletion_is_asked_for(desk) -> None:
    """
    Also while that is on its way; who names it again declares another one.
    """
    queue = desk.queue()
    desk.turn()
    desk.broker.destinations.remove(queue)
    with pytest.raises(DestinationError, match="there is no queue 'orders'"):
        desk.broker.destinations.existing("orders")
    assert desk.queue() is not queue


def test_names_are_those_that_mean_a_queue_once_each(desk) -> None:
    """
    Also while declarations and deletions are on their way, and of one that was declared again.
    """
    destinations = desk.broker.destinations
    for name in ("stays", "goes", "again"):
        desk.queue(name)
    desk.turn()
    desk.queue("planned")
    for name in ("goes", "again"):
        destinations.remove(desk.queue(name))
    destinations.remove(desk.queue("never was"))
    desk.queue("again")
    names = destinations.queue_names()
    assert sorted(names) == ["again", "planned", "stays"]
    assert all(destinations.has_queue(name) for name in names)
    assert len(names) == destinations.queue_count


def test_there_are_no_more_queues_than_there_may_be(new_desk) -> None:
    """
    Those to come are counted before any of them is declared.
    """
    desk = new_desk(BrokerSettings(queue_count_max=2))
    desk.queue()
    destinations = desk.broker.destinations
    destinations.require_queues(1)
    with pytest.raises(DestinationError):
        destinations.require_queues(2)
    desk.queue("more")
    destinations.require_queues(0)
    with pytest.raises(DestinationError):
        desk.queue("too many")
    assert desk.queue() is not None


def test_a_topic_that_nobody_uses_makes_room(new_desk) -> None:
    """
    The one without subscribers for longest goes first.
    """
    desk = new_desk(BrokerSettings(topic_count_max=2))
    first, _ = desk.broker.topic("a"), desk.broker.topic("b")
    desk.broker.topic("c")
    assert first.is_deleted
    assert set(desk.broker.destinations.topics) == {"b", "c"}

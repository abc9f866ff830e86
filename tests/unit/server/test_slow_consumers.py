"""
What waits for topic subscribers that read nothing: bounded per connection and for all.
"""

from __future__ import annotations

import pytest

from holdfast.broker.settings import BrokerSettings
from holdfast.model.policies import as_text
from holdfast.model.records import PolicyRecord
from holdfast.server.settings import ServerSettings

TOPICS = 20
OVERHEAD = BrokerSettings().message_memory_overhead_bytes


@pytest.fixture
def stage(new_node):
    """A node with room for ten messages per connection and for fifteen together."""
    size = 1_000 + OVERHEAD
    settings = ServerSettings(
        connection_backlog_bytes_max=10 * size, backlog_bytes_max=15 * size, backlog_look_bytes=size
    )
    node = new_node(settings=settings)
    node.serve()
    node.producer = node.connect()
    return node


def subscribe(node, topics=range(TOPICS)):
    """Connect somebody who subscribes to some topics and reads nothing from them."""
    consumer = node.connect()
    for number in topics:
        consumer.data_received(b"SUBSCRIBE\nid:%d\ndestination:/topic/%d\n\n\0" % (number, number))
    node.turn()
    consumer.transport.take()
    consumer.pause_writing()
    return consumer


def publish(node, topics=range(TOPICS)) -> None:
    """Send a message of a thousand bytes to each of these topics."""
    for number in topics:
        body = b"x" * 1_000
        node.producer.data_received(b"SEND\ndestination:/topic/%d\n\n%b\0" % (number, body))
        node.turn()


def test_one_connection_that_reads_nothing_is_closed(stage) -> None:
    """
    Though no topic of its many is over the limit; it is told why, and the others get on.
    """
    reader = stage.connect(b"SUBSCRIBE\nid:r\ndestination:/topic/19\n\n\0")
    # More than one connection may have, and less than all together.
    slow = subscribe(stage, range(8, TOPICS))
    publish(stage, range(8, TOPICS))
    last = slow.transport.take()
    assert b"ERROR" in last
    assert b"code:slow-consumer" in last
    assert slow.transport.is_closed
    assert not slow.session.subscriptions
    assert reader.transport.take().count(b"MESSAGE") == 1
    assert not reader.transport.is_closed
    assert stage.conductor.slow_consumers.pending_bytes <= 1_000 + OVERHEAD
    assert stage.conductor.slow_consumers.closed_count == 1


def test_one_that_does_not_take_its_last_words_is_ended(stage) -> None:
    """
    Else its buffers would stay for ever.
    """
    slow = subscribe(stage)
    publish(stage)
    assert not slow.transport.is_aborted
    stage.clock.now += stage.conductor.settings.drain_seconds + 1
    stage.conductor.tick()
    assert slow.transport.is_aborted


def test_of_many_the_worst_is_closed(stage) -> None:
    """
    All together are over the limit, and none by itself.
    """
    most = subscribe(stage, range(8))
    less = subscribe(stage, range(8, 14))
    least = subscribe(stage, range(14, 18))
    publish(stage, range(18))
    assert [each.transport.is_closed for each in (most, less, least)] == [True, False, False]
    assert not stage.conductor.slow_consumers.look()


def test_what_waits_for_many_is_there_once(stage) -> None:
    """
    Who reads a little behind was closed where many did so: each was counted as if it were alone.
    """
    readers = [subscribe(stage, range(8)) for _ in range(10)]
    publish(stage, range(8))
    assert not any(each.transport.is_closed for each in readers)
    backlogs = stage.broker.publishing.backlogs
    assert set(backlogs.sizes.values()) == {8 * (1_000 + OVERHEAD)}
    assert 8 * (1_000 + OVERHEAD) < backlogs.total_bytes < 8 * (1_000 + OVERHEAD) + 2_000
    for each in readers[1:]:
        each.connection_lost(None)
        stage.turn()
    assert backlogs.total_bytes == 8 * (1_000 + OVERHEAD)
    readers[0].resume_writing()
    stage.turn()
    stage.turn()
    assert (backlogs.total_bytes, backlogs.sizes) == (0, {})


def test_one_that_catches_up_is_left_alone(stage) -> None:
    """
    What was taken does not count.
    """
    slow = subscribe(stage)
    for _ in range(5):
        publish(stage, range(8))
        slow.resume_writing()
        stage.turn()
        stage.turn()
        assert slow.transport.take().count(b"MESSAGE") == 8
        slow.pause_writing()
    assert not slow.transport.is_closed
    assert stage.conductor.slow_consumers.look() == []
    assert stage.conductor.slow_consumers.pending_bytes == 0


def test_a_new_leadership_counts_from_nothing(stage) -> None:
    """
    Nobody is connected then.
    """
    subscribe(stage)
    publish(stage, range(5))
    assert stage.broker.publishing.backlogs.sizes
    stage.store.is_serving = False
    stage.turn()
    assert not stage.broker.publishing.backlogs.sizes
    assert stage.broker.publishing.backlogs.growth_bytes == 0


ASKING = b"activemq.retroactive:true\nactivemq.prefetchSize:1\n\n\0"
KEEPING = {
    "subscriptionRecoveryPolicy": "fixedCountSubscriptionRecoveryPolicy",
    "recoveryMaximumCount": 100,
}


def test_what_topics_had_kept_is_no_sign_of_who_does_not_read(new_node) -> None:
    """
    It comes faster than anybody reads; but no more than all topics may keep is passed over.
    """
    size = 1_000 + OVERHEAD
    settings = ServerSettings(
        connection_backlog_bytes_max=10 * size, backlog_bytes_max=200 * size, backlog_look_bytes=1
    )
    node = new_node(settings=settings, broker=BrokerSettings(recovery_bytes_max=31 * size))
    node.serve()
    node.conductor.broker.state.policies.apply(PolicyRecord("topic://>", as_text(KEEPING)), 1)
    node.turn()
    node.producer = node.connect()
    publish(node, [0] * 30)
    consumer = node.connect()
    consumer.pause_writing()
    asked = b"SUBSCRIBE\nid:%d\ndestination:/topic/0\nack:client\n" + ASKING
    consumer.data_received(asked % 1)
    node.turn()
    backlogs = node.conductor.broker.publishing.backlogs
    assert backlogs.sizes == {consumer.session: backlogs.recovered_sizes[consumer.session]}
    assert backlogs.sizes[consumer.session] > 20 * size
    publish(node, [0] * 5)
    assert not consumer.transport.is_closed
    consumer.data_received(asked % 2)
    node.turn()
    assert consumer.transport.is_closed

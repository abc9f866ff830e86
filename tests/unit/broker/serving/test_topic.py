"""
A topic hands out what it gets, keeps a bounded backlog for the slow, and says when it is blocked.
"""

from __future__ import annotations

from collections import deque

import pytest

from holdfast.broker.broker import Broker
from holdfast.broker.serving.backlogs import Backlogs
from holdfast.broker.serving.consumer import AcknowledgeMode
from holdfast.broker.serving.delivery import Delivery
from holdfast.broker.serving.message import TransientMessage
from holdfast.broker.serving.subscription import Subscription
from holdfast.broker.serving.topic import IdleTopics, Topic
from holdfast.broker.settings import BrokerSettings
from holdfast.errors import DestinationError


def subscribed(topic: Topic, client, mode=AcknowledgeMode.AUTO, prefetch=10) -> Subscription:
    subscription = Subscription(client, "s", mode=mode, prefetch=prefetch)
    subscription.topic = topic
    topic.subscriptions[subscription] = None
    return subscription


def message(serial: int, size: int = 10) -> TransientMessage:
    return TransientMessage(-serial, b"", b"x" * size, 0)


def keys(out: list[Delivery]) -> list[int]:
    return [delivery[1] for delivery in out]


def test_a_mirror_of_a_queue_is_never_blocked(new_client) -> None:
    """
    Of what waits for who is slow there the oldest goes: the queue's producers wait for nobody.
    """
    loses_the_oldest(Topic("VirtualTopic.Mirror.orders"), new_client())


def test_without_flow_control_a_topic_is_never_blocked(new_client) -> None:
    """
    As a policy has it, of who subscribed since.
    """
    loses_the_oldest(Topic("prices"), new_client(), drops_oldest=True)


def loses_the_oldest(topic: Topic, client, *, drops_oldest: bool = False) -> None:
    backlogs = Backlogs(5)
    subscription = subscribed(topic, client, mode=AcknowledgeMode.INDIVIDUAL, prefetch=1)
    subscription.drops_oldest = drops_oldest
    out: deque[Delivery] = deque()
    for serial in range(1, 9):
        topic.hand_out(message(serial), topic.subscriptions, out, 30, backlogs)
        assert not topic.blocked_by
    assert keys(list(out)) == [-1]
    assert [it.key for it in subscription.pending] == [-6, -7, -8]
    assert backlogs.evicted_total == 4
    assert backlogs.total_bytes == 3 * 15
    topic.hand_out(message(9, 100), topic.subscriptions, out, 30, backlogs)
    assert [it.key for it in subscription.pending] == [-9], "the newest stays, however large"


def test_a_backlog_keeps_its_order(new_client) -> None:
    """
    While something waits, what comes later waits behind it, even if there is room by then.
    """
    topic, client = Topic("t"), new_client()
    subscription = subscribed(topic, client, AcknowledgeMode.INDIVIDUAL, prefetch=1)
    out: deque[Delivery] = deque()
    backlogs = Backlogs(7)
    for serial in (1, 2, 3):
        topic.hand_out(message(serial), topic.subscriptions, out, 1000, backlogs)
    assert keys(out) == [-1]
    subscription.unacknowledged.clear()
    topic.hand_out(message(4), topic.subscriptions, out, 1000, backlogs)
    assert keys(out) == [-1]
    for _ in range(4):
        topic.drain(subscription, out, backlogs)
        subscription.unacknowledged.clear()
    assert keys(out) == [-1, -2, -3, -4]
    assert subscription.pending_bytes == 0
    assert not topic.blocked_by


def test_the_topic_is_blocked_until_the_last_slow_one_has_caught_up(new_client) -> None:
    """
    Two slow subscribers: only when both are done is the news that it goes on.
    """
    topic = Topic("t")
    clients = [new_client(), new_client()]
    subscriptions = [subscribed(topic, client) for client in clients]
    out: deque[Delivery] = deque()
    backlogs = Backlogs(7)
    for client in clients:
        client.room_bytes = 0
    topic.hand_out(message(1), topic.subscriptions, out, 5, backlogs)
    assert topic.blocked_by == set(subscriptions)
    clients[0].room_bytes = 100
    assert not topic.drain(subscriptions[0], out, backlogs)
    assert topic.close_subscription(subscriptions[1], backlogs)
    assert not topic.blocked_by
    assert list(topic.subscriptions) == [subscriptions[0]]
    assert not topic.close_subscription(subscriptions[0], backlogs)
    assert not backlogs.sizes
    assert backlogs.total_bytes == 0


def test_a_backlog_within_the_limit_blocks_nobody(new_client) -> None:
    """
    The limit is in bytes per subscriber.
    """
    topic, client = Topic("t"), new_client()
    subscribed(topic, client)
    client.room_bytes = 0
    out: deque[Delivery] = deque()
    backlogs = Backlogs(7)
    topic.hand_out(message(1), topic.subscriptions, out, 20, backlogs)
    topic.hand_out(message(2), topic.subscriptions, out, 20, backlogs)
    assert not topic.blocked_by
    topic.hand_out(message(3), topic.subscriptions, out, 20, backlogs)
    assert topic.blocked_by


def test_only_topics_without_subscribers_are_forgotten(new_client) -> None:
    """
    Who is so for longest goes first; who has a subscriber by then stays.
    """
    idle = IdleTopics()
    topics = {name: Topic(name) for name in ("a", "b", "c")}
    for topic in topics.values():
        idle.add(topic)
    taken = topics["a"]
    subscribed(taken, new_client())
    idle.remove(taken)
    idle.forget_one(topics)
    assert list(topics) == ["a", "c"]
    idle.forget_one(topics)
    idle.forget_one(topics)
    assert list(topics) == ["a"]
    assert not taken.is_deleted
    taken.subscriptions.clear()
    idle.add(taken)
    idle.clear()
    idle.forget_one(topics)
    assert list(topics) == ["a"]


def test_a_topic_with_subscribers_is_not_looked_at(new_client) -> None:
    """
    100,000 of them took 57 ms where one more topic was named; and none of them is forgotten.
    """
    broker = Broker(BrokerSettings(topic_count_max=3))
    broker.lead()
    ones = [
        Subscription(new_client(), "s", mode=AcknowledgeMode.AUTO, prefetch=1) for _ in range(3)
    ]
    for name, one in zip("abc", ones, strict=True):
        broker.subscribe(one, broker.topic(name))
    with pytest.raises(DestinationError):
        broker.topic("d")
    assert list(broker.destinations.topics) == ["a", "b", "c"]
    broker.unsubscribe(ones[1])
    broker.topic("d")
    assert list(broker.destinations.topics) == ["a", "c", "d"]


def test_of_more_than_may_wait_the_oldest_are_dropped(new_client) -> None:
    """
    Of that subscriber alone, and never what is in delivery; memory is counted right.
    """
    topic, backlogs = Topic("t"), Backlogs(7)
    slow, other = (subscribed(topic, new_client(), AcknowledgeMode.INDIVIDUAL, 1) for _ in "ab")
    slow.pending_max = 2
    other.pending_max = -1
    out: deque[Delivery] = deque()
    for serial in range(1, 7):
        topic.hand_out(message(serial), topic.subscriptions, out, 1000, backlogs)
    assert keys(out) == [-1, -1]
    assert slow.pending is not None
    assert other.pending is not None
    assert [it.key for it in slow.pending] == [-5, -6]
    assert [it.key for it in other.pending] == [-2, -3, -4, -5, -6]
    assert (backlogs.evicted_total, slow.pending_bytes) == (3, 20)
    assert backlogs.sizes == {slow.receiver: 34, other.receiver: 85}
    slow.pending_max = 0
    topic.hand_out(message(7), topic.subscriptions, out, 1000, backlogs)
    assert not slow.pending
    assert backlogs.evicted_total == 6
    backlogs.drop(other)
    assert backlogs.total_bytes == 0


def test_who_lets_old_messages_go_holds_up_nobody(new_client) -> None:
    """
    Its topic is never blocked for it, however little it may have in bytes.
    """
    topic, backlogs = Topic("t"), Backlogs(7)
    slow = subscribed(topic, new_client(), AcknowledgeMode.INDIVIDUAL, prefetch=1)
    slow.pending_max = 2
    out: deque[Delivery] = deque()
    for serial in range(1, 20):
        topic.hand_out(message(serial), topic.subscriptions, out, 20, backlogs)
    assert not topic.blocked_by

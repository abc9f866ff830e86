"""
What topics have to deliver: to few at once, to many some at a time.
"""

from __future__ import annotations

from holdfast.broker.serving.consumer import AcknowledgeMode
from holdfast.broker.serving.message import TransientMessage
from holdfast.broker.serving.publishing import Publishing
from holdfast.broker.serving.subscription import Subscription
from holdfast.broker.serving.topic import Topic
from holdfast.broker.settings import BrokerSettings

SETTINGS = BrokerSettings(step_count_max=2)


def topic_of(client, count: int) -> Topic:
    topic = Topic("t")
    for number in range(count):
        topic.add_subscription(
            Subscription(client, f"s{number}", mode=AcknowledgeMode.AUTO, prefetch=9)
        )
    return topic


def message(serial: int) -> TransientMessage:
    return TransientMessage(-serial, b"", b"x", 0)


def taken(publishing: Publishing) -> list[tuple[str, int]]:
    return [(it[0].id, -it[1]) for step in publishing.take([]) for it in step]


def test_few_are_handed_it_at_once(new_client) -> None:
    """
    The line holds a delivery for each.
    """
    publishing = Publishing(SETTINGS)
    publishing.publish(topic_of(new_client(), 2), message(1))
    assert len(publishing.deliveries) == 2
    assert not publishing.spreads
    assert taken(publishing) == [("s0", 1), ("s1", 1)]
    assert not publishing


def test_many_are_handed_it_some_at_a_time(new_client) -> None:
    """
    Who comes meanwhile gets what comes later, who leaves gets nothing more.
    """
    publishing = Publishing(SETTINGS)
    client = new_client()
    topic = topic_of(client, 5)
    publishing.publish(topic, message(1))
    assert not publishing.deliveries
    steps = publishing.take([])
    assert [it[0].id for it in next(steps)] == ["s0", "s1"]
    steps.close()
    assert not publishing.deliveries
    late = Subscription(client, "late", mode=AcknowledgeMode.AUTO, prefetch=9)
    topic.add_subscription(late)
    publishing.close(topic, list(topic.subscriptions)[3])
    publishing.publish(topic, message(2))
    everybody = [("s2", 1), ("s4", 1)]
    everybody += [("s0", 2), ("s1", 2), ("s2", 2), ("s4", 2), ("late", 2)]
    assert taken(publishing) == everybody
    assert topic.spread_count == 0


def test_what_waited_stays_before_what_is_being_spread(new_client) -> None:
    """
    A subscriber that has room again, just before its turn comes, gets the older one first.
    """
    publishing = Publishing(SETTINGS)
    client = new_client()
    topic = topic_of(client, 4)
    client.room_bytes = 0
    publishing.publish(topic, message(1))
    assert taken(publishing) == []
    publishing.publish(topic, message(2))
    client.room_bytes = 1000
    last = list(topic.subscriptions)[3]
    publishing.drain(topic, last)
    of_last = [serial for name, serial in taken(publishing) if name == "s3"]
    assert of_last == [1, 2]


def test_a_mistake_in_spreading_is_the_topics(new_client) -> None:
    """
    It is told of, and nothing else stands still.
    """
    publishing = Publishing(SETTINGS)
    client = new_client()
    topic, other = topic_of(client, 3), topic_of(new_client(), 3)
    del client.room_bytes
    publishing.publish(topic, message(1))
    publishing.publish(other, message(2))
    broken: list = []
    given = [it[0].id for step in publishing.take(broken) for it in step]
    assert given == ["s0", "s1", "s2"]
    assert {each for each, _ in broken} == {topic}
    publishing.confirm(client, b"never")
    assert publishing.clear()[0] is not publishing.deliveries
    assert publishing.take_receipts(9) == []


def test_who_published_is_told_when_it_is_asked_for(new_client) -> None:
    """
    Not before the last delivery of it, and not later; in the order they came.
    """
    publishing = Publishing(SETTINGS)
    publisher = new_client()
    topic = topic_of(new_client(), 2)
    for serial, receipt in ((1, b"first"), (2, b"second")):
        publishing.publish(topic, message(serial))
        publishing.confirm(publisher, receipt)
    assert publishing.take_receipts(9) == []
    steps = publishing.take([])
    next(steps)
    steps.close()
    assert len(publishing.deliveries) == 4 - SETTINGS.step_count_max
    assert publishing.take_receipts(9) == [(publisher, b"first")]
    taken(publishing)
    publishing.confirm(publisher, b"third")
    assert publishing.take_receipts(1) == [(publisher, b"second")]
    assert publishing.take_receipts(9) == [(publisher, b"third")]


def test_what_is_spread_is_confirmed_behind_its_last_subscriber(new_client) -> None:
    """
    And what comes to few meanwhile does not wait for it.
    """
    publishing = Publishing(SETTINGS)
    publisher = new_client()
    many = topic_of(new_client(), 4)
    publishing.publish(many, message(1))
    publishing.confirm_later(publisher, b"many")
    publishing.confirm(publisher, b"nobody")
    assert publishing.take_receipts(9) == [(publisher, b"nobody")]
    count = 0
    for step in publishing.take([]):
        count += len(step)
        if count == 4:
            break
        assert publishing.take_receipts(9) == []
    assert publishing.take_receipts(9) == [(publisher, b"many")]
    publishing.confirm_later(publisher, b"idle")
    assert publishing.take_receipts(9) == [(publisher, b"idle")]


def test_large_messages_count_for_several_in_a_step(new_client) -> None:
    """
    Wherever they stand in the line, spread or not, and also those that waited for room.
    """
    settings = BrokerSettings(step_count_max=8)
    publishing = Publishing(settings)
    few, many = topic_of(new_client(), 2), topic_of(new_client(), 9)
    slow = topic_of(client := new_client(), 1)
    client.room_bytes = 0
    publishing.publish(few, message(1))
    for topic in (few, many, slow):
        publishing.publish(topic, TransientMessage(-2, b"", b"x" * 30_000, 0))
    client.room_bytes = 100_000
    publishing.drain(slow, next(iter(slow.subscriptions)))
    publishing.publish(few, message(3))
    steps = [[-it[1] for it in step] for step in publishing.take([])]
    assert [each for step in steps for each in step] == [1, 1, 2, 2, 2, 3, 3, *([2] * 9)]
    assert all(step.count(2) <= 1 for step in steps)
    for _ in range(5):
        publishing.publish(few, message(4))
    assert [len(step) for step in publishing.take([])] == [8, 2]


class Odd:
    """Wants messages with odd numbers; asking is as dear as the test says."""

    cost_bytes = 100

    def __init__(self, effort: int = 0) -> None:
        self.effort = effort
        self.asked: list[int] = []

    def selects(self, message: TransientMessage) -> bool:
        self.asked.append(-message.key)
        return message.key % 2 == 1


def selective(client, name: str, selector: Odd) -> Subscription:
    return Subscription(client, name, mode=AcknowledgeMode.AUTO, prefetch=9, selector=selector)


def test_who_selects_is_handed_only_what_it_wants(new_client) -> None:
    """
    Beside one who wants all, and in the order they came.
    """
    publishing = Publishing(SETTINGS)
    client = new_client()
    topic = topic_of(client, 1)
    topic.add_subscription(selective(client, "odd", Odd()))
    for serial in (1, 2, 3):
        publishing.publish(topic, message(serial))
    assert taken(publishing) == [("s0", 1), ("odd", 1), ("s0", 2), ("s0", 3), ("odd", 3)]


def test_what_is_not_wanted_neither_waits_nor_blocks(new_client) -> None:
    """
    A subscriber without room keeps only what it asked for, and only that counts against it.
    """
    publishing = Publishing(SETTINGS)
    client = new_client()
    topic = Topic("t")
    odd = selective(client, "odd", Odd())
    topic.add_subscription(odd)
    client.room_bytes = 0
    for serial in (1, 2, 3, 4):
        publishing.publish(topic, message(serial))
    assert [-each.key for each in odd.pending or ()] == [1, 3]
    assert odd.pending_bytes == 2


def test_what_takes_long_to_ask_is_spread(new_client) -> None:
    """
    As many of those subscribers in one step as their selectors' effort allows, but one at least.
    """
    publishing = Publishing(BrokerSettings(step_count_max=8))
    client = new_client()
    topic = Topic("t")
    selectors = [Odd(effort) for effort in (3, 3, 9, 0, 0)]
    for number, selector in enumerate(selectors):
        topic.add_subscription(selective(client, f"s{number}", selector))
    assert topic.effort == 20
    publishing.publish(topic, message(1))
    assert not any(each.asked for each in selectors)
    steps = publishing.take([])
    assert [it[0].id for it in next(steps)] == ["s0", "s1"]
    assert [it[0].id for it in next(steps)] == ["s2"]
    assert [it[0].id for it in next(steps)] == ["s3", "s4"]
    assert not list(steps)
    for subscription in list(topic.subscriptions):
        publishing.close(topic, subscription)
    assert (topic.effort, topic.selective_count) == (0, 0)


def test_nobody_is_asked_where_nobody_selects(new_client) -> None:
    """
    The last of them may be gone: then all is as if there had never been one.
    """
    publishing = Publishing(SETTINGS)
    client = new_client()
    topic = topic_of(client, 2)
    odd = selective(client, "odd", Odd())
    topic.add_subscription(odd)
    publishing.close(topic, odd)
    publishing.publish(topic, message(2))
    assert taken(publishing) == [("s0", 2), ("s1", 2)]
    assert odd.selector is not None and odd.selector.asked == []

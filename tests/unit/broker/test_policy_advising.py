"""
What policies let be said has bounds, and is about what the log has.
"""

from __future__ import annotations

import json

import pytest

from holdfast.broker.serving.consumer import AcknowledgeMode
from holdfast.broker.serving.subscription import Subscription
from holdfast.model.advisory_options import ADVISED_BY
from holdfast.model.records import PolicyRecord
from holdfast.model.wildcards import parse_pattern


@pytest.fixture
def desk(desk):
    said = json.dumps(dict.fromkeys(ADVISED_BY, "true"))
    desk.broker.receipts.record(PolicyRecord("queue://>", said))
    desk.turn()
    return desk


def listen(
    desk, client, pattern: str = "topic://ActiveMQ.Advisory.*.Queue.orders", name: str = "a"
) -> Subscription:
    client.id = "c"
    topic = desk.broker.advising.listeners.topic(parse_pattern(pattern), is_xml=False)
    subscription = Subscription(client, name, mode=AcknowledgeMode.AUTO, prefetch=1_000_000)
    client.subscriptions[name] = subscription
    desk.broker.subscribe(subscription, topic)
    return subscription


def test_very_many_that_are_acknowledged_are_told_of_in_steps(desk, new_client) -> None:
    """
    A thousand in one batch are no turn of fifteen milliseconds.
    """
    client = new_client()
    listen(desk, client)
    queue = desk.queue()
    desk.turn()
    desk.broker.errands.finish()
    before = len(desk.broker.publishing.spreads)
    desk.broker.advising.consumed(queue, range(1, 1001))
    assert len(desk.broker.publishing.spreads) == before
    desk.broker.errands.run(lambda: True)
    assert len(desk.broker.publishing.spreads) - before == 64
    desk.broker.errands.finish()
    assert len(desk.broker.publishing.spreads) - before == 1000


def test_a_batch_over_many_queues_says_nothing_in_its_turn(desk, new_client) -> None:
    """
    Five hundred queues get a message each with one COMMIT: what is said of them has its own steps.
    """
    client = new_client()
    listen(desk, client, "topic://ActiveMQ.Advisory.MessageDelivered.>")
    names = [f"many.{number}" for number in range(500)]
    for name in names:
        desk.broker.queue(name)
    desk.turn()
    desk.broker.errands.finish()
    desk.turn()
    client.deliveries.clear()
    for name in names:
        desk.send(b"x", name)
    batch = desk.broker.receipts.take_batch()
    before = len(desk.broker.publishing.spreads)
    desk.broker.advising.arrived(batch.records, batch.size_bytes)
    assert len(batch.records) >= 500
    assert len(desk.broker.publishing.spreads) == before
    desk.broker.errands.run(lambda: True)
    assert len(desk.broker.publishing.spreads) - before == 64


def test_where_listeners_are_of_many_kinds_a_step_is_shorter(desk, new_client) -> None:
    """
    To say one thing to those with wildcards at a hundred places takes what a hundred others do.
    """
    client = new_client()
    stars = [f"{number:07b}".replace("0", "x.").replace("1", "*.") for number in range(128)]
    for place, some in enumerate(stars):
        listen(desk, client, f"topic://ActiveMQ.Advisory.MessageConsumed.Queue.{some}>", f"{place}")
    queue = desk.broker.queue("x.x.x.x.x.x.x.orders")
    desk.turn()
    desk.broker.errands.finish()
    desk.turn()
    before = len(desk.broker.publishing.spreads)
    desk.broker.advising.consumed(queue, range(1, 101))
    desk.broker.errands.run(lambda: True)
    assert len(desk.broker.publishing.spreads) - before == 128


def test_nothing_is_built_for_which_there_is_no_room(desk, new_client, monkeypatch) -> None:
    """
    What is missed costs no more than to count it.
    """
    client = new_client()
    listen(desk, client)
    queue = desk.queue()
    desk.turn()
    desk.broker.errands.finish()
    advising, publishing = desk.broker.advising, desk.broker.publishing
    monkeypatch.setattr(publishing, "spread_bytes", 1 << 40)
    monkeypatch.setattr(type(advising), "message", None)
    advising.consumed(queue, range(1, 101))
    desk.broker.errands.finish()
    assert advising.missed_total == 100


def test_what_the_cleaner_writes_again_has_not_come_again(desk, new_client) -> None:
    """
    Nor is told of what this leader never served; what it takes from the log is no news.
    """
    client = new_client()
    listen(desk, client)
    for body in (b"1", b"2"):
        desk.send(body)
    desk.turn()
    desk.broker.errands.finish()
    desk.turn()
    count = len(client.deliveries)
    assert count == 2
    records = [desk.read(number) for number in range(2, 5) if _is_there(desk, number)]
    for record in records:
        record.rewritten = True
    desk.broker.advising.arrived(records, 100)
    desk.turn()
    assert len(client.deliveries) == count


def _is_there(desk, number: int) -> bool:
    try:
        desk.read(number)
    except AssertionError:
        return False
    return True


def test_a_dispatch_that_is_left_off_is_ended_with_its_advisories(desk, new_client) -> None:
    """
    What was not given out is given out by the next one, and said then.
    """
    listener, taker = new_client(), new_client()
    listen(desk, listener)
    taker.id = "t"
    consumer = desk.subscribe(client=taker)
    for _ in range(200):
        desk.send(b"x")
    desk.seal()
    desk.commit()
    steps = desk.broker.dispatch()
    for _ in steps:
        if consumer.unacknowledged:
            break
    steps.close()
    assert 0 < len(consumer.unacknowledged) < 100
    for key in list(consumer.unacknowledged):
        desk.broker.acknowledge(consumer, key, taker, None)
    desk.turn()
    assert len(consumer.unacknowledged) == 100


def test_whether_anybody_listens_is_known_without_asking(desk, new_client) -> None:
    """
    As each comes and goes, and with the end of the leadership.
    """
    advising = desk.broker.advising
    assert not advising.is_heard
    first, second = listen(desk, new_client()), listen(desk, new_client())
    assert advising.is_heard
    desk.broker.unsubscribe(first)
    assert advising.is_heard
    desk.broker.unsubscribe(second)
    assert not advising.is_heard
    listen(desk, new_client())
    desk.broker.follow()
    assert not advising.is_heard

"""
Queues that policies pause.
"""

from __future__ import annotations

import json

import pytest

from holdfast.broker.serving.consumer import AcknowledgeMode
from holdfast.broker.serving.subscription import Subscription
from holdfast.model.records import PolicyRecord


@pytest.fixture
def desk(new_desk):
    return new_desk()


def say(desk, pattern: str, values: dict[str, str] | None = None) -> None:
    desk.broker.receipts.record(PolicyRecord(pattern, json.dumps(values) if values else ""))
    turn(desk)


def turn(desk) -> None:
    desk.turn()
    if desk.broker.has_to_wake:
        desk.broker.wake()
    desk.turn()


def consumed(desk, client, queue="orders", prefetch=10):
    subscription = Subscription(client, queue, mode=AcknowledgeMode.CLIENT, prefetch=prefetch)
    client.subscriptions[queue] = subscription
    desk.broker.subscribe(subscription, desk.queue(queue))
    return subscription


def test_nothing_goes_out_until_it_goes_on(desk, new_client) -> None:
    """What is sent meanwhile is stored, and comes in order; other queues are not held up."""
    say(desk, "queue://orders", {"paused": "true"})
    client = new_client()
    consumed(desk, client)
    consumed(desk, client, "others")
    for body in (b"1", b"2"):
        desk.send(body, "orders")
    desk.send(b"other", "others")
    turn(desk)
    assert len(client.deliveries) == 1
    assert desk.queue("orders").index.live_count == 2
    say(desk, "queue://orders")
    assert client.keys[1:] == [1, 2]
    assert not desk.broker.destinations.leadership.paused
    assert not desk.broker.pausing.has_any


def test_what_somebody_has_stays_his(desk, new_client) -> None:
    """He acknowledges it as ever, and gets nothing in its place."""
    client = new_client()
    subscription = consumed(desk, client, prefetch=1)
    for body in (b"1", b"2"):
        desk.send(body, "orders")
    turn(desk)
    say(desk, "queue://>", {"paused": "true"})
    desk.broker.acknowledge(subscription, 1, client, None)
    turn(desk)
    assert client.keys == [1]
    assert desk.queue("orders").index.live_count == 1
    say(desk, "queue://>", {"paused": "false"})
    assert client.keys == [1, 2]


def test_the_most_exact_word_counts(desk, new_client) -> None:
    """One of many that are paused goes on."""
    say(desk, "queue://>", {"paused": "true"})
    say(desk, "queue://orders", {"paused": "false"})
    client = new_client()
    consumed(desk, client)
    desk.send(b"1", "orders")
    turn(desk)
    assert client.keys == [1]
    assert desk.broker.policies.is_paused("others")
    assert not desk.broker.policies.is_paused("orders")


def test_it_is_paused_under_the_next_leader(desk, new_client) -> None:
    """The log says it."""
    say(desk, "queue://orders", {"paused": "true"})
    desk.send(b"1", "orders")
    turn(desk)
    desk.broker.lead()
    client = new_client()
    consumed(desk, client)
    turn(desk)
    assert client.keys == []
    say(desk, "queue://orders")
    assert client.keys == [1]


def test_deleted_ones_are_not_remembered(desk, new_client) -> None:
    """Nor do they come back with the word that lets them go on."""
    say(desk, "queue://>", {"paused": "true"})
    client = new_client()
    subscription = consumed(desk, client)
    desk.send(b"1", "orders")
    turn(desk)
    queue = desk.queue("orders")
    assert list(desk.broker.destinations.leadership.paused) == [queue]
    desk.broker.unsubscribe(subscription)
    desk.broker.delete("orders", client, b"r")
    turn(desk)
    assert not desk.broker.destinations.leadership.paused
    say(desk, "queue://>")
    assert client.keys == []


def test_very_many_go_on_in_steps(desk, new_client) -> None:
    """As the time goes."""
    say(desk, "queue://>", {"paused": "true"})
    client = new_client()
    for number in range(150):
        consumed(desk, client, f"q{number}")
        desk.send(b"1", f"q{number}")
    turn(desk)
    desk.broker.receipts.record(PolicyRecord("queue://>", ""))
    desk.turn()
    steps = 0
    while desk.broker.pausing.has_any:
        desk.broker.pausing.step(lambda: True)
        steps += 1
    desk.turn()
    assert steps == 3
    assert len(client.keys) == 150

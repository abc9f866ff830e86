"""
What is said costs nothing where nobody listens, and has bounds where somebody does.
"""

from __future__ import annotations

import pytest

from holdfast.broker.policy_advising import PolicyAdvising
from holdfast.broker.serving.advises import Advises
from holdfast.broker.serving.consumer import AcknowledgeMode
from holdfast.broker.serving.subscription import Subscription
from holdfast.broker.settings import BrokerSettings
from holdfast.model.facts import Cause
from holdfast.model.limits import KiB
from holdfast.model.wildcards import parse_pattern


def listen(desk, client, name: str = "ActiveMQ.Advisory.>") -> Subscription:
    client.id = "c"
    topic = desk.broker.advising.listeners.topic(parse_pattern(f"topic://{name}"), is_xml=False)
    subscription = Subscription(client, "a", mode=AcknowledgeMode.AUTO, prefetch=1_000_000)
    client.subscriptions["a"] = subscription
    desk.broker.subscribe(subscription, topic)
    return subscription


def test_nothing_is_built_where_nobody_listens(desk, monkeypatch) -> None:
    """
    Not the cheapest of it: with a million queues that would be a million times.
    """

    def fail(*_args, **_named):
        raise AssertionError("nobody listens")

    told = {name for name in vars(Advises) if not name.startswith("_")} - {
        "is_heard",
        "listeners",
        "evicted",
    }
    for name in {*told, "say", "message", "dispatched"}:
        monkeypatch.setattr(PolicyAdvising, name, fail)
    desk.send(b"1")
    subscription = desk.subscribe()
    desk.broker.topic("t")
    desk.turn()
    desk.broker.reject(subscription, 1, None, desk.client, None)
    desk.broker.unsubscribe(subscription)
    desk.broker.delete("orders", desk.client, b"r")
    desk.turn()


def test_many_dead_are_told_of_in_steps(desk, new_client) -> None:
    """
    A thousand in one record are no turn of fifteen milliseconds.
    """
    listen(desk, new_client())
    desk.broker.errands.finish()
    queue = desk.queue()
    desk.broker.advising.died(queue, range(1, 1001), Cause.MAXLEN, is_buried=True)
    before = len(desk.broker.publishing.spreads)
    assert before <= 64 + 1
    desk.broker.errands.finish()
    assert len(desk.broker.publishing.spreads) >= 1000


def test_what_fails_to_be_said_costs_itself_only(desk, new_client, monkeypatch) -> None:
    """
    Else nobody was told of any message any more, until another leader; it is said of once.
    """
    listen(desk, new_client())
    desk.broker.errands.finish()
    advising, id_of = desk.broker.advising, PolicyAdvising.id_of

    def fails_of_some(self, place, key):
        if key % 10 == 1:
            raise ValueError(key)
        return id_of(self, place, key)

    monkeypatch.setattr(PolicyAdvising, "id_of", fails_of_some)
    before = len(desk.broker.publishing.spreads)
    for first in (1, 101):
        keys = range(first, first + 100)
        advising.died(desk.queue(), keys, Cause.MAXLEN, is_buried=True)
        desk.broker.errands.finish()
    assert len(desk.broker.publishing.spreads) - before == 180 + 1, "and of the queue, that it came"
    assert [(owner, str(error)) for owner, error in desk.broker.errands.broken] == [
        (None, "1"),
        (None, "101"),
    ]
    assert advising.missed_total == 20


def test_what_nobody_takes_is_missed_and_counted(new_desk, new_client) -> None:
    """
    Advisories on their way have a part of the room for topics' messages: producers have theirs.
    """
    desk = new_desk(BrokerSettings(spread_bytes_max=40 * KiB))
    listen(desk, new_client())
    for number in range(100):
        desk.queue(f"q{number}")
    publishing = desk.broker.publishing
    assert publishing.spread_bytes < 12 * KiB
    assert publishing.has_room
    assert desk.broker.advising.missed_total > 50
    assert publishing.published_total == 0


def test_one_look_serves_all_who_begin_to_listen(desk, new_client) -> None:
    """
    A thousand who listen and take nothing keep one list of a hundred thousand queues, not a
    thousand of them; nor does it grow for ever with what comes and goes meanwhile.
    """
    for number in range(100):
        desk.queue(f"q{number}")
    desk.turn()
    clients = [new_client() for _ in range(3)]
    for client in clients:
        client.room_bytes = 1
        listen(desk, client, "ActiveMQ.Advisory.Queue")
    desk.broker.errands.finish()
    rolls = desk.broker.advising._rolls
    assert len(rolls) == 1
    roll = rolls["destinations"]
    assert len(roll) >= 100
    for number in range(3_000):
        topic = desk.broker.topic(f"t{number}")
        desk.broker.destinations.topics.pop(topic.name)
    assert len(roll) < 2 * 101 + 1024 + 2
    assert rolls.get("destinations") is not roll
    del roll
    for client in clients:
        (subscription,) = client.subscriptions.values()
        desk.broker.unsubscribe(subscription)
    assert len(rolls) == 0


@pytest.mark.parametrize("name", ["ActiveMQ.Advisory.Consumer.>", "ActiveMQ.Advisory.Consumer.*.q"])
def test_all_consumers_of_one_queue_are_told(desk, new_client, name) -> None:
    """
    As many as there are, in steps; who has left meanwhile is not told.
    """
    consumers = []
    for _ in range(300):
        client = new_client()
        client.id = "x"
        consumers.append(desk.subscribe("q", client=client))
    listener = new_client()
    listen(desk, listener, name)
    desk.broker.unsubscribe(consumers.pop())
    desk.broker.errands.finish()
    desk.turn()
    # The one that left says so himself.
    assert len(listener.deliveries) == 300

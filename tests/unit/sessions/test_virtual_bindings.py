"""
Queues with wildcards that consume virtual topics: what is sent to a topic that nobody named before
is for them, from its first message on.
"""

from __future__ import annotations

import pytest

from holdfast.broker import binding
from holdfast.broker.serving import virtual_consumers
from holdfast.model.format_level import NEWEST_LEVEL
from tests.unit.sessions.test_forwarding import say
from tests.unit.sessions.test_several_destinations import bodies_of, stored

ALL = "Consumer.A.VirtualTopic.>"
FIRST, SECOND = "Consumer.A.VirtualTopic.orders", "Consumer.A.VirtualTopic.orders.eu"


@pytest.fixture
def desk(desk):
    desk.broker.state.format_level = NEWEST_LEVEL
    return desk


def come_once(desk, name: str = ALL) -> None:
    client = desk.connect()
    client.subscribe(f"/queue/{name}", receipt="yes")
    desk.turn()
    assert [frame.command for frame in client.frames()] == ["RECEIPT"]
    client.leave()
    desk.turn()


def send(desk, *topics: str) -> None:
    client = desk.connect()
    for topic in topics:
        client.send(topic.encode(), f"/topic/{topic}", receipt=topic)
    desk.turn()
    found = [frame.command for frame in client.frames()]
    assert found == ["RECEIPT"] * len(topics)


def names(desk) -> set[str]:
    return set(desk.broker.destinations.queue_names())


def test_what_comes_while_it_is_away_waits_for_it(desk) -> None:
    """
    Of each topic on a queue of its own, over a failover; other topics mean nothing to it.
    """
    come_once(desk)
    assert names(desk) == {ALL}
    send(desk, "VirtualTopic.orders", "VirtualTopic.orders.eu", "orders")
    desk.fail_over()
    assert names(desk) == {ALL, FIRST, SECOND}
    send(desk, "VirtualTopic.orders")
    client = desk.connect()
    client.subscribe(f"/queue/{ALL}", ack="auto")
    desk.turn()
    expected = ["VirtualTopic.orders", "VirtualTopic.orders", "VirtualTopic.orders.eu"]
    assert sorted(client.bodies()) == expected


def test_who_is_there_gets_it_at_once(desk) -> None:
    """
    The queue and its first message are of one batch; whoever is there joins.
    """
    client = desk.connect()
    client.subscribe(f"/queue/{ALL}", ack="auto")
    desk.turn()
    send(desk, "VirtualTopic.orders")
    desk.turn()
    assert client.bodies() == ["VirtualTopic.orders"]
    (record,) = stored(desk)
    assert record.queue_number == desk.broker.queue(FIRST).number


def test_it_comes_once_though_several_names_mean_it(desk) -> None:
    """
    A queue of its own, two patterns: they are one queue.
    """
    for name in (FIRST, ALL, "Consumer.A.VirtualTopic.*", "Consumer.B.VirtualTopic.>"):
        come_once(desk, name)
    send(desk, "VirtualTopic.orders")
    other = "Consumer.B.VirtualTopic.orders"
    one = ["VirtualTopic.orders"]
    assert bodies_of(desk, FIRST, other) == {FIRST: one, other: one}
    assert len(stored(desk)) == 1


@pytest.mark.parametrize(
    "name", ["Consumer.*.VirtualTopic.orders", "Consumer.>", ">", "orders.*", "*.A.VirtualTopic.>"]
)
def test_other_wildcards_are_no_consumers_of_topics(desk, name: str) -> None:
    """
    Which application it is must be said.
    """
    client = desk.connect()
    client.subscribe(f"/queue/{name}")
    send(desk, "VirtualTopic.orders")
    assert names(desk) == set()


def test_what_an_operator_deletes_comes_again_and_its_name_no_more(desk) -> None:
    """
    The queue of one topic comes into being again; without the name with wildcards it does not.
    """
    come_once(desk)
    send(desk, "VirtualTopic.orders")
    operator = desk.connect()
    desk.broker.delete(FIRST, operator.session, b"1")
    desk.turn()
    send(desk, "VirtualTopic.orders")
    assert names(desk) == {ALL, FIRST}
    for name in (ALL, FIRST):
        desk.broker.delete(name, operator.session, b"2")
    desk.turn()
    send(desk, "VirtualTopic.orders")
    assert names(desk) == set()


def test_other_forms_have_theirs(desk) -> None:
    """
    By policies, with something behind the topic's name, too.
    """
    said = {"virtualTopic": "true", "virtualTopicPrefix": "VTC.*.", "virtualTopicPostfix": ".q"}
    say(desk, "topic://prices.>", **said)
    come_once(desk, "VTC.billing.prices.*.q")
    send(desk, "prices.eu", "prices", "prices.eu.fr")
    assert names(desk) == {"VTC.billing.prices.*.q", "VTC.billing.prices.eu.q"}


def test_there_are_never_more_than_may_be(desk, monkeypatch) -> None:
    """
    A name more is refused, and those that are there go on; senders are never refused for them.
    """
    monkeypatch.setattr(binding, "BINDINGS_MAX", 2)
    come_once(desk)
    come_once(desk, "Consumer.B.VirtualTopic.>")
    come_once(desk)
    client = desk.connect()
    client.subscribe("/queue/Consumer.C.VirtualTopic.>", receipt="no")
    desk.turn()
    (error,) = client.frames()
    assert error.command == "ERROR"
    assert "at most 2 names with wildcards may consume virtual topics" in error.headers["message"]
    send(desk, "VirtualTopic.orders")
    assert names(desk) == {
        *(ALL, "Consumer.B.VirtualTopic.>", FIRST, "Consumer.B.VirtualTopic.orders")
    }


def test_very_many_queues_are_looked_through_in_steps(desk, monkeypatch) -> None:
    """
    Where a policy names a form that nobody asked of; two who come at once wait for one look.
    """
    monkeypatch.setattr(virtual_consumers, "_LOOKED_AT_ONCE_MAX", 100)
    for number in range(600):
        desk.broker.queue(f"VTC.a{number}.other")
    desk.turn()
    said = {"virtualTopic": "true", "virtualTopicPrefix": "VTC.*."}
    say(desk, "topic://prices.>", **said)
    clients = [desk.connect(), desk.connect()]
    for client in clients:
        client.subscribe("/queue/VTC.billing.prices.>", receipt="yes")
    assert desk.broker.errands
    assert not desk.broker.destinations.has_queue("VTC.billing.prices.>")
    desk.turn()
    for client in clients:
        assert [frame.command for frame in client.frames()] == ["RECEIPT"]
    send(desk, "prices.eu")
    assert {"VTC.billing.prices.>", "VTC.billing.prices.eu"} <= names(desk)


def test_what_could_not_be_called_so_is_left_out(desk) -> None:
    """
    A topic's name may be as long as a queue's; its sender is not refused for who consumes it.
    """
    come_once(desk)
    send(desk, "VirtualTopic." + "x" * 1011)
    assert names(desk) == {ALL}


def test_a_transaction_has_it_with_its_commit(desk) -> None:
    """
    Where it is aborted, nothing is there.
    """
    come_once(desk)
    client = desk.connect()
    for verb, body in (("ABORT", b"1"), ("COMMIT", b"2")):
        client.say("BEGIN", transaction="t")
        client.send(body, "/topic/VirtualTopic.orders", transaction="t")
        client.say(verb, transaction="t")
        desk.turn()
    assert bodies_of(desk, FIRST) == {FIRST: ["2"]}


def test_mirrors_are_meant_by_who_says_so_and_are_not_mirrored_again(desk) -> None:
    """
    Where all queues are mirrored, those that a name makes would each have a mirror that it means.
    """
    say(desk, "queue://>", mirrored="true")
    for who in "AB":
        come_once(desk, f"Consumer.{who}.VirtualTopic.>")
    come_once(desk, "Consumer.C.VirtualTopic.Mirror.>")
    before = names(desk)
    client = desk.connect()
    client.send(b"1", "/queue/orders", receipt="r")
    desk.turn()
    assert [frame.command for frame in client.frames()] == ["RECEIPT"]
    assert names(desk) - before == {"orders", "Consumer.C.VirtualTopic.Mirror.orders"}


def test_nobody_removes_a_name_that_means_topics_of_a_policy(desk) -> None:
    """
    Though the policy does not mean the name itself, read as one.
    """
    said = {"virtualTopic": "true", "virtualTopicPrefix": "VTC.*."}
    say(desk, "topic://prices.eu", **said)
    say(desk, "queue://>", gcInactiveDestinations="true", inactiveTimeoutBeforeGC=1)
    come_once(desk, "VTC.A.prices.>")
    for _ in range(4):
        desk.broker.sending.now_microseconds += 30_000_000
        desk.broker.returning.look_at_the_clock()
        desk.broker.removing.step()
        desk.turn()
    assert names(desk) == {"VTC.A.prices.>"}


def test_who_subscribed_before_the_level_consumes_from_then_on(desk) -> None:
    """
    A rolling upgrade ends under open subscriptions: nobody has to subscribe anew.
    """
    desk.broker.state.format_level = 1
    client = desk.connect()
    for name in (ALL, "Consumer.B.VirtualTopic.>", "Consumer.*.VirtualTopic.>"):
        client.subscribe(f"/queue/{name}", id=name)
    gone = desk.connect()
    gone.subscribe("/queue/Consumer.C.VirtualTopic.>")
    desk.turn()
    gone.leave()
    desk.turn()
    assert names(desk) == set()
    desk.broker.state.format_level = NEWEST_LEVEL
    desk.broker.bundling.bind_all()
    desk.turn()
    assert names(desk) == {ALL, "Consumer.B.VirtualTopic.>"}
    send(desk, "VirtualTopic.orders")
    assert FIRST in names(desk)


def test_one_name_too_many_at_the_level_ends_that_subscription(desk, monkeypatch) -> None:
    """
    With the sentence that it would have had at once; the others go on.
    """
    monkeypatch.setattr(binding, "BINDINGS_MAX", 1)
    desk.broker.state.format_level = 1
    client, other = desk.connect(), desk.connect()
    client.subscribe(f"/queue/{ALL}")
    other.subscribe("/queue/Consumer.B.VirtualTopic.>")
    desk.turn()
    desk.broker.state.format_level = NEWEST_LEVEL
    desk.broker.bundling.bind_all()
    desk.turn()
    assert names(desk) == {ALL}
    assert client.frames() == []
    [error] = other.frames()
    assert b"at most 1 names with wildcards" in error.body + str(error.headers).encode()

"""
What comes again, as a STOMP client sees it: by policy, by SUBSCRIBE, by NACK; lost and left.
"""

from __future__ import annotations

import pytest

from holdfast.errors import StoreError
from holdfast.model.format_level import RETURNS_LEVEL
from holdfast.model.records import PolicyRecord

DEAD = "/queue/ActiveMQ.DLQ"


@pytest.fixture
def desk(desk):
    """A leader at the level of returns."""
    desk.broker.state.format_level = RETURNS_LEVEL
    return desk


def said(desk, values: str) -> None:
    desk.broker.state.policies.apply(PolicyRecord("queue://orders", values), 1)


def wait(desk, milliseconds: int) -> None:
    """Let time pass, as the loop sees it."""
    desk.broker.sending.now_microseconds += milliseconds * 1000
    desk.broker.wake()
    desk.turn()


def taken(client) -> list[tuple[str, str | None, str]]:
    """Body, count and ack of the messages that came."""
    client.desk.turn()
    return [
        (it.body.decode(), it.headers.get("JMSXDeliveryCount"), it.headers["ack"])
        for it in client.frames()
        if it.command == "MESSAGE"
    ]


def test_a_policy_lets_it_come_again_so_often_and_then_it_is_dead(desk) -> None:
    """The delays are its own; the count is told; the dead letter says why it is dead."""
    said(desk, '{"initialRedeliveryDelay":50,"maximumRedeliveries":2,"redeliveryDelay":70}')
    client = desk.connect()
    client.send(b"bad", kind="x")
    client.subscribe()
    for count, rests in ((None, 50), ("2", 70)):
        ((body, told, name),) = taken(client)
        assert (body, told) == ("bad", count)
        assert client.ask("NACK", id=name, receipt="r")[0].command == "RECEIPT"
        wait(desk, rests - 1)
        assert client.frames() == []
        wait(desk, 1)
    ((_, told, name),) = taken(client)
    assert told == "3"
    client.ask("NACK", id=name, receipt="r")
    wait(desk, 1_000)
    assert client.frames() == []
    client.subscribe(DEAD, "dead")
    desk.turn()
    (dead,) = client.frames()
    assert (dead.body, dead.headers["kind"]) == (b"bad", "x")
    assert dead.headers["dlqDeliveryFailureCause"] == "rejected after the last redelivery"
    assert "JMSXDeliveryCount" not in dead.headers


def test_a_subscription_says_so_itself(desk) -> None:
    """By the headers that users write; no policy is needed."""
    client = desk.connect()
    client.send(b"bad")
    client.subscribe(
        activemq__maximumRedeliveries="1",
        activemq__initialRedeliveryDelay="0",
        activemq__useExponentialBackOff="true",
        activemq__backOffMultiplier="1.5",
    )
    ((_, _, name),) = taken(client)
    ((_, count, name),) = [
        (it.body, it.headers["JMSXDeliveryCount"], it.headers["ack"])
        for it in client.ask("NACK", id=name)
    ]
    assert count == "2"
    assert client.ask("NACK", id=name) == []
    client.subscribe(DEAD, "dead")
    assert [body for body, _, _ in taken(client)] == ["bad"]


@pytest.mark.parametrize(
    ("header", "value", "sentence"),
    [
        ("maximumRedeliveries", "many", "'many' is out of range; allowed: -1 to 254"),
        ("backOffMultiplier", "0", "'0' is out of range; allowed: 1 to 1,000"),
        ("useExponentialBackOff", "yes", "allowed: false, true"),
        ("redeliveryDelay", "-5", "'-5' is out of range"),
    ],
)
def test_a_subscription_that_makes_no_sense_is_refused(desk, header, value, sentence) -> None:
    """Where it enters, with the header's name; there is no consumer then."""
    client = desk.connect()
    client.subscribe(**{f"activemq__{header}": value})
    desk.turn()
    (error,) = client.frames()
    assert error.headers["code"] == "destination"
    assert f"header 'activemq.{header}': {value!r}"[:30] in error.headers["message"]
    assert sentence in error.headers["message"]
    assert client.session.subscriptions == {}


def test_a_rejection_says_so_itself(desk) -> None:
    """`requeue` as RabbitMQ has it, and after how long; both before any policy."""
    client = desk.connect()
    client.send(b"one")
    client.subscribe()
    ((_, _, name),) = taken(client)
    assert client.ask("NACK", id=name, delay="300") == []
    wait(desk, 299)
    assert client.frames() == []
    wait(desk, 1)
    ((_, count, name),) = taken(client)
    assert count == "2"
    (again,) = client.ask("NACK", id=name, requeue="true")
    assert again.headers["JMSXDeliveryCount"] == "3"
    assert client.ask("NACK", id=again.headers["ack"], requeue="true", delay="20") == []
    wait(desk, 20)
    said(desk, '{"maximumRedeliveries":-1}')
    ((_, count, name),) = taken(client)
    assert count == "4"
    assert client.ask("NACK", id=name, requeue="false") == []
    client.subscribe(DEAD, "dead")
    (dead,) = client.ask("BEGIN", transaction="t")
    assert dead.headers["dlqDeliveryFailureCause"] == "rejected"


@pytest.mark.parametrize(
    ("headers", "sentence"),
    [
        ({"requeue": "yes"}, "header requeue: 'yes' is neither true nor false"),
        ({"delay": "soon"}, "header delay: 'soon' is not a number"),
        ({"delay": "604800001"}, "header delay: 604,800,001 ms; at most 604,800,000"),
        ({"requeue": "false", "delay": "1"}, "header delay: what is not to come again"),
    ],
)
def test_a_rejection_that_makes_no_sense_is_refused(desk, headers, sentence) -> None:
    """The message stays in delivery, and may be rejected as it should be."""
    client = desk.connect()
    client.send(b"one")
    client.subscribe()
    ((_, _, name),) = taken(client)
    refusal = client.refusal("NACK", id=name, **headers)
    assert sentence in refusal.headers["message"]
    assert client.ask("ACK", id=name, receipt="r")[0].command == "RECEIPT"


def test_what_is_lost_in_company_is_never_dead(desk) -> None:
    """Ten times, and more often than anything may fail, where nothing is sent alone."""
    said(desk, '{"maximumRedeliveries":1,"suspectAfter":0}')
    sender = desk.connect()
    for body in (b"one", b"two"):
        sender.send(body)
    for _ in range(10):
        client = desk.connect()
        client.subscribe()
        assert [body for body, _, _ in taken(client)] == ["one", "two"]
        client.leave()
        desk.broker.errands.run(lambda: False)
        desk.turn()
    client = desk.connect()
    client.subscribe()
    assert [(body, count) for body, count, _ in taken(client)] == [("one", "11"), ("two", "11")]


def test_what_takes_its_consumers_along_is_found_and_its_neighbours_are_not(desk) -> None:
    """With a prefetch of 1: after its last failure it is dead, with its reason."""
    said(desk, '{"maximumRedeliveries":2}')
    sender = desk.connect()
    for body in (b"poison", b"good"):
        sender.send(body)
    for _ in range(3):
        client = desk.connect()
        client.subscribe(activemq__prefetchSize="1")
        assert [body for body, _, _ in taken(client)] == ["poison"]
        client.leave()
        desk.broker.errands.run(lambda: False)
        desk.turn()
    client = desk.connect()
    client.subscribe(activemq__prefetchSize="1")
    assert [(body, count) for body, count, _ in taken(client)] == [("good", None)]
    client.subscribe(DEAD, "dead")
    desk.turn()
    (dead,) = client.frames()
    assert dead.body == b"poison"
    assert dead.headers["dlqDeliveryFailureCause"] == "the connections of its consumers were lost"


def test_what_cannot_be_read_as_it_dies_comes_again(desk) -> None:
    """A damaged disk costs nobody a message."""
    said(desk, '{"maximumRedeliveries":0}')
    client = desk.connect()
    client.send(b"poison")
    client.subscribe()
    taken(client)
    desk.broker.queue("orders").cache.take(1)
    desk.unreadable = StoreError("damaged")
    client.leave()
    desk.broker.errands.run(lambda: False)
    desk.turn()
    desk.unreadable = None
    other = desk.connect()
    other.subscribe()
    assert [(body, count) for body, count, _ in taken(other)] == [("poison", "2")]


@pytest.mark.parametrize("how", ["unsubscribe", "disconnect", "abort"])
def test_who_leaves_well_blames_nothing_for_it(desk, how) -> None:
    """Each is an attempt, also of what an open transaction had settled, and no failure."""
    client = desk.connect()
    client.send(b"one")
    client.subscribe()
    ((_, _, name),) = taken(client)
    match how:
        case "unsubscribe":
            client.ask("UNSUBSCRIBE", id="s")
        case "disconnect":
            client.say("DISCONNECT")
            client.leave()
        case "abort":
            client.say("BEGIN", transaction="t")
            client.say("ACK", id=name, transaction="t")
            client.leave()
    desk.broker.errands.run(lambda: False)
    desk.turn()
    returned = desk.broker.state.queues[1].index.returned(1)
    assert (returned.attempts, returned.failures) == (1, 0)
    other = desk.connect()
    other.subscribe()
    assert [(body, count) for body, count, _ in taken(other)] == [("one", "2")]


def test_a_non_persistent_message_that_failed_too_often_is_dropped(desk) -> None:
    """It comes again as others do; it never was to last."""
    said(desk, '{"maximumRedeliveries":1,"initialRedeliveryDelay":10}')
    client = desk.connect()
    client.say("SEND", b"volatile", destination="/queue/orders")
    client.subscribe()
    ((_, _, name),) = taken(client)
    assert client.ask("NACK", id=name) == []
    wait(desk, 10)
    ((_, count, name),) = taken(client)
    assert count == "2"
    assert client.ask("NACK", id=name) == []
    wait(desk, 10_000)
    assert client.frames() == []
    assert desk.broker.flow.volatile_bytes == 0
    assert "ActiveMQ.DLQ" not in desk.broker.destinations.queue_names()


def test_nobody_forges_the_count(desk) -> None:
    """It is the broker's; a producer's header of the name is not seen."""
    client = desk.connect()
    client.send(b"one", JMSXDeliveryCount="7")
    client.subscribe()
    assert [(body, count) for body, count, _ in taken(client)] == [("one", None)]

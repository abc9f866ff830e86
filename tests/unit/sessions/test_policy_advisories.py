"""
What the broker says of messages, producers and consumers where policies let it.
"""

from __future__ import annotations

import json

import pytest

from holdfast.broker.settings import BrokerSettings
from holdfast.broker.untold import UntoldMessages
from holdfast.model.advisory_options import ADVISED_BY
from holdfast.model.format_level import NEWEST_LEVEL
from holdfast.model.records import FormatRecord, PolicyRecord
from tests.unit.sessions.conftest import Desk

PREFIX = "/topic/ActiveMQ.Advisory."


@pytest.fixture
def desk(desk):
    desk.broker.receipts.record(FormatRecord(NEWEST_LEVEL))
    desk.turn()
    return desk


def say(desk, pattern: str, **values) -> None:
    desk.broker.receipts.record(PolicyRecord(pattern, json.dumps(values)))
    desk.turn()


def listen(desk, kinds: str = ">"):
    client = desk.connect()
    client.subscribe(f"/topic/ActiveMQ.Advisory.{kinds}", id="a", ack="auto")
    heard(client)
    return client


def heard(client) -> list:
    client.desk.turn()
    frames = client.frames()
    assert [frame for frame in frames if frame.command == "ERROR"] == []
    return [frame for frame in frames if frame.command == "MESSAGE"]


def of_kind(client, kind: str) -> list:
    named = f"{PREFIX}{kind}."
    return [each for each in heard(client) if each.headers["destination"].startswith(named)]


def test_without_a_policy_nothing_of_this_is_said(desk) -> None:
    """
    Though somebody listens to all of it.
    """
    listener = listen(desk)
    client = desk.connect()
    client.subscribe("/queue/orders")
    client.send(b"x")
    client.say("SEND", b"y", destination="/topic/news")
    desk.turn()
    (message,) = [frame for frame in client.frames() if frame.command == "MESSAGE"]
    client.say("ACK", id=message.headers["ack"])
    said = {frame.headers["destination"].removeprefix(PREFIX) for frame in heard(listener)}
    kinds = {each.partition(".")[0] for each in said}
    assert kinds <= {"Connection", "Consumer", "Queue", "Topic"}


@pytest.mark.parametrize("persistent", ["true", "false"])
def test_a_message_comes_is_sent_and_is_acknowledged(desk, persistent) -> None:
    """
    Each is said once, with the id that the message has there, and by whom it was taken.
    """
    keys = ("advisoryForDelivery", "advisoryForDispatched", "advisoryForConsumed")
    say(desk, "queue://orders", **dict.fromkeys(keys, "true"))
    listener = listen(desk, "*.Queue.orders")
    client = desk.connect()
    client.subscribe("/queue/orders")
    assert len(heard(listener)) == 1
    client.send(b"x", persistent=persistent)
    desk.turn()
    (message,) = [frame for frame in client.frames() if frame.command == "MESSAGE"]
    client.say("ACK", id=message.headers["ack"])
    frames = heard(listener)
    kinds = [each.headers["destination"].removeprefix(PREFIX) for each in frames]
    assert kinds == [
        "MessageDelivered.Queue.orders",
        "MessageDispatched.Queue.orders",
        "MessageConsumed.Queue.orders",
    ]
    for each in frames:
        assert each.headers["orignalMessageId"] == message.headers["message-id"]
        assert each.headers["orignalDestination"] == "queue://orders"
    assert frames[1].headers["consumerId"] == f"{client.session.id}:1"


def test_a_message_for_several_queues_is_said_of_each(desk) -> None:
    """
    What is stored once has come to all of them; by a transaction, too, and not twice.
    """
    say(desk, "queue://a", advisoryForDelivery="true")
    say(desk, "queue://b", advisoryForDelivery="true")
    listener = listen(desk, "MessageDelivered.>")
    client = desk.connect()
    client.send(b"x", "/queue/a,/queue/b,/queue/c")
    client.say("BEGIN", transaction="t")
    client.send(b"y", "/queue/a", transaction="t")
    client.say("COMMIT", transaction="t")
    found = [each.headers["orignalDestination"] for each in heard(listener)]
    assert sorted(found) == ["queue://a", "queue://a", "queue://b"]


def test_what_a_transaction_acknowledges_is_said_once_it_is_committed(desk) -> None:
    """
    Stored or not; what is rolled back is not.
    """
    say(desk, "queue://orders", advisoryForConsumed="true")
    listener = listen(desk, "MessageConsumed.>")
    client = desk.connect()
    client.subscribe("/queue/orders")
    for persistent in ("true", "false"):
        client.send(b"x", persistent=persistent)
    desk.turn()
    found = [frame for frame in client.frames() if frame.command == "MESSAGE"]
    for end in ("ABORT", "COMMIT"):
        client.say("BEGIN", transaction="t")
        for message in found:
            client.say("ACK", id=message.headers["ack"], transaction="t")
        assert heard(listener) == []
        client.say(end, transaction="t")
    told = {each.headers["orignalMessageId"] for each in heard(listener)}
    assert told == {message.headers["message-id"] for message in found}


@pytest.mark.parametrize("destination", ["/topic/news", "/queue/news"])
def test_what_finds_no_consumer_is_passed_on_itself(desk, destination) -> None:
    """
    With its body and headers, and where it was sent; with a consumer, or stored, it is not.
    """
    kind = destination[1:].partition("/")[0]
    say(desk, f"{kind}://news", sendAdvisoryIfNoConsumers="true")
    listener = listen(desk, "NoConsumer.>")
    client = desk.connect()
    client.say("SEND", b"alone", destination=destination, colour="red")
    (passed,) = heard(listener)
    assert passed.body == b"alone"
    assert passed.headers["colour"] == "red"
    assert passed.headers["original-destination"] == f"{kind}://news"
    assert passed.headers["destination"] == f"{PREFIX}NoConsumer.{kind.title()}.news"
    client.subscribe(destination, id="c")
    client.say("SEND", b"heard", destination=destination)
    if kind == "queue":
        client.send(b"stored", "/queue/elsewhere")
    assert heard(listener) == []


def test_what_is_dropped_as_too_much_waits_is_said(desk) -> None:
    """
    Of a topic for whom; of a queue that keeps the newest, whether it is stored or not.
    """
    say(desk, "topic://news", advisoryForDiscardingMessages="true")
    limits = {"maxLength": 1, "overflow": "drop-head", "advisoryForDiscardingMessages": "true"}
    say(desk, "queue://ring", **limits)
    listener = listen(desk, "MessageDiscarded.>")
    client = desk.connect()
    limit = {"activemq.maximumPendingMessageLimit": "1", "activemq.prefetchSize": "1"}
    client.say("SUBSCRIBE", destination="/topic/news", id="n", ack="client", **limit)
    for body in (b"1", b"2", b"3"):
        client.say("SEND", body, destination="/topic/news")
    (dropped,) = heard(listener)
    assert dropped.headers["orignalDestination"] == "topic://news"
    assert dropped.headers["consumerId"] == f"{client.session.id}:1"
    assert dropped.headers["discardedCount"] == "1"
    for persistent in ("true", "false", "true"):
        client.send(b"x", "/queue/ring", persistent=persistent)
    told = heard(listener)
    assert [each.headers["orignalDestination"] for each in told] == ["queue://ring"] * 2
    assert told[0].headers["orignalMessageId"] != told[1].headers["orignalMessageId"]


def test_a_full_queue_and_who_must_wait_are_said_once_a_second(desk) -> None:
    """
    However many messages find it full.
    """
    told = {"advisoryWhenFull": "true", "advisoryForFastProducers": "true"}
    say(desk, "queue://small", maxLength=1, overflow="block", **told)
    listener = listen(desk, "*.Queue.small")
    client = desk.connect()
    for _ in range(5):
        client.send(b"x", "/queue/small")
    frames = heard(listener)
    kinds = [each.headers["destination"].removeprefix(PREFIX) for each in frames]
    assert kinds == ["FULL.Queue.small", "FastProducer.Queue.small"]
    assert frames[0].headers["usageName"] == "queue"
    assert frames[1].headers["producerId"] == client.session.id
    desk.broker.sending.now_microseconds += 1_000_000
    desk.broker.returning.look_at_the_clock()
    other = desk.connect()
    other.send(b"x", "/queue/small")
    said = [each.headers["destination"].removeprefix(PREFIX) for each in heard(listener)]
    assert said == ["FULL.Queue.small", "FastProducer.Queue.small"]


def test_a_queue_that_refuses_makes_nobody_wait(desk) -> None:
    """
    It is full, and no producer is too fast.
    """
    told = {"advisoryWhenFull": "true", "advisoryForFastProducers": "true"}
    say(desk, "queue://small", maxLength=1, **told)
    listener = listen(desk, "*.Queue.small")
    client = desk.connect()
    client.send(b"x", "/queue/small")
    client.send(b"x", "/queue/small")
    (full,) = heard(listener)
    assert full.headers["destination"] == f"{PREFIX}FULL.Queue.small"


def test_full_memory_and_a_full_disk_are_said(desk) -> None:
    """
    Of the destination for which there was no room.
    """
    say(desk, "queue://>", advisoryWhenFull="true")
    listener = listen(desk, "FULL.>")
    client = desk.connect()
    desk.context.refusal = "the disk is almost full"
    client.send(b"x", "/queue/stored")
    (full,) = heard(listener)
    assert full.headers["usageName"] == "store"
    desk.broker.flow.volatile_bytes = desk.settings.memory_bytes + 1
    client.send(b"x", "/queue/volatile", persistent="false")
    (full,) = heard(listener)
    assert (full.headers["usageName"], full.headers["destination"]) == (
        "memory",
        f"{PREFIX}FULL.Queue.volatile",
    )


def test_a_slow_consumer_is_said_though_nobody_ends_it(desk) -> None:
    """
    Once, as it is found; it is looked for only where a policy wants that.
    """
    say(desk, "queue://orders", advisoryForSlowConsumers="true", checkPeriod=1000)
    listener = listen(desk, "SlowConsumer.>")
    client = desk.connect()
    client.subscribe("/queue/orders", activemq__prefetchSize="1")
    client.send(b"a")
    client.send(b"b")
    for _ in range(60):
        desk.broker.sending.now_microseconds += 100_000
        desk.broker.returning.look_at_the_clock()
        if desk.broker.has_to_wake:
            desk.broker.wake()
        desk.turn()
    (slow,) = heard(listener)
    assert slow.headers["destination"] == f"{PREFIX}SlowConsumer.Queue.orders"
    assert slow.headers["consumerId"] == f"{client.session.id}:1"
    assert json.loads(slow.body)["ConsumerInfo"]["destination"] == "queue://orders"
    assert [*client.session.subscriptions] == ["s"]


def test_what_is_too_much_to_be_told_is_counted(desk) -> None:
    """
    A million that are acknowledged at once are not kept in memory to be told of.
    """
    desk.broker.advising._untold = UntoldMessages(10, 10)
    say(desk, "queue://orders", advisoryForConsumed="true")
    listener = listen(desk, "MessageConsumed.>")
    queue = desk.broker.queue("orders")
    desk.broker.advising.consumed(queue, range(1, 101))
    assert len(heard(listener)) == 10
    assert desk.broker.advising.missed_total == 90
    desk.broker.advising.consumed(queue, range(1, 4))
    assert len(heard(listener)) == 3


def test_of_advisories_nothing_is_said_and_nobody_else_may_be_meant() -> None:
    """
    Whatever a policy's pattern is: else each would bring the next.
    """
    desk = Desk(BrokerSettings())
    desk.broker.receipts.record(FormatRecord(NEWEST_LEVEL))
    desk.turn()
    say(desk, "topic://>", **dict.fromkeys(ADVISED_BY, "true"))
    say(desk, "queue://>", **dict.fromkeys(ADVISED_BY, "true"))
    listener = listen(desk)
    client = desk.connect()
    client.say("SEND", b"x", destination="/topic/news")
    desk.turn()
    assert 0 < len(heard(listener)) < 10
    assert heard(listener) == []

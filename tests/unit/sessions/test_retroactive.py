"""
Consumers of topics that ask for what was sent before they came, as STOMP clients say it.
"""

from __future__ import annotations

import pytest

from holdfast.broker.settings import BrokerSettings
from holdfast.model.format_level import DURABLE_LEVEL
from holdfast.model.policies import as_text
from holdfast.model.records import FormatRecord, PolicyRecord

TOPIC = "/topic/prices"
ASKED = {"activemq__retroactive": "true", "ack": "auto"}
NAME = {"activemq__subscriptionName": "mine"}


@pytest.fixture
def desk(new_desk):
    return keeping(new_desk(BrokerSettings(known_format_level=DURABLE_LEVEL)))


def keeping(desk):
    desk.broker.receipts.record(FormatRecord(DURABLE_LEVEL))
    values = {
        "subscriptionRecoveryPolicy": "fixedCountSubscriptionRecoveryPolicy",
        "recoveryMaximumCount": 4,
    }
    desk.broker.receipts.record(PolicyRecord("topic://prices.>", as_text(values)))
    desk.turn()
    return desk


def publish(client, *bodies, place=TOPIC, **headers):
    for body in bodies:
        client.send(body, place, **headers)
    client.desk.turn()


def test_who_asks_gets_what_was_kept_and_then_what_comes(desk) -> None:
    """
    By the header, or the option of the destination; persistent or not, whoever was there then.
    """
    sender = desk.connect()
    publish(sender, b"1", b"2", persistent="false")
    publish(sender, b"3")
    asking, by_option, other = desk.connect(), desk.connect(), desk.connect()
    asking.subscribe(TOPIC, **ASKED)
    by_option.subscribe(f"{TOPIC}?consumer.retroactive=true", ack="auto")
    other.subscribe(TOPIC, ack="auto", activemq__retroactive="false")
    publish(sender, b"4")
    assert asking.bodies() == by_option.bodies() == ["1", "2", "3", "4"]
    assert other.bodies() == ["4"]


def test_it_gets_what_it_wants_of_it(desk) -> None:
    """
    By its selector, without its own, and nothing that has expired meanwhile.
    """
    client, other = desk.connect(), desk.connect()
    publish(client, b"own", n="1")
    publish(other, b"1", n="1")
    publish(other, b"2", n="2")
    publish(other, b"old", n="1", expiration="1000")
    desk.broker.sending.now_microseconds += 2_000_000
    desk.broker.destinations.leadership.now_ms += 2_000_000
    client.subscribe(TOPIC, selector="n = 1", no_local="true", **ASKED)
    assert client.bodies() == ["1"]


def test_a_wildcard_gets_it_of_each_topic(desk) -> None:
    """
    Also of one that is made later: nothing that comes before it has joined is missed.
    """
    sender, client = desk.connect(), desk.connect()
    publish(sender, b"a", place="/topic/prices.a")
    publish(sender, b"b", place="/topic/prices.b")
    client.subscribe("/topic/prices.>", **ASKED)
    assert sorted(client.bodies()) == ["a", "b"]
    sender.send(b"c1", "/topic/prices.c")
    sender.send(b"c2", "/topic/prices.c")
    assert client.bodies() == ["c1", "c2"]


def test_a_wildcard_gets_nothing_twice_as_a_topic_is_forgotten_and_made_again(new_desk) -> None:
    """
    What it had is kept for nobody then; where nobody was subscribed it is.
    """
    settings = BrokerSettings(known_format_level=DURABLE_LEVEL, topic_count_max=4)
    desk = keeping(new_desk(settings))
    wild, sender = desk.connect(), desk.connect()
    wild.subscribe("/topic/prices.>", **ASKED)
    publish(sender, b"1", b"2", place=f"{TOPIC}.a", persistent="false")
    assert wild.bodies() == ["1", "2"]
    for number in range(8):
        publish(sender, b"x", place=f"/topic/other.{number}", persistent="false")
    assert "prices.a" not in desk.broker.destinations.topics
    publish(sender, b"3", place=f"{TOPIC}.a", persistent="false")
    assert wild.bodies() == ["3"]
    late = desk.connect()
    late.subscribe(f"{TOPIC}.a", **ASKED)
    assert late.bodies() == ["3"]


def test_a_topic_that_is_stored_keeps_as_well(desk) -> None:
    """
    What a COMMIT is just putting there comes once, whoever subscribes meanwhile.
    """
    durable = desk.connect(client_id="c1")
    durable.subscribe(TOPIC, "d", **NAME)
    desk.turn()
    sender, client = desk.connect(), desk.connect()
    publish(sender, b"1")
    sender.say("BEGIN", transaction="t")
    sender.send(b"2", TOPIC, transaction="t")
    sender.say("COMMIT", transaction="t")
    desk.seal()
    client.subscribe(TOPIC, **ASKED)
    assert client.bodies() == ["1", "2"]
    publish(sender, b"3")
    assert client.bodies() == ["3"]


def test_the_next_leader_keeps_what_comes_from_then_on(desk) -> None:
    """
    What the old one kept was in its memory only; the policy is in the log.
    """
    publish(desk.connect(), b"1")
    desk.fail_over()
    desk.context.forget_sessions()
    sender = desk.connect()
    publish(sender, b"2")
    client = desk.connect()
    client.subscribe(TOPIC, **ASKED)
    assert client.bodies() == ["2"]


@pytest.mark.parametrize(
    ("headers", "code", "why"),
    [
        ({"destination": "/queue/a"}, "destination", "header activemq.retroactive is of topics"),
        ({"destination": f"{TOPIC},/queue/a"}, "destination", "not of '/queue/a'"),
        ({"destination": TOPIC, **NAME}, "destination", "cannot be retroactive"),
        ({"destination": TOPIC, "activemq__retroactive": "1"}, "refused", "neither true nor"),
        (
            {"destination": f"{TOPIC}?consumer.retroactive=x", "activemq__retroactive": "false"},
            "",
            "",
        ),
    ],
)
def test_what_makes_no_sense_is_refused(desk, headers, code, why) -> None:
    """
    With what is wrong; a header counts before an option. The connection lives on.
    """
    client = desk.connect(client_id="c1")
    said = {"activemq__retroactive": "true", "id": "1", "receipt": "r", **headers}
    (frame,) = client.ask("SUBSCRIBE", **said)
    if not code:
        assert frame.command == "RECEIPT"
        return
    assert (frame.headers["code"], frame.headers["receipt-id"]) == (code, "r")
    assert why in frame.headers["message"]
    assert not client.session.subscriptions
    assert not desk.broker.state.subscriptions


def test_who_asks_again_and_again_waits_for_what_he_asked_for(new_desk) -> None:
    """
    A topic's line is for all: one connection has one answer in it, however many it asks for.
    """
    desk = keeping(new_desk(BrokerSettings(known_format_level=DURABLE_LEVEL, step_count_max=2)))
    sender, client = desk.connect(), desk.connect()
    publish(sender, b"1", b"2", b"3", b"4")
    asked = b"SUBSCRIBE\nid:%d\ndestination:/topic/prices\nack:auto\n%b\n\0"
    many = [asked % (number, b"activemq.retroactive:true\n") for number in range(5)]
    client.raw(b"".join(many))
    assert client.session.is_left_off
    assert len(client.session.subscriptions) == 1
    publish(sender, b"5", place="/topic/prices.other")
    for count in range(2, 6):
        assert not desk.broker.publishing.spreads
        client.session.proceed(lambda: False)
        assert len(client.session.subscriptions) == count
        desk.turn()
    client.session.proceed(lambda: False)
    assert not client.session.is_left_off
    assert not desk.broker.publishing.replaying
    assert client.bodies() == ["1", "2", "3", "4"] * 5
    client.raw(asked % (9, b""))
    assert not client.session.is_left_off

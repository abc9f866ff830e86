"""
Durable subscriptions, many of one topic: what one message for all of them takes of the loop.
"""

from __future__ import annotations

import pytest

from holdfast.broker.settings import BrokerSettings
from holdfast.model.format_level import DURABLE_LEVEL
from holdfast.model.records import FormatRecord
from holdfast.protocols.stomp.codec import encode_frame

TOPIC = "/topic/prices"
SELECTOR = "n = 1 and kind like 'a%b%c'"


@pytest.fixture
def desk(new_desk):
    desk = new_desk(BrokerSettings(known_format_level=DURABLE_LEVEL))
    desk.broker.receipts.record(FormatRecord(DURABLE_LEVEL))
    desk.turn()
    return desk


def take_up(desk, number, **headers):
    """Connect and subscribe durably."""
    client = desk.connect(client_id=f"c{number}")
    client.subscribe(TOPIC, "d", activemq__subscriptionName="mine", **headers)
    desk.turn()
    return client


@pytest.mark.parametrize(
    ("count", "selector", "persistent"),
    [(40, SELECTOR, "true"), (70, "", "false"), (40, SELECTOR, "false")],
)
def test_who_takes_a_message_for_many_lets_others_have_their_turn(
    desk, monkeypatch, count, selector, persistent
) -> None:
    """
    64 messages in one read, each to be asked of many or put before many, took 0.2 to 2 s together.
    """
    client = desk.connect(client_id="c")
    headers = {"selector": selector} if selector else {}
    for number in range(count):
        named = {"activemq__subscriptionName": str(number)}
        client.subscribe(TOPIC, str(number), **headers, **named)
    desk.turn()
    topic = desk.broker.destinations.stored_topic("prices")
    effort_max = desk.settings.step_count_max
    assert topic.effort_of(is_stored=persistent == "true") >= effort_max
    sender, said = desk.connect(), {"destination": TOPIC, "persistent": persistent}
    data = encode_frame("SEND", [*said.items(), ("n", "1"), ("kind", "abc")], b"x", "1.2")
    sent = []
    name = "send_to_all" if persistent == "true" else "send_transient_to_all"
    send = getattr(desk.broker, name)
    monkeypatch.setattr(
        desk.broker, name, lambda *them, **more: (sent.append(1), send(*them, **more))[1]
    )
    assert not sender.session.receive(data * 3, lambda: True)
    assert len(sent) == 1
    assert not sender.session.proceed(lambda: True)
    assert len(sent) == 2
    while not sender.session.proceed(lambda: False):
        pass
    assert len(sent) == 3


def test_what_asking_selectors_takes_ends_with_them(desk) -> None:
    """
    Else who comes later would be refused for the sake of those that are gone.
    """
    client = take_up(desk, 1, selector="n = 1")
    topic = desk.broker.destinations.stored_topic("prices")
    before = topic.effort
    assert before > 0
    other = take_up(desk, 2, selector="n = 1 and m = 2")
    assert topic.effort > before
    other.ask("UNSUBSCRIBE", id="d", activemq__subscriptionName="mine")
    assert topic.effort == before
    client.leave()


def test_a_commit_for_many_lets_others_have_their_turn(desk) -> None:
    """
    What is not kept is put before each of them, in steps.
    """
    client = desk.connect(client_id="c")
    for number in range(desk.settings.step_count_max):
        client.subscribe(TOPIC, str(number), activemq__subscriptionName=str(number))
    desk.turn()
    transaction = desk.broker.begin("t")
    topic = desk.broker.destinations.stored_topic("prices")
    for _ in range(3):
        desk.broker.hold(transaction, topic, b"", b"x", persistent=False)
    desk.broker.commit(transaction, client.session, None)
    steps = desk.broker.committing.publish_after_commit(desk.broker.receipts.batch)
    assert len(list(steps)) == 3

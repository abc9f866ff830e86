"""
What the broker says of itself, as STOMP clients hear it.
"""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET

import pytest

from holdfast.broker.serving.listeners import ADVISORIES_WAITING_MAX
from holdfast.model.format_level import NEWEST_LEVEL

CONSUMERS = "ActiveMQ.Advisory.Consumer.Queue.orders"


@pytest.fixture
def desk(desk):
    desk.broker.state.format_level = NEWEST_LEVEL
    return desk


def listen(desk, name: str = "ActiveMQ.Advisory.>", id: str = "a", **headers: str):
    """Connect somebody who listens, and has heard what there is."""
    client = desk.connect()
    client.subscribe(f"/topic/{name}", id=id, ack="auto", **headers)
    heard(client)
    return client


def heard(client) -> list:
    """Let all be done, and give what somebody was told."""
    client.desk.turn()
    frames = client.frames()
    assert [frame for frame in frames if frame.command == "ERROR"] == []
    return [frame for frame in frames if frame.command == "MESSAGE"]


def names(frames) -> list[str]:
    prefix = "/topic/ActiveMQ.Advisory."
    assert all(frame.headers["destination"].startswith(prefix) for frame in frames)
    return [frame.headers["destination"].removeprefix(prefix) for frame in frames]


def test_who_consumes_is_said_and_who_does_not_any_more(desk) -> None:
    """
    With the number of consumers then, and headers and a body of ActiveMQ's names.
    """
    listener = listen(desk, CONSUMERS)
    client = desk.connect()
    client.subscribe("/queue/orders", activemq__prefetchSize="7", selector="a = 1")
    client.subscribe("/queue/others", id="t")
    (came,) = heard(listener)
    assert came.headers["destination"] == f"/topic/{CONSUMERS}"
    assert came.headers["type"] == "Advisory"
    assert came.headers["subscription"] == "a"
    assert came.headers["consumerCount"] == "1"
    assert came.headers["originBrokerName"] == "n1"
    assert came.headers["transformation"] == "jms-advisory-json"
    said = json.loads(came.body)["ConsumerInfo"]
    assert said["destination"] == "queue://orders"
    assert (said["prefetchSize"], said["priority"], said["exclusive"]) == (7, 0, False)
    assert said["selector"]
    assert said["consumerId"]["connectionId"] == client.session.id
    client.say("UNSUBSCRIBE", id="s")
    (went,) = heard(listener)
    assert went.headers["consumerCount"] == "0"
    assert json.loads(went.body) == {"RemoveInfo": {"objectId": said["consumerId"]}}


def test_who_listens_is_told_first_what_there_is(desk) -> None:
    """
    Connections, queues, topics and their consumers, temporary ones too; what is deleted meanwhile
    is not among them, nor what is the broker's own.
    """
    client = desk.connect()
    client.subscribe("/queue/orders")
    client.subscribe("/topic/news", id="t")
    client.subscribe("/temp-queue/answers", id="u")
    client.send(b"x", "/queue/stored")
    client.send(b"x", "/queue/deleted")
    client.send(b"x", "/queue/later", AMQ_SCHEDULED_DELAY="1000")
    desk.turn()
    desk.broker.delete("deleted", client.session, b"r")
    desk.turn()
    listener = desk.connect()
    listener.subscribe("/topic/ActiveMQ.Advisory.>", ack="auto")
    found = names(heard(listener))
    address = client.session.address
    assert sorted(found) == sorted(
        [
            *("Queue", "Queue", "Topic", "TempQueue"),
            *("Consumer.Queue.orders", "Consumer.Topic.news"),
            f"Consumer.TempQueue.{address}.answers",
        ]
    )


def test_queues_and_topics_come_and_go(desk) -> None:
    """
    Each is said once, with what it is called; the topic of the listener itself is not.
    """
    listener = listen(desk)
    client = desk.connect()
    client.send(b"x", "/queue/a")
    client.send(b"x", "/queue/a")
    client.send(b"x", "/topic/b")
    client.say("SUBSCRIBE", destination="/temp-topic/c", id="1")
    client.session.leave()
    frames = heard(listener)
    said = [
        (name, frame.headers["destinationName"], frame.headers["operationType"])
        for frame, name in zip(frames, names(frames), strict=True)
        if "operationType" in frame.headers
    ]
    address = f"{client.session.address}.c"
    assert said == [
        *(("Queue", "a", "0"), ("Topic", "b", "0")),
        *(("TempTopic", address, "0"), ("TempTopic", address, "1")),
    ]
    desk.broker.delete("a", client.session, b"r")
    (gone,) = heard(listener)
    assert json.loads(gone.body) == {
        "DestinationInfo": {"destination": "queue://a", "operationType": 1}
    }


def test_connections_come_and_go(desk) -> None:
    """
    Who is known by a client-id says so; the end is said once, whoever asks how far it is.
    """
    listener = listen(desk, "ActiveMQ.Advisory.Connection")
    client = desk.connect(client_id="billing")
    (came,) = heard(listener)
    assert json.loads(came.body)["ConnectionInfo"] == {
        "connectionId": client.session.id,
        "clientId": "billing",
    }
    client.session.leave()
    client.session.leave()
    (went,) = heard(listener)
    assert json.loads(went.body) == {"RemoveInfo": {"objectId": {"value": client.session.id}}}


@pytest.mark.parametrize("persistent", ["true", "false"])
def test_dead_letters_and_what_expires_are_said(desk, persistent) -> None:
    """
    Of the queue where they were, with the id that they had there. What is nowhere any more is no
    dead letter.
    """
    listener = listen(desk, "ActiveMQ.Advisory.>")
    client = desk.connect()
    client.subscribe(activemq__prefetchSize="1")
    client.send(b"1", persistent=persistent, expires=str(1_700_000_000_500))
    client.send(b"2", persistent=persistent, expires=str(1_700_000_000_500))
    desk.turn()
    first = next(frame for frame in client.frames() if frame.command == "MESSAGE")
    heard(listener)
    client.say("NACK", id=first.headers["ack"])
    if persistent == "true":
        (dead,) = [it for it in heard(listener) if "MessageDLQd" in it.headers["destination"]]
        assert names([dead]) == ["MessageDLQd.Queue.orders"]
        assert dead.headers["orignalMessageId"] == first.headers["message-id"]
        assert dead.headers["orignalDestination"] == "queue://orders"
    else:
        assert "MessageDLQd.Queue.orders" not in names(heard(listener))
    second = next(frame for frame in client.frames() if frame.command == "MESSAGE")
    client.session.leave()
    heard(listener)
    desk.broker.sending.now_microseconds += 1_000_000
    desk.broker.returning.look_at_the_clock()
    desk.broker.wake()
    frames = [it for it in heard(listener) if "orignalMessageId" in it.headers]
    assert {it.headers["orignalMessageId"] for it in frames} == {second.headers["message-id"]}
    expected = {"Expired.Queue.orders"} | (
        {"MessageDLQd.Queue.orders"} if persistent == "true" else set()
    )
    assert set(names(frames)) == expected


def test_a_selector_chooses_among_advisories(desk) -> None:
    """
    As ActiveMQ's network of brokers and monitors use it: only when the last consumer left.
    """
    listener = listen(desk, CONSUMERS, selector="consumerCount = 0")
    client = desk.connect()
    client.subscribe()
    client.subscribe(id="2")
    client.say("UNSUBSCRIBE", id="2")
    assert heard(listener) == []
    client.say("UNSUBSCRIBE", id="s")
    assert len(heard(listener)) == 1


def test_a_body_may_be_xml(desk) -> None:
    """
    Names that mean something in XML are kept from it; who wants JSON has that beside it.
    """
    in_json = listen(desk, "ActiveMQ.Advisory.Queue")
    in_xml = listen(desk, "ActiveMQ.Advisory.Queue", transformation="jms-advisory-xml")
    desk.connect().send(b"x", "/queue/a<b&c")
    (frame,) = heard(in_xml)
    assert frame.headers["transformation"] == "jms-advisory-xml"
    assert ET.fromstring(frame.body).findtext("destination") == "queue://a<b&c"
    (frame,) = heard(in_json)
    assert json.loads(frame.body)["DestinationInfo"]["destination"] == "queue://a<b&c"


def test_nobody_is_told_of_who_listens(desk) -> None:
    """
    Two who listen to everything would tell each other of each other.
    """
    first = listen(desk)
    second = listen(desk, id="b")
    assert names(heard(first)) == ["Connection"]
    second.say("UNSUBSCRIBE", id="b")
    assert heard(first) == []


@pytest.mark.parametrize("version", ["1.0", "1.1", "1.2"])
def test_each_version_is_told_the_destination_once(desk, version) -> None:
    """
    With a wildcard an advisory says by its destination what it is, in each version's escapes.
    """
    client = desk.connect(version)
    client.say("SUBSCRIBE", destination="/topic/ActiveMQ.Advisory.Queue.>", id="1")
    desk.turn()
    client.bytes()
    desk.connect().send(b"x", "/queue/with:colon")
    desk.turn()
    raw = client.bytes()
    assert raw.count(b"\ndestination:/topic/ActiveMQ.Advisory.Queue\n") == 1
    escaped = b"with\\ccolon" if version == "1.2" else b"with:colon" if version == "1.0" else None
    assert escaped is None or b"destinationName:" + escaped in raw


def test_who_listens_and_does_not_read_costs_so_much(desk) -> None:
    """
    A thousand wait, of more the oldest are dropped, and nobody's producer waits for that. What
    there is comes as far as there is room, and goes on; what is new meanwhile may come twice.
    """
    client = desk.connect()
    for number in range(50):
        client.send(b"x", f"/queue/q{number}")
    desk.turn()
    listener = desk.connect()
    listener.session.room_bytes = 600
    listener.subscribe("/topic/ActiveMQ.Advisory.Queue", ack="auto")
    assert 0 < len(heard(listener)) < 5
    for number in range(ADVISORIES_WAITING_MAX + 100):
        client.send(b"x", f"/queue/more{number}")
        if not number % 100:
            desk.turn()
    desk.turn()
    (subscription,) = listener.session.subscriptions.values()
    assert len(subscription.pending) == ADVISORIES_WAITING_MAX
    assert client.frames() == []
    found = []
    for _ in range(2_000):
        listener.session.room_bytes = 100_000
        desk.broker.resume(listener.session)
        frames = heard(listener)
        if not frames:
            break
        found += [frame.headers["destinationName"] for frame in frames]
    assert {f"q{number}" for number in range(10, 50)} <= set(found)
    assert f"more{ADVISORIES_WAITING_MAX + 99}" in found
    assert not subscription.topic.replays


@pytest.mark.parametrize(
    ("headers", "why"),
    [
        ({"destination": "/topic/ActiveMQ.Advisory.MasterBroker.>"}, "'MasterBroker'"),
        ({"destination": "/topic/ActiveMQ.Advisory."}, "advisories of kind ''"),
        ({"destination": "/topic/ActiveMQ.Advisory.Queue,/topic/a"}, "and nothing else"),
        ({"destination": "/queue/ActiveMQ.Advisory.Queue"}, "broker's own"),
        ({"destination": "/topic/ActiveMQ.Advisory.Queue.x>"}, "stands at the end"),
        ({"destination": "/topic/ActiveMQ.Advisory.>", "transformation": "jms-map"}, "'jms-map'"),
    ],
)
def test_what_would_never_come_is_refused(desk, headers, why) -> None:
    """
    Who waits for ever for what nobody says is told so, and its connection lives.
    """
    client = desk.connect()
    error = client.refusal("SUBSCRIBE", id="1", **headers)
    assert error.headers["code"] == "destination"
    assert why in error.headers["message"]
    assert not desk.broker.advising.listeners


@pytest.mark.parametrize("name", ["/topic/ActiveMQ.Advisory.Queue", "/queue/ActiveMQ.Advisory.x"])
def test_nobody_else_says_what_the_broker_says(desk, name) -> None:
    """
    What a client sends there would be taken for the broker's word.
    """
    listener = listen(desk)
    client = desk.connect()
    heard(listener)
    assert "broker's own" in client.refusal("SEND", destination=name).headers["message"]
    assert heard(listener) == []


def test_with_the_leadership_all_is_forgotten(desk) -> None:
    """
    Who listened is gone with its connection.
    """
    listen(desk)
    assert desk.broker.advising.listeners
    desk.broker.follow()
    assert not desk.broker.advising.listeners

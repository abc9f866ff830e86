"""
Durable subscriptions whose dead letters go to a queue of their own each.
"""

from __future__ import annotations

import json

import pytest

from holdfast.broker.lasting.snapshot import digest_of
from holdfast.broker.settings import BrokerSettings
from holdfast.model.format_level import WILD_DURABLES_LEVEL
from holdfast.model.records import FormatRecord, MessageRecord, MoveRecord, PolicyRecord
from holdfast.store.record_codec import decode_records

OWN = {"deadLetterStrategy": "individual", "destinationPerDurableSubscriber": "true"}
DLQ = "ActiveMQ.DLQ.Topic"


def new_with(new_desk, **settings: int):
    desk = new_desk(BrokerSettings(**settings))
    desk.broker.receipts.record(FormatRecord(WILD_DURABLES_LEVEL))
    say(desk, "topic://>", **OWN)
    return desk


@pytest.fixture
def desk(new_desk):
    return new_with(new_desk)


def say(desk, pattern: str, **values: object) -> None:
    desk.broker.receipts.record(PolicyRecord(pattern, json.dumps(values)))
    desk.turn()


def taken_up(desk, client_id: str, name: str = "mine", place: str = "/topic/prices", **said: str):
    client = desk.connect(client_id=client_id)
    client.subscribe(place, "d", activemq__subscriptionName=name, **said)
    desk.turn()
    return client


def messages(client):
    client.desk.turn()
    return [it for it in client.frames() if it.command == "MESSAGE"]


def fail_over(desk) -> None:
    desk.fail_over()
    desk.context.forget_sessions()


def reject(client) -> None:
    for message in messages(client):
        client.ask("NACK", id=message.headers["ack"])


def on(desk, queue: str) -> list[bytes]:
    """What is there; nothing is created by looking."""
    if not desk.broker.destinations.has_queue(queue):
        return []
    client = desk.connect()
    client.subscribe(f"/queue/{queue}", "b", ack="auto", browser="true")
    bodies = [it.body for it in messages(client) if "browser" not in it.headers]
    client.leave()
    return bodies


def test_each_has_a_queue_of_its_own(desk) -> None:
    """
    Called by topic, client and name; what others did not reject they keep. One entry without the
    bytes for each, which are stored once.
    """
    clients = [taken_up(desk, "ann"), taken_up(desk, "bob"), taken_up(desk, "bob 2", "a,b")]
    desk.connect().send(b"1", "/topic/prices")
    reject(clients[0])
    assert on(desk, f"{DLQ}.prices.ann:mine") == [b"1"]
    assert on(desk, f"{DLQ}.prices.bob:mine") == []
    for client in clients[1:]:
        reject(client)
    assert on(desk, f"{DLQ}.prices.bob:mine") == [b"1"]
    assert on(desk, f"{DLQ}.prices.bob%202:a%2Cb") == [b"1"]
    assert not desk.broker.destinations.has_queue(f"{DLQ}.prices")
    logged = [type(it) for _, _, body in desk.log for it in decode_records(body)]
    assert (logged.count(MessageRecord), logged.count(MoveRecord)) == (1, 3)


def test_over_a_failover_it_is_the_same_queue(desk) -> None:
    """
    Whoever leads: what is rejected before and after, also by one that has the topic by a wildcard,
    of which each topic's dead letters are by themselves; all of it is called by its client's words.
    """
    place = "/topic/a.>"
    for number, destination in ((1, "a.x"), (2, "a.y"), (3, "a.x")):
        client = taken_up(desk, "ann", place=place)
        desk.connect().send(b"%d" % number, f"/topic/{destination}")
        reject(client)
        before = digest_of(desk.broker.state)
        fail_over(desk)
        assert digest_of(desk.broker.state) == before
    assert on(desk, f"{DLQ}.a.x.ann:mine") == [b"1", b"3"]
    assert on(desk, f"{DLQ}.a.y.ann:mine") == [b"2"]
    names = [it for it in desk.broker.destinations.queue_names() if it.startswith(DLQ)]
    assert len(names) == 2


def test_what_expires_goes_there_too(desk) -> None:
    """
    Of one that is away, and no later than that.
    """
    for client_id in ("ann", "bob"):
        taken_up(desk, client_id).leave()
    desk.connect().send(b"1", "/topic/prices", expiration="1000")
    desk.turn()
    desk.broker.sending.now_microseconds += 2_000_000
    desk.broker.expiring.step()
    desk.turn()
    for client_id in ("ann", "bob"):
        assert on(desk, f"{DLQ}.prices.{client_id}:mine") == [b"1"]


@pytest.mark.parametrize(
    ("values", "queue"),
    [
        ({"destinationPerDurableSubscriber": "true"}, "ActiveMQ.DLQ"),
        ({"deadLetterStrategy": "individual"}, f"{DLQ}.prices"),
        ({**OWN, "topicPrefix": "D.", "topicSuffix": ".s"}, "D.prices.ann:mine.s"),
    ],
)
def test_other_keys_count_with_it(desk, values, queue) -> None:
    """
    It says nothing where all share a queue; around the name stands what is said.
    """
    say(desk, "topic://>", **values)
    client = taken_up(desk, "ann")
    desk.connect().send(b"1", "/topic/prices")
    reject(client)
    assert on(desk, queue) == [b"1"]


def test_what_would_be_too_long_a_name_is_the_topics(desk) -> None:
    """
    Or the shared one, if that is too long as well.
    """
    client = taken_up(desk, "ann", "n" * 1_000)
    desk.connect().send(b"1", "/topic/prices")
    reject(client)
    assert on(desk, f"{DLQ}.prices") == [b"1"]
    long = "t" * 1_010
    client = taken_up(desk, "bob", "n", f"/topic/{long}")
    desk.connect().send(b"2", f"/topic/{long}")
    reject(client)
    assert on(desk, "ActiveMQ.DLQ") == [b"2"]


def test_they_count_as_queues(new_desk) -> None:
    """
    Where there are as many as may be, what is rejected stays with who has it.
    """
    desk = new_with(new_desk, queue_count_max=1)
    clients = [taken_up(desk, "ann"), taken_up(desk, "bob")]
    desk.connect().send(b"1", "/topic/prices")
    reject(clients[0])
    (message,) = messages(clients[1])
    error = clients[1].refusal("NACK", id=message.headers["ack"])
    assert "queues already; at most 1" in error.headers["message"]
    assert on(desk, f"{DLQ}.prices.ann:mine") == [b"1"]
    fail_over(desk)
    assert [it.body for it in messages(taken_up(desk, "bob"))] == [b"1"]

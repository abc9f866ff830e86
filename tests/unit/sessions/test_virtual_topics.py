"""
What is sent to a virtual topic goes to each of its consumers' queues, and is stored once.
"""

from __future__ import annotations

import pytest

from holdfast.broker import addressing
from holdfast.broker.serving import virtual_consumers
from holdfast.model.format_level import FACTS_LEVEL
from tests.unit.sessions.test_several_destinations import bodies_of, stored

TOPIC = "/topic/VirtualTopic.orders"
A, B = "Consumer.A.VirtualTopic.orders", "Consumer.B.VirtualTopic.orders"


@pytest.fixture
def desk(desk):
    desk.broker.state.format_level = FACTS_LEVEL
    for name in (A, B, "Consumer.A.VirtualTopic.other", "Consumer.A.X.VirtualTopic.orders"):
        client = desk.connect()
        client.subscribe(f"/queue/{name}")
        desk.turn()
        client.leave()
    return desk


def test_each_application_gets_all_and_subscribers_too(desk) -> None:
    """
    As queues: with what a queue of its own gives an application, over a failover, too.
    """
    live, client = desk.connect(), desk.connect()
    live.subscribe(TOPIC, ack="auto")
    desk.turn()
    client.send(b"1", TOPIC, receipt="r")
    desk.turn()
    assert [frame.command for frame in client.frames()] == ["RECEIPT"]
    assert live.bodies() == ["1"]
    (record,) = stored(desk)
    assert len(record.places) == 2
    client.subscribe(f"/queue/{A}", ack="auto")
    assert client.bodies() == ["1"]
    desk.fail_over()
    assert bodies_of(desk, A, B) == {A: [], B: ["1"]}
    assert bodies_of(desk, "Consumer.A.VirtualTopic.other") == {"Consumer.A.VirtualTopic.other": []}


def test_a_queue_that_comes_or_goes_counts_from_the_next_message_on(desk) -> None:
    """
    Also for the same headers, whose meaning is else kept.
    """
    client = desk.connect()
    third = "Consumer.C.VirtualTopic.orders"
    client.send(b"1", TOPIC)
    client.subscribe(f"/queue/{third}", "c")
    client.send(b"2", TOPIC)
    desk.turn()
    desk.broker.delete(B, client.session, b"gone")
    client.send(b"3", TOPIC)
    desk.turn()
    assert [it.body for it in client.frames() if it.command == "MESSAGE"] == [b"2", b"3"]
    client.leave()
    assert bodies_of(desk, A, third) == {A: ["1", "2", "3"], third: ["2", "3"]}
    assert not desk.broker.destinations.has_queue(B)


def test_without_a_consumer_nothing_is_stored(new_desk) -> None:
    """
    It is a topic as any other then; a producer's number counts all the same.
    """
    desk = new_desk()
    client = desk.connect()
    client.subscribe(TOPIC, ack="auto")
    named = {"producer-id": "p", "producer-sequence": "1", "receipt": "1"}
    client.send(b"1", TOPIC, **named)
    client.send(b"1", TOPIC, **named)
    desk.turn()
    found = client.frames()
    assert [it.body for it in found if it.command == "MESSAGE"] == [b"1"]
    assert [it.command for it in found].count("RECEIPT") == 2
    client.subscribe(f"/queue/{A}", "a")
    client.send(b"2", TOPIC, **{**named, "producer-sequence": "2", "receipt": "2"})
    desk.turn()
    assert [it.command for it in client.frames()].count("MESSAGE") == 2
    assert [(it.producer_id, it.producer_sequence) for it in stored(desk)] == [("p", 2)]


def test_what_is_not_persistent_is_kept_in_memory_for_them(desk) -> None:
    """
    As on any queue.
    """
    desk.connect().say("SEND", b"1", destination=TOPIC)
    desk.turn()
    assert stored(desk) == []
    assert bodies_of(desk, A, B) == {A: ["1"], B: ["1"]}


def test_in_a_transaction_it_goes_to_those_there_are_as_it_is_sent(desk) -> None:
    """
    With the commit, to all of them.
    """
    client = desk.connect()
    client.say("BEGIN", transaction="t")
    client.send(b"1", TOPIC, transaction="t")
    client.say("COMMIT", transaction="t", receipt="r")
    desk.turn()
    assert bodies_of(desk, A, B) == {A: ["1"], B: ["1"]}


def test_many_consumers_get_it_in_records_of_some_places_each(desk) -> None:
    """
    To apply one record is a step that is not cut.
    """
    client = desk.connect()
    names = [f"Consumer.{n}.VirtualTopic.many" for n in range(150)]
    for name in names:
        client.send(b"0", f"/queue/{name}")
    desk.turn()
    before = len(stored(desk))
    client.send(b"1", "/topic/VirtualTopic.many", receipt="r")
    desk.turn()
    assert [len(record.places) for record in stored(desk)[before:]] == [64, 64, 22]
    assert bodies_of(desk, *names) == {name: ["0", "1"] for name in names}


def test_one_consumer_more_than_may_be_is_refused(desk, monkeypatch) -> None:
    """
    Whoever comes with it; the others go on.
    """
    monkeypatch.setattr(virtual_consumers, "VIRTUAL_CONSUMERS_MAX", 2)
    name = "/queue/Consumer.C.VirtualTopic.orders"
    client = desk.connect()
    for command in ("SEND", "SUBSCRIBE"):
        error = client.refusal(command, destination=name, id="1", receipt="r")
        assert "may consume topic 'VirtualTopic.orders'" in error.headers["message"]
    client.send(b"1", TOPIC)
    assert bodies_of(desk, A, B) == {A: ["1"], B: ["1"]}


def test_what_is_stored_is_confirmed_though_it_would_go_to_too_many_by_now(
    desk, monkeypatch
) -> None:
    """
    What is new is refused then.
    """
    client = desk.connect()
    said = {"destination": TOPIC, "persistent": "true", "receipt": "r", "producer_id": "p"}
    (first,) = client.ask("SEND", b"1", **said, producer_sequence="1")
    assert first.command == "RECEIPT"
    monkeypatch.setattr(addressing, "PLACES_MAX", 1)
    (again,) = client.ask("SEND", b"1", **said, producer_sequence="1")
    assert again.command == "RECEIPT"
    error = client.refusal("SEND", b"2", **said, producer_sequence="2")
    assert "at most 1 may have one" in error.headers["message"]
    assert bodies_of(desk, A) == {A: ["1"]}

"""
What one client may use up: counts of destinations, subscriptions and transactions.
"""

from __future__ import annotations

import pytest

from holdfast.broker.settings import BrokerSettings


def test_one_queue_too_many_is_refused(new_desk) -> None:
    """
    A client that makes up names cannot fill the log with declarations.
    """
    client = new_desk(BrokerSettings(queue_count_max=1)).connect()
    client.send(b"x", "/queue/a")
    error = client.refusal("SEND", destination="/queue/b", persistent="true")
    assert error.headers["code"] == "destination"
    assert "at most 1" in error.headers["message"]


def test_idle_topics_make_room_for_new_ones(new_desk) -> None:
    """
    A topic without subscribers is forgotten when there are too many; its producers find it again.
    """
    desk = new_desk(BrokerSettings(topic_count_max=1))
    producer, consumer = desk.connect(), desk.connect()
    producer.say("SEND", b"nobody", destination="/topic/a")
    producer.say("SEND", b"nobody", destination="/topic/b")
    consumer.subscribe("/topic/a")
    producer.say("SEND", b"heard", destination="/topic/a")
    assert consumer.bodies() == ["heard"]


def test_one_topic_too_many_is_refused(new_desk) -> None:
    """
    Topics with subscribers are kept, and a further one is refused.
    """
    client = new_desk(BrokerSettings(topic_count_max=1)).connect()
    client.subscribe("/topic/a")
    error = client.refusal("SEND", destination="/topic/b")
    assert error.headers["code"] == "destination"


def test_at_the_limit_no_topic_with_subscribers_is_looked_at(new_desk) -> None:
    """
    Each SEND to a new name looked at all 100,000, which held the loop for seconds.
    """
    desk = new_desk(BrokerSettings(topic_count_max=3))
    client = desk.connect()
    client.subscribe("/topic/a", id="a")
    client.subscribe("/topic/b", id="b")
    client.subscribe("/topic/c", id="c")
    assert client.refusal("SEND", destination="/topic/d").headers["code"] == "destination"
    desk.broker.destinations.topics = Unlisted(desk.broker.destinations.topics)
    assert client.refusal("SEND", destination="/topic/d").headers["code"] == "destination"
    client.ask("UNSUBSCRIBE", id="b")
    client.say("SEND", b"x", destination="/topic/d")
    assert set(desk.broker.destinations.topics) == {"a", "c", "d"}


class Unlisted(dict):
    """A dictionary that nobody may go through."""

    def items(self):
        raise AssertionError("all topics are looked at")


def test_one_temporary_queue_too_many_is_refused(new_desk) -> None:
    """
    Temporary queues cost memory of the leader.
    """
    client = new_desk(BrokerSettings(temporary_count_max=1)).connect()
    client.subscribe("/temp-queue/a", id="1")
    error = client.refusal("SUBSCRIBE", destination="/temp-queue/b", id="2")
    assert error.headers["code"] == "destination"


def test_one_subscription_too_many_is_refused(new_desk) -> None:
    """
    The connection lives, and so do its other subscriptions.
    """
    client = new_desk(BrokerSettings(subscription_count_max=1)).connect()
    client.subscribe("/queue/a", id="1")
    client.refusal("SUBSCRIBE", destination="/queue/b", id="2")
    client.send(b"x", "/queue/a")
    assert client.bodies() == ["x"]


def test_subscriptions_of_all_connections_have_a_limit(new_desk) -> None:
    """
    Thousands of connections with thousands of subscriptions each are no way around it.
    """
    desk = new_desk(BrokerSettings(subscriptions_count_max=3))
    one, other = desk.connect(), desk.connect()
    for destination in ("/queue/a", "/topic/a", "/queue/b"):
        one.ask("SUBSCRIBE", id=destination, destination=destination)
    error = other.refusal("SUBSCRIBE", id="1", destination="/queue/a")
    assert "at most 3 subscriptions of all connections" in error.headers["message"]

    one.ask("UNSUBSCRIBE", id="/topic/a")
    other.ask("SUBSCRIBE", id="1", destination="/queue/a")
    one.session.leave()
    other.session.leave()
    assert desk.broker.flow.subscription_count == 0


def test_subscriptions_with_long_names_have_a_limit_in_bytes(new_desk) -> None:
    """
    200,000 with names of a kilobyte would take most of a gigabyte. Nothing is made for one that is
    refused; and who unsubscribes makes room.
    """
    desk = new_desk(BrokerSettings(subscriptions_bytes_max=6000))
    client = desk.connect()
    client.ask("SUBSCRIBE", id="a" * 900, destination="/queue/a")
    error = client.refusal("SUBSCRIBE", id="b" * 900, destination="/queue/b")
    assert "too many with long names" in error.headers["message"]
    assert set(desk.broker.destinations.queue_names()) == {"a"}
    client.ask("SUBSCRIBE", id="c", destination="/queue/a")
    client.ask("UNSUBSCRIBE", id="a" * 900)
    client.ask("SUBSCRIBE", id="b" * 900, destination="/queue/a")
    client.ask("UNSUBSCRIBE", id="b" * 900)
    client.ask("UNSUBSCRIBE", id="c")
    assert desk.broker.flow.subscription_bytes == 0


def test_one_open_transaction_too_many_is_refused(new_desk) -> None:
    """
    A client that begins and never ends cannot grow for ever.
    """
    client = new_desk(BrokerSettings(transaction_count_max=1)).connect()
    client.ask("BEGIN", transaction="1")
    error = client.refusal("BEGIN", transaction="2")
    assert error.headers["code"] == "transaction"


def test_a_topic_blocked_by_the_sender_itself_lets_it_acknowledge(new_desk) -> None:
    """
    What it sends waits, what it acknowledges is read: that makes the room.
    """
    desk = new_desk(BrokerSettings(topic_pending_bytes_max=10))
    client = desk.connect()
    client.subscribe("/topic/a", activemq__prefetchSize="1")
    for _ in range(3):
        client.say("SEND", b"twelve bytes", destination="/topic/a")
    desk.turn()
    (first,) = client.frames()
    assert client.ask("SEND", b"one more", destination="/topic/a", receipt="r") == []
    taken = [first]
    for _ in range(4):
        taken += client.ask("ACK", id=taken[-1].headers["ack"])
        taken = [frame for frame in taken if frame.command == "MESSAGE"]
    assert [frame.body for frame in taken] == [b"twelve bytes"] * 3 + [b"one more"]
    assert not client.session.waiting


@pytest.mark.parametrize(("command", "name"), [("SUBSCRIBE", "id"), ("BEGIN", "transaction")])
def test_a_name_of_a_clients_own_has_a_bound(desk, command, name) -> None:
    """
    Ids of 10 KiB made 10,000 subscriptions of one connection take 210 MB.
    """
    client = desk.connect()
    client.refusal(command, destination="/queue/a", **{name: "x" * 1025})
    assert client.ask(command, destination="/queue/a", **{name: "x" * 1024}) == []

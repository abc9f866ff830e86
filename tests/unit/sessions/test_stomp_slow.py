"""
Consumers that are ended as they are slow, as STOMP clients hear of it.
"""

from __future__ import annotations

import pytest

from holdfast.broker.lasting.returns import Returned
from holdfast.model.format_level import MOVES_LEVEL
from holdfast.model.records import FormatRecord, PolicyRecord

_SLOW = (
    '"slowConsumerStrategy":"abortSlowConsumerStrategy","checkPeriod":1000,"maxSlowDuration":2000'
)


@pytest.fixture
def desk(desk):
    desk.broker.receipts.record(FormatRecord(MOVES_LEVEL))
    said(desk)
    return desk


def said(desk, more: str = "") -> None:
    for pattern in ("queue://>", "topic://>"):
        values = more if pattern.startswith("queue") else ""
        desk.broker.receipts.record(PolicyRecord(pattern, f"{{{_SLOW}{values}}}"))
    desk.turn()


def pass_time(desk, seconds: float = 4.1) -> None:
    """Let time go on, as a node sees it."""
    for _ in range(round(10 * seconds)):
        desk.broker.sending.now_microseconds += 100_000
        desk.broker.returning.look_at_the_clock()
        if desk.broker.has_to_wake:
            desk.broker.wake()
        desk.turn()


def send(desk, *bodies: str, destination: str = "/queue/orders") -> None:
    client = desk.connect()
    for body in bodies:
        client.send(body.encode(), destination)
    desk.turn()


def errors(client) -> list:
    client.desk.turn()
    return [frame for frame in client.frames() if frame.command == "ERROR"]


def test_the_subscription_ends_and_the_connection_lives(desk) -> None:
    """
    The ERROR names it; what it had is somebody else's, flagged and counted, and what it says of it
    late is refused. It may subscribe again under the same id.
    """
    slow = desk.connect()
    slow.subscribe(activemq__prefetchSize="2")
    slow.subscribe("/queue/others", id="t")
    send(desk, "a", "b", "c")
    desk.turn()
    had = [frame for frame in slow.frames() if frame.command == "MESSAGE"]
    assert [frame.body for frame in had] == [b"a", b"b"]
    pass_time(desk)
    (error,) = errors(slow)
    assert (error.headers["code"], error.headers["subscription"]) == ("slow-consumer", "s")
    assert "receipt-id" not in error.headers
    assert not slow.session.is_closing
    assert [*slow.session.subscriptions] == ["t"]
    other = desk.connect()
    other.subscribe()
    desk.turn()
    again = [frame for frame in other.frames() if frame.command == "MESSAGE"]
    assert [(frame.body, frame.headers.get("JMSXDeliveryCount")) for frame in again] == [
        (b"a", "2"),
        (b"b", "2"),
        (b"c", None),
    ]
    queue = desk.broker.queue("orders")
    assert queue.index.returned(1) == Returned(1, 0)
    (refused,) = slow.ask("ACK", id=had[0].headers["ack"])
    assert refused.headers["code"] == "unknown-delivery"
    slow.subscribe(activemq__prefetchSize="2")
    send(desk, "d", destination="/queue/others")
    assert slow.bodies() == ["d"]
    assert desk.context.refusals.by_code["slow-consumer"] == 1


def test_a_message_that_was_alone_counts_as_failed(desk) -> None:
    """
    As where a connection is lost: with one in its window it is to blame, and dead after so many.
    """
    said(desk, ',"maximumRedeliveries":0')
    slow = desk.connect()
    slow.subscribe(activemq__prefetchSize="1")
    send(desk, "a", "b")
    pass_time(desk)
    assert len(errors(slow)) == 1
    dead = desk.connect()
    dead.subscribe("/queue/ActiveMQ.DLQ")
    desk.turn()
    (letter,) = [frame for frame in dead.frames() if frame.command == "MESSAGE"]
    assert letter.body == b"a"


def test_the_connection_ends_where_a_policy_says_so(desk) -> None:
    """
    With all that it had on all of its subscriptions, and with a last word.
    """
    said(desk, ',"abortConnection":"true"')
    slow = desk.connect()
    slow.subscribe(activemq__prefetchSize="1")
    slow.subscribe("/queue/others", id="t")
    send(desk, "a", "b")
    send(desk, "c", destination="/queue/others")
    pass_time(desk)
    (error,) = errors(slow)
    assert error.headers["code"] == "slow-consumer"
    assert slow.session.is_closing
    assert not slow.session.subscriptions
    other = desk.connect()
    other.subscribe()
    other.subscribe("/queue/others", id="t")
    assert sorted(other.bodies()) == ["a", "b", "c"]


def test_what_a_transaction_has_stays_with_it(desk) -> None:
    """
    Its window is ended, and what an open transaction has acknowledged is settled by its COMMIT.
    """
    slow = desk.connect()
    slow.subscribe(activemq__prefetchSize="2")
    send(desk, "a", "b", "c", "d", "e")
    desk.turn()
    had = [frame for frame in slow.frames() if frame.command == "MESSAGE"]
    slow.say("BEGIN", transaction="x")
    slow.say("ACK", id=had[0].headers["ack"], transaction="x")
    pass_time(desk)
    assert len(errors(slow)) == 1
    slow.say("COMMIT", transaction="x")
    other = desk.connect()
    other.subscribe()
    assert other.bodies() == ["b", "c", "d", "e"]


def test_one_that_takes_from_several_queues_ends_as_a_whole(desk) -> None:
    """
    It has one window; where one of its queues has the policy, what it has of all comes again.
    """
    slow = desk.connect()
    slow.subscribe("/queue/a,/queue/b", activemq__prefetchSize="2")
    desk.turn()
    send(desk, "1", destination="/queue/a")
    send(desk, "2", "3", destination="/queue/b")
    pass_time(desk)
    (error,) = errors(slow)
    assert error.headers["subscription"] == "s"
    assert not slow.session.subscriptions
    other = desk.connect()
    other.subscribe("/queue/a,/queue/b")
    desk.turn()
    assert sorted(other.bodies()) == ["1", "2", "3"]


@pytest.mark.parametrize("ack", ["auto", "client"])
def test_a_subscriber_of_a_topic_is_ended_and_the_others_go_on(desk, ack) -> None:
    """
    In each mode; in `auto` it is its socket that has no room.
    """
    slow, quick = desk.connect(), desk.connect()
    slow.subscribe("/topic/news", ack=ack, activemq__prefetchSize="1")
    quick.subscribe("/topic/news")
    if ack == "auto":
        slow.session.room_bytes = 1
    client = desk.connect()
    for body in "abc":
        client.say("SEND", body.encode(), destination="/topic/news")
    pass_time(desk)
    slow.session.room_bytes = 1 << 20
    assert [error.headers["subscription"] for error in errors(slow)] == ["s"]
    assert quick.bodies() == ["a", "b", "c"]


def test_without_an_id_nothing_is_named(desk) -> None:
    """
    In STOMP 1.0 a subscription need not have one.
    """
    slow = desk.connect("1.0")
    slow.say(
        "SUBSCRIBE", destination="/queue/orders", ack="client", **{"activemq.prefetchSize": "1"}
    )
    send(desk, "a", "b")
    pass_time(desk)
    (error,) = errors(slow)
    assert error.headers["code"] == "slow-consumer"
    assert "subscription" not in error.headers


def test_who_leaves_as_it_is_found_slow_is_told_nothing(desk) -> None:
    """
    What it had goes back once.
    """
    slow = desk.connect()
    slow.subscribe(activemq__prefetchSize="2")
    send(desk, "a", "b", "c")
    (subscription,) = slow.session.subscriptions.values()
    leaving = slow.session.leaving()
    next(leaving, None)
    slow.session.too_slow(subscription, "too slow", ends_connection=False)
    assert errors(slow) == []
    for _ in leaving:
        pass
    assert desk.broker.queue("orders").index.returned(1).attempts == 1

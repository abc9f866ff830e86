"""
Deliveries that take longer than they may: taken back, counted, and acknowledged late if at all.
"""

from __future__ import annotations

import pytest

from holdfast.broker.lasting.returns import Returned
from holdfast.model.format_level import MOVES_LEVEL
from holdfast.model.records import FormatRecord, PolicyRecord

ACK = "ack"


@pytest.fixture
def desk(desk):
    desk.broker.receipts.record(FormatRecord(MOVES_LEVEL))
    at_once = '"initialRedeliveryDelay":0,"redeliveryDelay":0'
    said(desk, f'{{"deliverySecondsMax":5,{at_once},"maximumRedeliveries":2}}')
    return desk


def said(desk, values: str) -> None:
    desk.broker.receipts.record(PolicyRecord("queue://orders", values))
    desk.turn()


def pass_time(desk, seconds: float) -> None:
    """Let time go on, as a node sees it."""
    for _ in range(round(10 * seconds)):
        desk.broker.sending.now_microseconds += 100_000
        desk.broker.wake()
    desk.turn()


def consumer(desk, **headers: str):
    client = desk.connect()
    client.subscribe(**{"activemq__prefetchSize": "2", **headers})
    desk.turn()
    return client


def messages(client) -> list:
    client.desk.turn()
    return [frame for frame in client.frames() if frame.command == "MESSAGE"]


def bodies(found: list) -> list[str]:
    return [each.body.decode() for each in found]


def sent(desk, *all_bodies: str) -> None:
    client = desk.connect()
    for body in all_bodies:
        client.send(body.encode())
    desk.turn()


def counts(desk, key: int) -> Returned:
    return desk.broker.queue("orders").index.returned(key)


def test_what_is_in_delivery_too_long_is_somebody_elses(desk) -> None:
    """It counts as rejected: an attempt and a failure, in the log, and it says so."""
    slow = consumer(desk, activemq__prefetchSize="1")
    sent(desk, "a")
    assert bodies(messages(slow)) == ["a"]
    pass_time(desk, 4.8)
    other = consumer(desk)
    assert messages(other) == []
    pass_time(desk, 0.4)
    (again,) = messages(other)
    assert again.headers["JMSXDeliveryCount"] == "2"
    assert counts(desk, 1) == Returned(1, 1)
    assert messages(slow) == []
    desk.fail_over()
    assert counts(desk, 1) == Returned(1, 1)


def test_what_is_acknowledged_in_time_is_gone(desk) -> None:
    """Nothing of it is looked at any more."""
    slow = consumer(desk)
    sent(desk, "a", "b")
    for message in messages(slow):
        slow.ask("ACK", id=message.headers[ACK])
    pass_time(desk, 20)
    assert messages(slow) == []
    assert desk.broker.queue("orders").index.live_count == 0


def test_as_a_rejection_it_dies_where_nothing_is_said_of_redelivery(desk) -> None:
    """And where it failed too often; without a policy it is in delivery for ever."""
    said(desk, "")
    sent(desk, "a")
    slow = consumer(desk, activemq__prefetchSize="1")
    pass_time(desk, 60)
    assert bodies(messages(slow)) == ["a"]
    slow.leave()
    said(desk, '{"deliverySecondsMax":5}')
    slow = consumer(desk, activemq__prefetchSize="1")
    assert bodies(messages(slow)) == ["a"]
    pass_time(desk, 5.2)
    dead = desk.connect()
    dead.subscribe("/queue/ActiveMQ.DLQ")
    (message,) = messages(dead)
    assert message.headers["original-destination"] == "/queue/orders"


def test_it_is_dead_after_the_last_time(desk) -> None:
    """As often as it may come again it does."""
    sent(desk, "a")
    for count in ("1", "2", "3"):
        slow = consumer(desk, activemq__prefetchSize="1")
        (message,) = messages(slow)
        assert message.headers.get("JMSXDeliveryCount", "1") == count
        pass_time(desk, 5.2)
    dead = desk.connect()
    dead.subscribe("/queue/ActiveMQ.DLQ")
    assert bodies(messages(dead)) == ["a"]


@pytest.mark.parametrize("version", ["1.2", "1.1"])
def test_its_late_acknowledgement_counts_as_long_as_nobody_else_has_it(desk, version) -> None:
    """By its id as it was told; then it comes no more."""
    slow = desk.connect(version)
    slow.subscribe(activemq__prefetchSize="1")
    sent(desk, "a")
    (message,) = messages(slow)
    pass_time(desk, 5.2)
    if version == "1.1":
        named = {"message_id": message.headers["message-id"], "subscription": "s"}
    else:
        named = {"id": message.headers[ACK]}
    (answer,) = slow.ask("ACK", receipt="r", **named)
    assert answer.command == "RECEIPT"
    assert messages(consumer(desk)) == []
    assert desk.broker.queue("orders").index.live_count == 0
    sent(desk, "b")
    assert bodies(messages(slow)) == ["b"]


def test_its_late_acknowledgement_is_refused_once_somebody_else_has_it(desk) -> None:
    """And a late rejection always: it was rejected already."""
    slow = consumer(desk)
    sent(desk, "a", "b")
    first, second = messages(slow)
    pass_time(desk, 5.2)
    other = consumer(desk)
    assert bodies(messages(other)) == ["a", "b"]
    for command, message in (("ACK", first), ("NACK", second)):
        answer = slow.refusal(command, id=message.headers[ACK])
        assert "not in delivery" in answer.body.decode() or "somebody else" in answer.body.decode()
    sent(desk, "c", "d")
    assert sorted(bodies(messages(other)) + bodies(messages(slow))) == ["c", "d"]


def test_a_late_acknowledgement_may_be_part_of_a_transaction(desk) -> None:
    """It is held until that commits."""
    slow = consumer(desk, activemq__prefetchSize="1")
    sent(desk, "a")
    (message,) = messages(slow)
    pass_time(desk, 5.2)
    slow.say("BEGIN", transaction="t")
    slow.say("ACK", id=message.headers[ACK], transaction="t")
    other = consumer(desk)
    assert messages(other) == []
    (answer,) = slow.ask("COMMIT", transaction="t", receipt="r")
    assert answer.command == "RECEIPT"
    assert messages(other) == []
    assert desk.broker.queue("orders").index.live_count == 0


def test_what_a_transaction_gives_back_has_its_time_anew(desk) -> None:
    """While the transaction held it nothing was in delivery."""
    slow = consumer(desk, activemq__prefetchSize="1")
    sent(desk, "a")
    (message,) = messages(slow)
    slow.say("BEGIN", transaction="t")
    slow.say("ACK", id=message.headers[ACK], transaction="t")
    pass_time(desk, 20)
    slow.ask("ABORT", transaction="t")
    other = consumer(desk)
    pass_time(desk, 4.8)
    assert messages(other) == []
    pass_time(desk, 0.4)
    assert bodies(messages(other)) == ["a"]


def test_who_says_nothing_is_given_nothing_in_their_place(desk) -> None:
    """A client that has stopped working does not bring one message after the other to its death."""
    stopped = consumer(desk, activemq__prefetchSize="2")
    sent(desk, *"abcde")
    first, second = messages(stopped)
    for _ in range(5):
        pass_time(desk, 5.2)
        assert messages(stopped) == []
    assert counts(desk, 1) == Returned(1, 1)
    stopped.say("ACK", id=first.headers[ACK])
    assert bodies(messages(stopped)) == ["b"]
    assert second.body == b"b"


@pytest.mark.parametrize("mode", ["client", "auto"])
def test_only_who_acknowledges_each_by_itself_has_a_limit(desk, mode) -> None:
    """
    A cumulative word about the first delivery of one would settle, by its second delivery, all that
    came between: what its consumer has not seen yet was lost with it.
    """
    slow = consumer(desk, ack=mode, activemq__prefetchSize="10")
    sent(desk, "1")
    (first,) = messages(slow)
    pass_time(desk, 3)
    sent(desk, "2", "3")
    assert bodies(messages(slow)) == ["2", "3"]
    pass_time(desk, 9)
    assert messages(slow) == []
    if mode == "client":
        slow.ask("ACK", id=first.headers["ack"])
        slow.leave()
        assert bodies(messages(consumer(desk))) == ["2", "3"]


def test_one_word_is_about_one_message_after_a_rollback_too(desk) -> None:
    """
    What was given back lapses later than what was delivered behind it.
    """
    slow = consumer(desk)
    sent(desk, "one", "two")
    one, two = messages(slow)
    slow.say("BEGIN", transaction="t")
    slow.say("ACK", id=one.headers["ack"], transaction="t")
    pass_time(desk, 3)
    slow.ask("ABORT", transaction="t")
    pass_time(desk, 3)
    slow.ask("ACK", id=one.headers["ack"])
    slow.leave()
    assert bodies(messages(consumer(desk))) == ["two"]
    assert two


def test_a_clock_that_is_set_takes_nothing_from_anybody(desk) -> None:
    """Nor does a node that stood still for a while: only time that was seen to pass counts."""
    slow = consumer(desk, activemq__prefetchSize="1")
    sent(desk, "a")
    messages(slow)
    desk.broker.sending.now_microseconds += 3_600_000_000
    desk.broker.wake()
    other = consumer(desk)
    assert messages(other) == []
    desk.broker.sending.now_microseconds -= 7_200_000_000
    pass_time(desk, 3.8)
    assert messages(other) == []
    pass_time(desk, 6.5)  # After it was put back time goes half as fast for a while.
    assert bodies(messages(other)) == ["a"]


def test_non_persistent_messages_are_taken_back_too(desk) -> None:
    """In memory, where they are counted."""
    slow = consumer(desk, activemq__prefetchSize="1")
    desk.connect().send(b"x", persistent="false")
    assert bodies(messages(slow)) == ["x"]
    pass_time(desk, 5.2)
    (again,) = messages(consumer(desk))
    assert again.headers["JMSXDeliveryCount"] == "2"


def test_what_cannot_be_a_dead_letter_comes_again(desk) -> None:
    """As there are too many queues, or it cannot be read."""
    said(desk, '{"deliverySecondsMax":5,"maximumRedeliveries":0}')
    sent(desk, "a")
    slow = consumer(desk, activemq__prefetchSize="1")
    messages(slow)
    object.__setattr__(desk.broker.settings, "queue_count_max", 1)
    pass_time(desk, 5.2)
    assert bodies(messages(consumer(desk))) == ["a"]


def test_what_was_delivered_again_has_its_own_time(desk) -> None:
    """The deadline of its first delivery says nothing of the second one."""
    slow = consumer(desk)
    sent(desk, "a")
    (message,) = messages(slow)
    pass_time(desk, 4)
    slow.say("NACK", id=message.headers[ACK], requeue="true")
    (message,) = messages(slow)
    pass_time(desk, 4)
    assert messages(slow) == []
    (answer,) = slow.ask("ACK", id=message.headers[ACK], receipt="r")
    assert answer.command == "RECEIPT"

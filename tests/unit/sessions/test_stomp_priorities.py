"""
The header `priority`: what it does where a policy says so, and that it does nothing elsewhere.
"""

from __future__ import annotations

import pytest

from holdfast.broker.cleaning import live_copies, on_the_way
from holdfast.broker.lasting.snapshot import digest_of
from holdfast.broker.settings import BrokerSettings
from holdfast.model.format_level import NEWEST_LEVEL, PRIORITY_LEVEL
from holdfast.model.records import FormatRecord, PolicyRecord


def said(desk, values: str, pattern: str = "queue://orders") -> None:
    desk.broker.receipts.record(PolicyRecord(pattern, values))
    desk.turn()


@pytest.fixture
def desk(desk):
    """One whose queue `orders` goes by priority."""
    desk.broker.receipts.record(FormatRecord(NEWEST_LEVEL))
    said(desk, '{"prioritizedMessages":"true"}')
    return desk


def sent(desk, *priorities: int | None, **headers: str) -> None:
    """Send a message of each priority; its body is that and its place."""
    client = desk.connect()
    for place, priority in enumerate(priorities):
        said_of_it = {} if priority is None else {"priority": str(priority)}
        body = f"{priority}.{place}".encode()
        client.send(body, persistent="true", **said_of_it, **headers)
    desk.turn()


def received(desk, **headers: str) -> list[str]:
    """Give the bodies of all that a consumer gets that acknowledges each."""
    client = desk.connect()
    client.subscribe(activemq__prefetchSize="1", ack="client-individual", **headers)
    bodies = []
    while True:
        desk.turn()
        frames = [frame for frame in client.frames() if frame.command == "MESSAGE"]
        if not frames:
            client.leave()
            desk.turn()
            return bodies
        for frame in frames:
            bodies.append(frame.body.decode())
            client.say("ACK", id=frame.headers["ack"])


def test_the_highest_goes_first_and_within_it_the_oldest(desk) -> None:
    """What says nothing has 4."""
    sent(desk, None, 9, 0, 5, 4, 9)
    assert received(desk) == ["9.1", "9.5", "5.3", "None.0", "4.4", "0.2"]


def test_it_is_the_order_of_sending_without_a_word(desk) -> None:
    """Whatever the header says, and it is shown; also on a topic."""
    said(desk, "", "queue://orders")
    sent(desk, 1, 9)
    assert received(desk) == ["1.0", "9.1"]
    client = desk.connect()
    client.subscribe("/topic/news", id="t")
    desk.turn()
    client.send(b"x", destination="/topic/news", priority="7")
    desk.turn()
    (frame,) = client.frames()
    assert frame.headers["priority"] == "7"


@pytest.mark.parametrize(("text", "shown"), [("12", "9"), ("-3", "0"), (" 7", "7"), ("+2", "2")])
def test_what_is_beyond_is_the_nearest_that_is_allowed(desk, text: str, shown: str) -> None:
    """As ActiveMQ does it; a consumer sees what counts."""
    sent(desk, None)
    desk.connect().send(b"x", persistent="true", priority=text)
    desk.turn()
    client = desk.connect()
    client.subscribe()
    desk.turn()
    by_body = {frame.body: frame.headers["priority"] for frame in client.frames()}
    assert by_body == {b"None.0": "4", b"x": shown}


@pytest.mark.parametrize("text", ["high", "", "4.5", "9" * 40])
def test_what_is_no_number_is_refused(desk, text: str) -> None:
    """By name, and nothing is stored."""
    error = desk.connect().refusal("SEND", destination="/queue/new", priority=text)
    assert "priority" in error.headers["message"]
    assert not desk.broker.destinations.has_queue("new")


def test_a_policy_counts_for_what_is_sent_from_then_on(desk) -> None:
    """On a connection, too, that has sent the same before."""
    said(desk, "", "queue://orders")
    sender = desk.connect()
    sender.send(b"before", persistent="true", priority="9")
    said(desk, '{"prioritizedMessages":"true"}')
    sender.send(b"low", persistent="true", priority="1")
    sender.send(b"after", persistent="true", priority="9")
    desk.turn()
    assert received(desk) == ["after", "before", "low"]


def test_it_is_kept_over_failovers_and_moves(desk) -> None:
    """Whoever leads knows it of each; a dead letter has it where it stands then, and afterwards."""
    said(desk, '{"prioritizedMessages":"true"}', "queue://>")
    sent(desk, 1, 9, 4)
    desk.fail_over()
    client = desk.connect()
    client.subscribe(ack="client-individual")
    desk.turn()
    messages = [frame for frame in client.frames() if frame.command == "MESSAGE"]
    assert [frame.body for frame in messages] == [b"9.1", b"4.2", b"1.0"]
    for message in messages[::-1]:
        client.say("NACK", id=message.headers["ack"])
        desk.turn()
    client.leave()
    desk.turn()
    desk.fail_over()
    assert received(desk, destination="/queue/ActiveMQ.DLQ") == ["9.1", "4.2", "1.0"]


def test_a_copy_by_the_cleaner_has_it(desk) -> None:
    """Who has but the copy agrees with who has all."""
    sent(desk, 7)
    queue = desk.broker.destinations.existing("orders")
    number = queue.index.record_number(1)
    record = desk.read_message(number)
    before = digest_of(desk.broker.state)
    way = on_the_way(desk.broker, {queue.number: {1}})
    for copy in live_copies(desk.broker, record, number, 1, way):
        desk.broker.receipts.record(copy)
    desk.turn()
    assert queue.index.priority(1) == 7
    assert queue.index.record_number(1) != number
    assert before != digest_of(desk.broker.state)  # It stands elsewhere.


def test_transactions_and_what_is_in_memory_only_go_by_it(desk) -> None:
    """As all the others do."""
    client = desk.connect()
    client.say("BEGIN", transaction="t")
    client.send(b"in", persistent="true", transaction="t", priority="5")
    client.say("COMMIT", transaction="t")
    client.send(b"volatile", persistent="false", priority="8")
    client.send(b"usual", persistent="false")
    desk.turn()
    assert received(desk) == ["volatile", "in", "usual"]


def test_what_is_given_back_goes_first_of_its_priority(desk) -> None:
    """And behind what came meanwhile with a higher one."""
    sent(desk, 4, 4)
    client = desk.connect()
    client.subscribe(ack="client-individual")
    desk.turn()
    assert client.bodies() == ["4.0", "4.1"]
    sent(desk, 4, 6)
    client.leave()
    desk.turn()
    assert received(desk) == ["6.1", "4.0", "4.1", "4.0"]


def test_who_looks_through_sees_the_higher_ones_first(desk) -> None:
    """Persistent or not; and nothing is taken."""
    sent(desk, 4, 9, None)
    desk.connect().send(b"volatile", persistent="false", priority="9")
    desk.turn()
    client = desk.connect()
    client.subscribe(browser="true")
    for _ in range(3):
        desk.turn()
    bodies = [frame.body.decode() for frame in client.frames() if frame.command == "MESSAGE"]
    assert bodies[:-1] == ["9.1", "volatile", "4.0", "None.2"]
    assert received(desk) == ["9.1", "volatile", "4.0", "None.2"]


def test_a_late_one_is_seen_and_what_stands_before_is_not(new_desk) -> None:
    """Q14: of a long backlog a new leader flags the few that may have been sent."""
    desk = new_desk(BrokerSettings(dispatch_mark_step_min=16, dispatch_mark_step_max=64))
    desk.broker.receipts.record(FormatRecord(NEWEST_LEVEL))
    said(desk, '{"prioritizedMessages":"true"}')
    count = 2_000
    sent(desk, *[1] * count)
    client = desk.connect()
    client.subscribe(ack="client-individual", activemq__prefetchSize="1")
    desk.turn()
    sent(desk, 9)
    (first,) = [frame for frame in client.frames() if frame.command == "MESSAGE"]
    client.say("ACK", id=first.headers["ack"])
    desk.turn()
    (late,) = [frame for frame in client.frames() if frame.command == "MESSAGE"]
    assert late.body == b"9.0"
    lasting = desk.broker.destinations.existing("orders").lasting
    assert len(lasting.seen) == 1
    assert lasting.dispatch_mark < count // 2
    desk.fail_over()
    queue = desk.broker.destinations.existing("orders")
    flagged = sum(map(queue.is_flagged, range(1, count + 2)))
    assert queue.is_flagged(count + 1)
    assert flagged < count // 2


def test_before_all_members_know_it_is_the_order_of_sending(new_desk) -> None:
    """The operator is told that the header does nothing yet."""
    desk = new_desk()
    desk.broker.receipts.record(FormatRecord(PRIORITY_LEVEL - 1))
    said(desk, '{"prioritizedMessages":"true"}')
    sent(desk, 1, 9)
    assert received(desk) == ["1.0", "9.1"]

"""
What becomes of rejected messages, as STOMP clients see it: moved, kept where they are, or stored.
"""

from __future__ import annotations

import pytest

from holdfast.errors import CorruptEntryError
from holdfast.model.format_level import MOVES_LEVEL, RETURNS_LEVEL
from holdfast.model.records import DeadLetterRecord, MessageRecord, MoveRecord, PolicyRecord, Record
from holdfast.store.record_codec import decode_records

DEAD = "/queue/ActiveMQ.DLQ"


@pytest.fixture
def desk(desk):
    """A leader at the newest level."""
    desk.broker.state.format_level = MOVES_LEVEL
    return desk


def said(desk, values: str, queue: str = "orders") -> None:
    desk.broker.state.policies.apply(PolicyRecord(f"queue://{queue}", values), 1)


def wait(desk, milliseconds: int) -> None:
    """Let time pass, as the loop sees it."""
    desk.broker.sending.now_microseconds += milliseconds * 1000
    desk.broker.wake()
    desk.turn()


def delivered(desk, queue: str = "orders", body: bytes = b"bad", **headers: str):
    """A client that has one message, and its name there."""
    client = desk.connect()
    client.send(body, f"/queue/{queue}", **headers)
    client.subscribe(f"/queue/{queue}")
    desk.turn()
    (frame,) = client.frames()
    return client, frame.headers["ack"]


def logged(desk) -> list[Record]:
    return [record for _, _, body in desk.log for record in decode_records(body)]


# Moved --------------------------------------------------------------------------------------------


def test_a_dead_letter_is_moved_and_not_stored_again(desk) -> None:
    """One record without the bytes; where it came from, and why, is read from it."""
    client, name = delivered(desk, kind="x")
    old_id = "ID:c0ffee-1-1"
    assert client.ask("NACK", id=name, receipt="r")[0].command == "RECEIPT"
    records = logged(desk)
    assert sum(isinstance(it, MessageRecord) for it in records) == 1
    assert not any(isinstance(it, DeadLetterRecord) for it in records)
    (move,) = [it for it in records if isinstance(it, MoveRecord)]
    assert (move.queue_name, move.sequences, move.moved_at) == ("orders", [1], 1_700_000_000_000)
    reader = desk.connect()
    reader.subscribe(DEAD, "d")
    desk.turn()
    (dead,) = reader.frames()
    assert (dead.body, dead.headers["kind"]) == (b"bad", "x")
    assert dead.headers["original-destination"] == "/queue/orders"
    assert dead.headers["original-message-id"] == old_id != dead.headers["message-id"]
    assert dead.headers["dlqDeliveryFailureCause"] == "rejected"
    # Whoever says late that it is done with is told that it is: the dead letter stays.
    late = desk.connect()
    assert late.ask("ACK", id=old_id, receipt="late")[0].command == "RECEIPT"
    assert desk.broker.state.live_count() == 1
    assert desk.broker.receipts.dead_lettered_total == 1


def test_what_cannot_be_read_now_is_dead_all_the_same(desk) -> None:
    """To move it takes none of its bytes."""
    client, name = delivered(desk)
    desk.broker.queue("orders").leadership.flow.forget(desk.broker.queue("orders").cache, [1])
    desk.unreadable = CorruptEntryError("the body checksum is wrong", segment="1", byte=5)
    assert client.ask("NACK", id=name, receipt="r")[0].command == "RECEIPT"
    desk.unreadable = None
    client.subscribe(DEAD, "d")
    assert client.bodies() == ["bad"]


def test_where_the_cleaner_is_it_is_stored_once_more(desk) -> None:
    """Moved, it would stand without its bytes when that part of the log goes."""
    client, name = delivered(desk)
    desk.broker.moving.closed_through = desk.broker.queue("orders").index.record_number(1)
    client.ask("NACK", id=name)
    assert not any(isinstance(it, MoveRecord) for it in logged(desk))
    client.subscribe(DEAD, "d")
    desk.turn()
    (dead,) = client.frames()
    assert (dead.body, dead.headers["original-message-id"]) == (b"bad", "ID:c0ffee-1-1")


def test_what_is_discarded_is_nowhere_and_the_log_says_why(desk) -> None:
    """It is no dead letter, and is not counted as one."""
    said(desk, '{"deadLetterStrategy":"discard"}')
    client, name = delivered(desk)
    client.ask("NACK", id=name)
    (move,) = [it for it in logged(desk) if isinstance(it, MoveRecord)]
    assert (move.target_number, move.cause.name) == (0, "REJECTED")
    assert desk.broker.state.live_count() == 0
    assert desk.broker.receipts.dead_lettered_total == 0
    desk.fail_over()
    assert desk.broker.state.live_count() == 0


# On the dead-letter queue itself ------------------------------------------------------------------


@pytest.mark.parametrize("said_by_nack", [{}, {"requeue": "false"}])
def test_what_is_rejected_where_it_is_dead_comes_again(desk, said_by_nack) -> None:
    """After the delay that there is without a policy, counted; it is never lost."""
    client, name = delivered(desk, "ActiveMQ.DLQ")
    for count in ("2", "3"):
        assert client.ask("NACK", id=name, receipt="r", **said_by_nack)[0].command == "RECEIPT"
        wait(desk, 999)
        assert client.frames() == []
        wait(desk, 1)
        (again,) = client.frames()
        assert again.headers["JMSXDeliveryCount"] == count
        name = again.headers["ack"]
    assert desk.broker.receipts.dead_lettered_total == 0


def test_no_number_of_failures_loses_it(desk) -> None:
    """Nor do connections that it takes along: it is dead, and stays where the dead are."""
    said(desk, '{"maximumRedeliveries":0,"initialRedeliveryDelay":5}', "ActiveMQ.DLQ")
    client, name = delivered(desk, "ActiveMQ.DLQ")
    client.ask("NACK", id=name)
    wait(desk, 5)
    (again,) = client.frames()
    client.leave()
    desk.broker.errands.run(lambda: False)
    desk.turn()
    other = desk.connect()
    other.subscribe(DEAD)
    desk.turn()
    (again,) = other.frames()
    assert again.headers["JMSXDeliveryCount"] == "3"


def test_below_the_level_of_returns_it_is_given_back(new_desk) -> None:
    """At once, and not counted: the log could not say so."""
    desk = new_desk(None)
    desk.broker.state.format_level = RETURNS_LEVEL - 1
    client, name = delivered(desk, "ActiveMQ.DLQ")
    receipt, again = client.ask("NACK", id=name, receipt="r")
    assert (receipt.command, again.body) == ("RECEIPT", b"bad")
    assert again.headers["redelivered"] == "true"


def test_an_own_queue_of_dead_letters_has_one_of_its_own(desk) -> None:
    """With `individual` a dead letter has somewhere to go: it is moved on."""
    said(desk, '{"deadLetterStrategy":"individual"}', "ActiveMQ.DLQ")
    client, name = delivered(desk, "ActiveMQ.DLQ")
    client.ask("NACK", id=name)
    client.subscribe("/queue/ActiveMQ.DLQ.Queue.ActiveMQ.DLQ", "d")
    assert client.bodies() == ["bad"]


# Not persistent -----------------------------------------------------------------------------------


def volatile(desk, queue: str = "orders"):
    client = desk.connect()
    client.say("SEND", b"volatile", destination=f"/queue/{queue}", kind="x", persistent="false")
    client.subscribe(f"/queue/{queue}")
    desk.turn()
    (frame,) = client.frames()
    return client, frame


def test_a_policy_keeps_what_is_not_persistent(desk) -> None:
    """As a dead letter it is stored, says how it was sent, and survives a failover."""
    said(desk, '{"processNonPersistent":true}')
    client, frame = volatile(desk)
    assert client.ask("NACK", id=frame.headers["ack"], receipt="r")[0].command == "RECEIPT"
    assert desk.broker.flow.volatile_bytes == 0
    desk.fail_over()
    reader = desk.connect()
    reader.subscribe(DEAD, "d")
    desk.turn()
    (dead,) = reader.frames()
    assert (dead.body, dead.headers["kind"]) == (b"volatile", "x")
    assert dead.headers["persistent"] == "true"
    assert dead.headers["originalDeliveryMode"] == "NON_PERSISTENT"
    assert dead.headers["original-destination"] == "/queue/orders"
    assert dead.headers["original-message-id"] == frame.headers["message-id"]


def test_where_it_is_dead_it_comes_again_too(desk) -> None:
    """If it is kept; else it ends there as everywhere."""
    client, frame = volatile(desk, "ActiveMQ.DLQ")
    assert client.ask("NACK", id=frame.headers["ack"]) == []
    wait(desk, 2_000)
    assert client.frames() == []
    assert desk.broker.flow.volatile_bytes == 0
    said(desk, '{"processNonPersistent":true}', "ActiveMQ.DLQ")
    client.say("SEND", b"again", destination=DEAD)
    desk.turn()
    (frame,) = client.frames()
    assert client.ask("NACK", id=frame.headers["ack"]) == []
    wait(desk, 1_000)
    (frame,) = client.frames()
    assert frame.headers["JMSXDeliveryCount"] == "2"


def test_what_only_memory_has_is_not_stored_where_nothing_is_taken_in(desk) -> None:
    """An almost full disk takes what was stored, by a move, and no bytes that it never had."""
    said(desk, '{"processNonPersistent":true}')
    client = desk.connect()
    client.say("SEND", b"memory only", destination="/queue/orders")
    client.subscribe()
    desk.turn()
    (frame,) = client.frames()
    desk.context.refusal = "the disk is almost full"
    refusal = client.refusal("NACK", id=frame.headers["ack"])
    assert "the disk is almost full" in refusal.headers["message"] + refusal.body.decode()
    assert not any(isinstance(it, MessageRecord) for it in logged(desk))
    client.leave()
    # It is not lost either: whoever comes next has it, and can reject it once there is room.
    desk.context.refusal = None
    second = desk.connect()
    second.subscribe()
    assert second.bodies() == []
    wait(desk, 1_000)
    (again,) = second.frames()
    assert second.ask("NACK", id=again.headers["ack"], receipt="r")[0].command == "RECEIPT"
    second.subscribe(DEAD, "d")
    assert second.bodies() == ["memory only"]

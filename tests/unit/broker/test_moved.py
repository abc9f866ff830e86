"""
A message that was moved, put together of its bytes and of the way that it came.
"""

from __future__ import annotations

from holdfast.broker.moved import as_moved
from holdfast.model.facts import Attributes, Cause, MessageFacts, Origin, Place
from holdfast.model.records import MessageRecord, MoveRecord, Run


def sent() -> MessageRecord:
    record = MessageRecord(1, 5, b"a:b\n", b"body", 8, "producer", 9)
    record.stored_at, record.redelivery_count = 77, 3
    return record


def test_it_keeps_its_own_and_says_where_it_came_from() -> None:
    """
    Bytes, producer and time are those of the message; place and origin those of the move.
    """
    move = MoveRecord(1, 2, Cause.MOVED, [Run(3, 8, 4)], queue_name="one")
    moved = as_moved(sent(), move, 2, 10, "abcdef01")
    assert (moved.queue_number, moved.sequence) == (2, 10)
    assert (moved.headers, moved.body, moved.size) == (b"a:b\n", b"body", 8)
    assert (moved.producer_id, moved.producer_sequence, moved.stored_at) == ("producer", 9, 77)
    assert moved.redelivery_count == 0, "it begins anew"
    assert moved.facts == MessageFacts(origin=Origin(Cause.MOVED, "one", "ID:abcdef01-1-5"))


def test_of_what_it_had_been_through_nothing_is_left() -> None:
    """
    Other places, when it was due, how often it failed; of a dead letter also when it expires.
    """
    content = sent()
    content.facts = MessageFacts(
        attributes=Attributes(9_000, 3, 7, 2),
        due_ms=5,
        places=(Place(4, 4),),
        skips=b"\1",
        origin=Origin(Cause.REJECTED, "before", "ID:x-9-9"),
    )
    run = [Run(5, 1, 1)]
    moved = as_moved(content, MoveRecord(1, 2, Cause.RETRIED, run, queue_name="d"), 2, 1, "c")
    retried = Origin(Cause.RETRIED, "d", "ID:c-1-5")
    assert moved.facts == MessageFacts(attributes=Attributes(9_000, 3, 7, 0), origin=retried)
    dead = as_moved(
        content, MoveRecord(1, 2, Cause.REJECTED, run, clears_expiry=True), 2, 1, "c"
    ).facts
    assert dead is not None
    assert dead.attributes == Attributes(0, 3, 7, 0)

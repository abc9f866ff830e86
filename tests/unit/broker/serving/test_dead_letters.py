"""
What the consumers of a dead letter see, beside what it was sent with.
"""

from __future__ import annotations

from holdfast.broker.serving.dead_letters import with_origin
from holdfast.model.facts import Attributes, Cause, MessageFacts, Origin


def facts(origin: Origin, expires_ms: int = 0) -> MessageFacts:
    """Give those of a message that came from there, and what it has of its own."""
    attributes = Attributes(expires_ms) if expires_ms else None
    return MessageFacts(attributes=attributes, origin=origin)


def test_it_says_where_it_was_rejected() -> None:
    """
    Behind its own headers, escaped as they are stored.
    """
    assert with_origin(b"a:1\n", facts(Origin(Cause.REJECTED, "o:rders", ""))) == (
        b"a:1\noriginal-destination:/queue/o\\crders\ndlqDeliveryFailureCause:rejected\n"
    )


def test_it_says_where_it_was_rejected_last() -> None:
    """
    What it said of an earlier time is left out: a dead letter that was sent again, as it came.
    """
    before = with_origin(b"a:1\n", facts(Origin(Cause.REJECTED, "orders", "ID:c-1-2")))
    assert b"original-message-id:ID\\cc-1-2\n" in before
    again = facts(Origin(Cause.REJECTED, "mail", "ID:c-3-4"))
    assert with_origin(before, again) == with_origin(b"a:1\n", again)


def test_a_dead_letter_says_when_it_would_have_expired_and_expires_no_more() -> None:
    """
    As ActiveMQ's says it; one that may stand there for a time has that time in `expires`.
    """
    headers = b"a:1\nexpires:5000\n"
    rejected = Origin(Cause.REJECTED, "orders", "")
    tail = b"original-destination:/queue/orders\ndlqDeliveryFailureCause:rejected\n"
    assert with_origin(headers, facts(rejected)) == (
        b"a:1\noriginalExpiration:5000\nexpires:0\n" + tail
    )
    assert with_origin(headers, facts(rejected, 9000)) == (
        b"a:1\noriginalExpiration:5000\nexpires:9000\n" + tail
    )
    assert with_origin(b"a:1\n", facts(rejected, 9000)) == b"a:1\nexpires:9000\n" + tail


def test_what_expired_says_when() -> None:
    """
    Also after its bytes were written again with the time that it has now, which is none.
    """
    expired = facts(Origin(Cause.EXPIRED, "orders", "ID:c-1-2"))
    assert with_origin(b"expires:5000\n", expired) == (
        b"originalExpiration:5000\nexpires:0\noriginal-destination:/queue/orders\n"
        b"original-message-id:ID\\cc-1-2\n"
        b"dlqDeliveryFailureCause:Message Expired. Expiration\\c5000\n"
    )


def test_what_was_moved_or_came_back_says_when_it_expires_there() -> None:
    """
    As it was sent, if it still does so; a dead letter that came back does not any more.
    """
    moved = Origin(Cause.MOVED, "orders", "")
    assert b"expires:5000\n" in with_origin(b"expires:5000\n", facts(moved, 5000))
    retried = with_origin(b"expires:5000\n", facts(Origin(Cause.RETRIED, "DLQ", "")))
    assert retried == b"expires:0\n"


def test_what_its_sender_may_not_send_any_more_says_where_it_was_to_go() -> None:
    """
    And not the queue on which all that is scheduled waits, nor when it was to be sent.
    """
    facts = MessageFacts(origin=Origin(Cause.FORBIDDEN, "$schedule", "ID:c-3-1"))
    lines = b"a:b\nAMQ_SCHEDULED_DELAY:5\nAMQ_SCHEDULED_DESTINATION:/queue/q\\cx\n"
    assert with_origin(lines, facts) == (
        b"a:b\noriginal-destination:/queue/q\\cx\noriginal-message-id:ID\\cc-3-1\n"
        b"dlqDeliveryFailureCause:its sender may not send it there any more\n"
    )

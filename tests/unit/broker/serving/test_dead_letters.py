"""
What the consumers of a dead letter see, beside what it was sent with.
"""

from __future__ import annotations

from holdfast.broker.serving.dead_letters import with_origin
from holdfast.model.facts import Cause, Origin


def test_it_says_where_it_was_rejected() -> None:
    """
    Behind its own headers, escaped as they are stored.
    """
    assert with_origin(b"a:1\n", Origin(Cause.REJECTED, "o:rders", "")) == (
        b"a:1\noriginal-destination:/queue/o\\crders\ndlqDeliveryFailureCause:rejected\n"
    )


def test_it_says_where_it_was_rejected_last() -> None:
    """
    What it said of an earlier time is left out: a dead letter that was sent again, as it came.
    """
    before = with_origin(b"a:1\n", Origin(Cause.REJECTED, "orders", "ID:c-1-2"))
    assert b"original-message-id:ID\\cc-1-2\n" in before
    again = Origin(Cause.REJECTED, "mail", "ID:c-3-4")
    assert with_origin(before, again) == with_origin(b"a:1\n", again)

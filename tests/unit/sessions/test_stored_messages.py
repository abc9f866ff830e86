"""What a stored message says to operators."""

from __future__ import annotations

import pytest

from holdfast.errors import SelectorError
from holdfast.model.facts import Cause, MessageFacts, Origin
from holdfast.model.records import MessageRecord
from holdfast.sessions.stored_messages import headers_of, is_chosen, selection_of


@pytest.fixture
def dead() -> MessageRecord:
    message = MessageRecord(3, 7, b"kind:a\\cb\n", b"x", 9)
    message.stored_at = 5_000
    message.facts = MessageFacts(origin=Origin(Cause.REJECTED, "orders", "ID:c-1-2"))
    return message


def test_headers_are_those_that_its_consumers_see(dead) -> None:
    """Unescaped, with where a dead letter comes from."""
    assert headers_of(dead) == {
        "kind": "a:b",
        "original-destination": "/queue/orders",
        "original-message-id": "ID:c-1-2",
        "dlqDeliveryFailureCause": "rejected",
    }
    dead.facts = None
    assert headers_of(dead) == {"kind": "a:b"}


@pytest.mark.parametrize(
    ("text", "is_so"),
    [
        ("kind = 'a:b'", True),
        ("dlqDeliveryFailureCause = 'rejected'", True),
        ("JMSMessageID = 'ID:c-3-7'", True),
        ("JMSDestination = 'queue://dead' AND JMSTimestamp = 5", True),
        ("kind IS NULL", False),
    ],
)
def test_a_selector_is_asked_of_the_same(dead, text: str, is_so: bool) -> None:
    """And of JMS' names for it."""
    assert is_chosen(selection_of(text, "dead", "ID:c-3-"), dead, 7) is is_so


def test_what_cannot_be_read_is_told() -> None:
    """With the column."""
    with pytest.raises(SelectorError, match="column 4"):
        selection_of("n =", "q", "ID:c-3-")

"""What headers say, typed; a header that cannot be what it should be says nothing."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from holdfast.client.properties import MessageProperties


class Paper(MessageProperties):
    def __init__(self, **headers: str) -> None:
        self.headers = {name.replace("_", "-"): text for name, text in headers.items()}
        self.body = b"x"


def test_all_that_a_producer_can_say() -> None:
    """JMS's names as STOMP carries them."""
    message = Paper(
        destination="/queue/a",
        correlation_id="c1",
        reply_to="/temp-queue/me",
        type="order",
        content_type="text/plain",
        JMSXGroupID="g",
        JMSXGroupSeq="-1",
        priority="9",
        timestamp="1700000000123",
        expires="1700000001000",
        persistent="true",
        redelivered="true",
        JMSXGroupFirstForConsumer="true",
    )

    assert (message.correlation_id, message.reply_to) == ("c1", "/temp-queue/me")
    assert (message.type, message.content_type, message.text) == ("order", "text/plain", "x")
    assert (message.group, message.group_sequence, message.priority) == ("g", -1, 9)
    assert message.sent_at == datetime(2023, 11, 14, 22, 13, 20, 123_000, UTC)
    assert message.expires_at == datetime(2023, 11, 14, 22, 13, 21, tzinfo=UTC)
    assert (message.persistent, message.redelivered) == (True, True)
    assert message.is_first_of_group


def test_what_is_not_said_is_none() -> None:
    """Or the default that JMS has for it."""
    message = Paper()

    assert (message.destination, message.priority) == ("", 4)
    assert (message.persistent, message.redelivered) == (False, False)
    for name in (
        "correlation_id", "reply_to", "type", "content_type", "group", "group_sequence", "sent_at",
        "expires_at",
    ):  # fmt: skip
        assert getattr(message, name) is None


@pytest.mark.parametrize("text", ["", "-", "four", "10", "-1", "٣", "4.0", "9" * 5_000, "1e1", " "])
def test_a_senseless_priority_is_the_default(text: str) -> None:
    """A producer's mistake must not stop a consumer."""
    assert Paper(priority=text).priority == 4


@pytest.mark.parametrize("text", ["", "0", "soon", "9" * 19, "-" + "9" * 19, "9" * 5_000, "1.5"])
def test_a_moment_that_no_calendar_has_is_none(text: str) -> None:
    """2**63-1 is Java's word for never."""
    message = Paper(expires=text, timestamp=text)

    assert (message.expires_at, message.sent_at) == (None, None)

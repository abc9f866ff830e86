"""
What a message's headers say, typed; the same for both faces of the client.

Names are JMS's as STOMP carries them: ActiveMQ's mapping, which Artemis shares. A header that
cannot be what it should be says nothing (None, or the default): a producer's mistake must not stop
a consumer. The header itself stays in `headers`.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Protocol

from holdfast.model.digits import read_digits

PRIORITY_DEFAULT = 4
"""Jakarta Messaging 3.1, 3.4.9: the priority of a message that says none."""

PRIORITY_MAX = 9

_EPOCH = datetime.fromtimestamp(0, UTC)


class Content(Protocol):
    """What the properties are read from."""

    @property
    def headers(self) -> dict[str, str]:
        """All headers."""

    @property
    def body(self) -> bytes:
        """The body as it was sent."""


class MessageProperties:
    """Properties of whatever has `headers` and `body`."""

    __slots__ = ()

    @property
    def text(self: Content) -> str:
        """
        The body as text.

        Raises:
            UnicodeDecodeError: It is not UTF-8.
        """
        return self.body.decode()

    @property
    def destination(self: Content) -> str:
        """Where it was sent to."""
        return self.headers.get("destination", "")

    @property
    def redelivered(self: Content) -> bool:
        """Whether it may have been delivered before, to us or to somebody else."""
        return self.headers.get("redelivered") == "true"

    @property
    def delivery_count(self: Content) -> int:
        """Which delivery of it this is, as far as the broker knows: 1 for the first."""
        least = 2 if self.headers.get("redelivered") == "true" else 1
        return max(least, _whole(self.headers.get("JMSXDeliveryCount")) or 1)

    @property
    def persistent(self: Content) -> bool:
        """Whether it was stored."""
        return self.headers.get("persistent") == "true"

    @property
    def content_type(self: Content) -> str | None:
        """The media type of the body; None if the producer told none."""
        return self.headers.get("content-type")

    @property
    def correlation_id(self: Content) -> str | None:
        """Which request or conversation it belongs to (JMSCorrelationID)."""
        return self.headers.get("correlation-id")

    @property
    def reply_to(self: Content) -> str | None:
        """Where an answer is awaited (JMSReplyTo)."""
        return self.headers.get("reply-to")

    @property
    def type(self: Content) -> str | None:
        """The application's own kind of message (JMSType)."""
        return self.headers.get("type")

    @property
    def group(self: Content) -> str | None:
        """The message group (JMSXGroupID)."""
        return self.headers.get("JMSXGroupID")

    @property
    def group_sequence(self: Content) -> int | None:
        """Its number in the message group (JMSXGroupSeq)."""
        return _whole(self.headers.get("JMSXGroupSeq"))

    @property
    def is_first_of_group(self: Content) -> bool:
        """Whether what was kept of its group is to be forgotten: others may have had it."""
        return self.headers.get("JMSXGroupFirstForConsumer") == "true"

    @property
    def priority(self: Content) -> int:
        """From 0 to 9; 4 if the producer told none."""
        priority = _whole(self.headers.get("priority"))
        if priority is None or not 0 <= priority <= PRIORITY_MAX:
            return PRIORITY_DEFAULT
        return priority

    @property
    def sent_at(self: Content) -> datetime | None:
        """When it was sent, in UTC, as the producer or the broker has told (JMSTimestamp)."""
        return _moment(self.headers.get("timestamp"))

    @property
    def job_id(self: Content) -> str | None:
        """Which scheduled message has sent it (scheduledJobId); None: it was not scheduled."""
        return self.headers.get("scheduledJobId")

    @property
    def expires_at(self: Content) -> datetime | None:
        """When it expires, in UTC; None: never (JMSExpiration)."""
        return _moment(self.headers.get("expires"))


def _whole(text: str | None) -> int | None:
    """A whole number of at most 19 digits, which is what a Java long has."""
    if text is None:
        return None
    number = read_digits(text.removeprefix("-"))
    return -number if number is not None and text.startswith("-") else number


def _moment(text: str | None) -> datetime | None:
    """Milliseconds since 1970 as a moment; 0 and what no calendar has are none."""
    milliseconds = _whole(text)
    if not milliseconds:
        return None
    try:
        return _EPOCH + timedelta(milliseconds=milliseconds)
    except OverflowError:
        return None

"""
What a message says to a selector, by name: its headers as STOMP has them, and JMS' names for some.

A value is read when it is asked for, and once, however many selectors ask: most ask for one or two
names of a message that has ten.

Invariants:
    A name of which the message says nothing gives None, which is unknown; nothing raises KeyError.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from holdfast.broker.serving.message import TransientMessage
from holdfast.errors import DestinationError
from holdfast.model.destination import Destination, Kind, parse_destination
from holdfast.protocols.stomp.mapping import USER, lookup, read_lines
from holdfast.selectors.values import Value, number_of

_SINGLE_COUNT_MAX: Final = 8
"""Names that are looked for one by one; then all of the headers are read."""

_KEPT_COUNT_MAX: Final = 1024
"""Values that are kept; beyond it they are read again."""


class StompValues(dict[str, Value]):
    """What one message says."""

    __slots__ = (
        "_headers",
        "_single_count",
        "destination",
        "identity",
        "is_stored",
        "key",
        "lines",
        "redelivered",
        "size",
        "stored_ms",
    )

    def __init__(
        self,
        message: TransientMessage,
        destination: str,
        identity: str,
        redelivered: int = 0,
        *,
        is_stored: bool = False,
    ) -> None:
        super().__init__()
        self.key = message.key
        self.lines = message.headers
        self.size = message.size
        self.stored_ms = message.stored_at // 1000
        self.destination = destination
        """As JMS writes it, `topic://NAME`."""
        self.identity = identity
        """The beginning of its message-id."""
        self.redelivered = redelivered
        """Which delivery this is, at least the second; 0 if none was before."""
        self.is_stored = is_stored
        """Whether it lasts, whatever its headers say of that."""
        self._headers: dict[str, str] | None = None
        self._single_count = 0

    def __missing__(self, name: str) -> Value:
        """Read a value, and keep it."""
        read = _OWN_WORDS.get(name)
        value = self.header(name) if read is None else read(self)
        if len(self) >= _KEPT_COUNT_MAX:
            self.clear()
        self[name] = value
        return value

    def header(self, name: str) -> str | None:
        """Give a header as the producer wrote it."""
        if self._headers is not None:
            return self._headers.get(name)
        self._single_count += 1
        if self._single_count > _SINGLE_COUNT_MAX:
            self._headers = read_lines(self.lines)
            return self._headers.get(name)
        return lookup(self.lines, name)


def written_by_jms(destination: Destination, session_id: str = "") -> str:
    """Give a destination as JMS writes it: `queue://NAME`."""
    kind = destination.kind.value
    if destination.kind in {Kind.TEMPORARY_QUEUE, Kind.TEMPORARY_TOPIC} and session_id:
        return f"{kind}://{session_id}.{destination.name}"
    return f"{kind.removeprefix('remote-')}://{destination.name}"


def _whole(values: StompValues, name: str, default: int = 0) -> int | None:
    text = values.header(name)
    if text is None:
        return default
    number = number_of(text)
    return number if isinstance(number, int) else None


def _timestamp(values: StompValues) -> int | None:
    return _whole(values, "timestamp", values.stored_ms)


def _reply_to(values: StompValues) -> str | None:
    text = values.header("reply-to")
    if text is None:
        return None
    try:
        return written_by_jms(parse_destination(text))
    except DestinationError:
        return text


def _is_persistent(values: StompValues) -> bool:
    return values.is_stored or values.header("persistent") == "true"


_OWN_WORDS: Final[dict[str, Callable[[StompValues], Value]]] = {
    "JMSType": lambda values: values.header("type"),
    "JMSPriority": partial(_whole, name="priority", default=4),
    "JMSCorrelationID": lambda values: values.header("correlation-id"),
    "JMSReplyTo": _reply_to,
    "JMSDestination": lambda values: values.destination,
    # None before it is on a queue.
    "JMSMessageID": lambda values: f"{values.identity}{-values.key}" if values.identity else None,
    "JMSTimestamp": _timestamp,
    "JMSExpiration": partial(_whole, name="expires"),
    "JMSDeliveryMode": lambda values: "PERSISTENT" if _is_persistent(values) else "NON_PERSISTENT",
    # What goes over a topic goes to each once.
    "JMSRedelivered": lambda values: values.redelivered > 0,
    "JMSXDeliveryCount": lambda values: max(1, values.redelivered),
    # That is not known before it is known who gets it.
    "JMSXGroupFirstForConsumer": lambda _: False,
    "JMSXGroupSeq": partial(_whole, name="JMSXGroupSeq"),
    USER: lambda values: values.header(USER),
    # As Artemis calls them.
    "AMQPriority": partial(_whole, name="priority", default=4),
    "AMQExpiration": partial(_whole, name="expires"),
    "AMQTimestamp": _timestamp,
    "AMQDurable": lambda values: "DURABLE" if _is_persistent(values) else "NON_DURABLE",
    "AMQSize": lambda values: values.size,
}
"""Names that are no header's own. What JMSXGroupID is called there it is called here."""

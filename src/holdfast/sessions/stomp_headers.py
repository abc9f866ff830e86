"""
What the headers of STOMP requests say, checked, and the sentences of what they cannot say.

A value that makes no sense refuses its request and leaves the connection alone: the client's
developer reads the sentence in the ERROR frame.
"""

from __future__ import annotations

from typing import Final

from holdfast.broker.broker import Broker
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.subscription import AcknowledgeMode
from holdfast.broker.serving.topic import Topic
from holdfast.errors import (
    DestinationError,
    NotServedError,
    RefusedError,
    UnknownDeliveryError,
)
from holdfast.model.destination import Destination
from holdfast.model.limits import CLIENT_NAME_BYTES_MAX, FLOOR_ID, PRODUCER_ID_BYTES_MAX
from holdfast.protocols.stomp.frames import Frame

_NOT_SERVED: Final = {
    "selector": "selectors",
    "browser": "queue browsers",
    "durable-subscription-name": "durable subscriptions",
    "durable-subscriber-name": "durable subscriptions",
}
"""SUBSCRIBE headers that would change what is delivered; ignoring them would be a lie."""

_WISHES_NOT_SERVED: Final = {
    "browser": "queue browsers",
    "selector": "selectors",
    "subscriptionName": "durable subscriptions",
    "subcriptionName": "durable subscriptions",
    "exclusive": "exclusive consumers",
    "noLocal": "noLocal",
    "retroactive": "retroactive consumers",
    "priority": "priorities of consumers",
    "maximumPendingMessageLimit": "limits of pending messages",
}
"""The same by ActiveMQ's names: as header `activemq.…`, as option `consumer.…`."""

_ASKS_NOTHING: Final = {"priority": ("0",), "maximumPendingMessageLimit": ("0", "-1")}
"""Values beside `false` that are what is done anyway."""

_WISHES_SERVED: Final = {"prefetchSize", "dispatchAsync"}
"""Whatever is said of `dispatchAsync`: nobody here waits for a consumer."""


_SEND_NOT_SERVED: Final = {
    "AMQ_SCHEDULED_DELAY": "scheduled messages",
    "AMQ_SCHEDULED_PERIOD": "scheduled messages",
    "AMQ_SCHEDULED_REPEAT": "scheduled messages",
    "AMQ_SCHEDULED_CRON": "scheduled messages",
}

_NAMES_NOT_SERVED: Final = {
    "ActiveMQ.Advisory.": "advisory messages",
    "ActiveMQ.Scheduler.Management": "scheduled messages",
    "ActiveMQ.Statistics.": "statistics by message",
}

_PRIORITY: Final = 4
"""Of every message, as long as there are no others."""


class SendTarget:
    """What the constant headers of a SEND come to: worked out once, used for every frame."""

    __slots__ = ("destination", "lines", "persistent", "producer_id", "queue", "transaction")

    def __init__(self, destination: Queue | Topic, lines: bytes, *, persistent: bool) -> None:
        self.destination = destination
        self.queue = destination if isinstance(destination, Queue) else None
        """The destination again, if it is a queue."""
        self.lines = lines
        self.persistent = persistent
        self.producer_id: str | None = None
        self.transaction: str | None = None


def require_subscription_room(broker: Broker, cost: int) -> None:
    """
    Refuse one subscription more than there may be on this node.

    Raises:
        DestinationError: There are too many, or their names are too long.
    """
    count_max = broker.settings.subscriptions_count_max
    if broker.subscription_count >= count_max:
        raise DestinationError(f"at most {count_max:,} subscriptions of all connections")
    bytes_max = broker.settings.subscriptions_bytes_max
    if broker.subscription_bytes + cost > bytes_max:
        raise DestinationError(
            f"subscriptions of all connections take {broker.subscription_bytes:,} bytes,"
            f" at most {bytes_max:,}: there are too many with long names"
        )


def require_served(headers: dict[str, str], options: dict[str, str]) -> list[str]:
    """
    Check what a SUBSCRIBE wants; give the names of options that nobody knows and nothing obeys.

    Raises:
        DestinationError: It wants what is not served, by a header or an option of its destination.
    """
    for name, what in _NOT_SERVED.items():
        if headers.get(name, "false") != "false":
            raise DestinationError(f"{what} are not served (header {name!r})")
    for name, what in _WISHES_NOT_SERVED.items():
        nothing = ("false", *_ASKS_NOTHING.get(name, ()))
        for key, given in (f"activemq.{name}", headers), (f"consumer.{name}", options):
            if given.get(key, "false") not in nothing:
                where = "header" if given is headers else "option"
                raise DestinationError(f"{what} are not served ({where} {key!r})")
    unknown = []
    for name in options:
        if not name.startswith("consumer."):
            unknown.append(name)
        elif name.removeprefix("consumer.") not in _WISHES_SERVED | _WISHES_NOT_SERVED.keys():
            raise DestinationError(f"option {name!r} of the destination is not known")
    return unknown


def require_obeyable(headers: dict[str, str], now_milliseconds: int) -> bool:
    """
    Check that a SEND wishes nothing that would be ignored; give whether it is to expire later.

    Nothing expires yet; but many programs give every message a lifetime, so that one is told of
    and taken.

    Raises:
        NotServedError: It does, or it has expired already.
        RefusedError: Its `expires` or `priority` is no number.
    """
    for name, what in _SEND_NOT_SERVED.items():
        if headers.get(name, "").strip() not in ("", "0"):
            raise NotServedError(f"{what} are not served (header {name!r})")
    priority = headers.get("priority")
    if priority is not None and read_number(priority.strip().encode(), "priority") != _PRIORITY:
        raise NotServedError(
            f"priorities are not served (header 'priority'): leave it out, or send {_PRIORITY}"
        )
    expires = headers.get("expires")
    if expires is None:
        return False
    expires_at = read_number(expires.strip().encode(), "expires")
    if 0 < expires_at <= now_milliseconds:
        late = now_milliseconds - expires_at
        raise NotServedError(f"the message has expired {late:,} ms ago (header 'expires')")
    return expires_at > 0


def require_served_name(destination: Destination) -> None:
    """
    Refuse the destinations with which ActiveMQ talks of itself: nothing would ever come of it.

    Raises:
        DestinationError: It is one.
    """
    for prefix, what in _NAMES_NOT_SERVED.items():
        if destination.name.startswith(prefix):
            raise DestinationError(f"{what} are not served (destination '{destination}')")


def read_mode(text: str) -> AcknowledgeMode:
    """
    Give the acknowledgement mode of a SUBSCRIBE.

    Raises:
        DestinationError: There is no such mode.
    """
    try:
        return AcknowledgeMode(text)
    except ValueError:
        modes = ", ".join(mode.value for mode in AcknowledgeMode)
        raise DestinationError(f"acknowledgement mode {text!r}; expected one of {modes}") from None


def no_room(destination: Queue | Topic) -> str:
    """Say why a non-persistent message waits, or is refused."""
    if type(destination) is Topic:
        return (
            f"a subscriber of topic {destination.name!r} is too slow; take what this connection"
            f" was sent, then send again"
        )
    return "memory for non-persistent messages is full; acknowledge some first"


def read_number(raw: bytes | None, name: str) -> int:
    """
    Give a header's number.

    Raises:
        RefusedError: It is none from 0 to 2^63-1.
    """
    try:
        value = int(raw or b"")
    except ValueError:
        value = -1
    if not 0 <= value < 1 << 63:
        shown = (raw or b"").decode(errors="replace")[:40]
        raise RefusedError(f"header {name}: {shown!r} is not a number from 0 to 2^63-1")
    return value


def read_producer_id(text: str) -> str:
    """
    Give a producer's id.

    Raises:
        RefusedError: It is empty or too long, or no client's.
    """
    if not text or len(text.encode()) > PRODUCER_ID_BYTES_MAX:
        raise RefusedError(f"header producer-id: 1 to {PRODUCER_ID_BYTES_MAX} bytes are allowed")
    if text.startswith(FLOOR_ID):
        raise RefusedError(f"header producer-id: no client's begins with {FLOOR_ID}")
    return text


def read_finished(frame: Frame) -> tuple[str, int] | None:
    """
    Give whose producers a COMMIT says are done with, and below which number; None: nobody's.

    Raises:
        RefusedError: The name is too long, or the number is none.
    """
    name = frame.headers.get("holdfast-forget")
    if name is None:
        return None
    text = frame.headers.get("holdfast-forget-before", "")
    return read_producer_id(name), read_number(text.encode(), "holdfast-forget-before")


def require_short(name: str, what: str) -> None:
    """
    Refuse a name of a client's own that is too long: it is kept as long as what it names.

    Raises:
        DestinationError: It is.
    """
    size = len(name.encode())
    if size > CLIENT_NAME_BYTES_MAX:
        raise DestinationError(f"{what} of {size:,} bytes; at most {CLIENT_NAME_BYTES_MAX:,}")


def unknown_name(name: bytes) -> UnknownDeliveryError:
    """Say that an acknowledgement names no delivery of this connection."""
    shown = name.decode(errors="replace")[:80]
    return UnknownDeliveryError(f"{shown!r} is not the id of a delivery on this connection")

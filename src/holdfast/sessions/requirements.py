"""
What requests of any protocol must keep to, and the sentences of what they cannot have.

A value that makes no sense refuses its request and leaves the connection alone: the client's
developer reads the sentence.
"""

from __future__ import annotations

from holdfast.broker.broker import Broker
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.topic import Topic
from holdfast.errors import DestinationError, RefusedError
from holdfast.model.destination import Destination
from holdfast.model.digits import read_digits
from holdfast.model.limits import CLIENT_NAME_BYTES_MAX, PRODUCER_ID_BYTES_MAX
from holdfast.model.producer_ids import RESERVED
from holdfast.model.reserved_names import why_reserved
from holdfast.model.shares import refusal_of


def require_subscription_room(
    broker: Broker, cost: int, user: str | None, *, is_running: bool = False
) -> None:
    """
    Refuse one subscription more than there may be on this node, or of this user.

    Args:
        is_running: It is of a wildcard that runs: what others have since does not make his share
            smaller.

    Raises:
        DestinationError: There are too many, or their names are too long.
    """
    flow, count_max = broker.flow, broker.settings.subscriptions_count_max
    if flow.subscription_count >= count_max:
        raise DestinationError(f"at most {count_max:,} subscriptions of all connections")
    bytes_max = broker.settings.subscriptions_bytes_max
    if flow.subscription_bytes + cost > bytes_max:
        raise DestinationError(
            f"subscriptions of all connections take {flow.subscription_bytes:,} bytes,"
            f" at most {bytes_max:,}: there are too many with long names"
        )
    count_left = count_max - flow.subscription_count - 1
    bytes_left = bytes_max - flow.subscription_bytes - cost
    counts, sizes = flow.subscription_counts, flow.subscription_shares
    if is_running:
        has_room = counts.has_room_whoever_else(user, 1, count_max)
        has_room = has_room and sizes.has_room_whoever_else(user, cost, bytes_max)
    else:
        has_room = counts.has_room(user, 1, count_left, count_max)
        has_room = has_room and sizes.has_room(user, cost, bytes_left, bytes_max)
    if not has_room:
        raise DestinationError(
            refusal_of(
                user,
                f"{counts.of(user):,} subscriptions, with {sizes.of(user):,} bytes",
                f"{count_max:,}, and of {bytes_max:,} bytes",
                whoever_else=is_running,
            )
        )


def require_served_name(destination: Destination) -> None:
    """
    Refuse the destinations with which ActiveMQ talks of itself: nothing would ever come of it.

    Raises:
        DestinationError: It is one.
    """
    why = why_reserved(destination.name)
    if why:
        raise DestinationError(f"{why} ('{destination}')")


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
    value = read_digits(raw or b"")
    if value is None or value >= 1 << 63:
        shown = (raw or b"").decode(errors="replace")[:40]
        raise RefusedError(f"header {name}: {shown!r} is not a number from 0 to 2^63-1")
    return value


def read_producer_id(text: str) -> str:
    """
    Give a producer's id, as its client says it.

    Raises:
        RefusedError: It is empty or too long, or no client's.
    """
    if not text or len(text.encode()) > PRODUCER_ID_BYTES_MAX:
        raise RefusedError(f"header producer-id: 1 to {PRODUCER_ID_BYTES_MAX} bytes are allowed")
    if text.startswith(RESERVED):
        reserved = next(it for it in RESERVED if text.startswith(it))
        raise RefusedError(f"header producer-id: no client's begins with {reserved}")
    return text


def require_short(name: str, what: str) -> None:
    """
    Refuse a name of a client's own that is too long: it is kept as long as what it names.

    Raises:
        DestinationError: It is.
    """
    size = len(name.encode())
    if size > CLIENT_NAME_BYTES_MAX:
        raise DestinationError(f"{what} of {size:,} bytes; at most {CLIENT_NAME_BYTES_MAX:,}")

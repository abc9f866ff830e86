"""
SUBSCRIBE and UNSUBSCRIBE: what a consumer asks for, checked, and what it is known by.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.broker.queue import Queue
from holdfast.broker.subscription import Subscription, subscription_cost
from holdfast.broker.topic import Topic
from holdfast.errors import DestinationError
from holdfast.protocols.stomp.frames import Frame
from holdfast.sessions.stomp_delivery import DeliveryFormat
from holdfast.sessions.stomp_headers import (
    NOT_SERVED,
    read_mode,
    read_number,
    require_short,
    require_subscription_room,
)

if TYPE_CHECKING:
    from holdfast.sessions.stomp import StompSession


def subscribe(session: StompSession, frame: Frame) -> None:
    """
    Add a consumer.

    Raises:
        RefusedError: It asks for what is not served, or there are too many.
    """
    headers = frame.headers
    for name, what in NOT_SERVED.items():
        if headers.get(name, "false") != "false":
            raise DestinationError(f"{what} are not served (header {name!r})")
    written = headers["destination"]
    if written.startswith("/remote-temp-"):
        raise DestinationError(
            f"{written!r} belongs to another connection; only that one may subscribe to it"
        )
    subscription_id = headers.get("id", written)
    if subscription_id in session.subscriptions:
        raise DestinationError(f"subscription id {subscription_id!r} is in use already")
    require_short(subscription_id, "subscription id")
    _require_place(session, subscription_cost(subscription_id, written))
    destination = session.destination(written)
    session.ordinal += 1
    subscription = Subscription(
        session,
        subscription_id,
        mode=read_mode(headers.get("ack", "auto")),
        prefetch=_prefetch(session, headers, destination),
        destination=written,
    )
    subscription.ordinal = session.ordinal
    session.subscriptions[subscription_id] = subscription
    session.by_ordinal[b"%d" % session.ordinal] = subscription
    session.broker.subscribe(subscription, destination)
    subscription.memo = DeliveryFormat(
        subscription,
        version=session.protocol.version,
        cluster=session.context.cluster,
        term=session.context.term,
        named="id" in headers,
    )
    if frame.receipt is not None:
        # The queue that it declares must be there after a failover too.
        session.broker.reply_after_pending(session, frame.receipt)


def _require_place(session: StompSession, cost: int) -> None:
    count_max = session.broker.settings.subscription_count_max
    if len(session.subscriptions) >= count_max:
        raise DestinationError(f"at most {count_max:,} subscriptions on one connection")
    require_subscription_room(session.broker, cost)


def _prefetch(session: StompSession, headers: dict[str, str], destination: Queue | Topic) -> int:
    settings = session.broker.settings
    text = headers.get("activemq.prefetchSize", headers.get("prefetch-count"))
    if text is None:
        is_queue = isinstance(destination, Queue)
        return settings.prefetch_default if is_queue else settings.prefetch_max
    wanted = read_number(text.encode(), "prefetch")
    return min(wanted, settings.prefetch_max) or settings.prefetch_max


def unsubscribe(session: StompSession, frame: Frame) -> None:
    """
    End a consumer; what it holds goes back.

    Raises:
        DestinationError: There is no such consumer.
    """
    headers = frame.headers
    subscription_id = headers.get("id", headers.get("destination", ""))
    subscription = session.subscriptions.pop(subscription_id, None)
    if subscription is None:
        raise DestinationError(f"there is no subscription {subscription_id!r} to end")
    del session.by_ordinal[b"%d" % subscription.ordinal]
    session.broker.unsubscribe(subscription)
    session.recount_room()  # What was on its way to it is not written any more.
    if frame.receipt is not None:
        # With mode `auto` all it was given is settled: it must not come again after this.
        session.broker.reply_after_pending(session, frame.receipt)

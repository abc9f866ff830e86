"""
SUBSCRIBE and UNSUBSCRIBE: what a consumer asks for, checked, and what it is known by.

A consumer is known by its id. In STOMP 1.0 it needs none, and is ended by its destination.

Invariants:
    A refused SUBSCRIBE leaves nothing behind but perhaps a queue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.subscription import Subscription, subscription_cost
from holdfast.broker.serving.topic import Topic
from holdfast.errors import DestinationError
from holdfast.model.destination import Kind, parse_destination
from holdfast.protocols.stomp.frames import Frame
from holdfast.sessions.stomp_delivery import DeliveryFormat
from holdfast.sessions.stomp_headers import (
    read_mode,
    read_number,
    require_served,
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
    written = parse_destination(headers["destination"])
    options = written.read_options() if written.options else {}
    session.ignored(require_served(headers, options))
    if written.kind in (Kind.REMOTE_TEMPORARY_QUEUE, Kind.REMOTE_TEMPORARY_TOPIC):
        raise DestinationError(
            f"'{written}' belongs to another connection; only that one may subscribe to it"
        )
    subscription_id = headers.get("id")
    if subscription_id is not None and subscription_id in session.subscriptions:
        raise DestinationError(f"subscription id {subscription_id!r} is in use already")
    require_short(subscription_id or "", "subscription id")
    _require_place(session, subscription_cost(subscription_id or "", str(written)))
    mode = read_mode(headers.get("ack", "auto"))
    destination = session.destination(written)
    prefetch = _prefetch(session, headers, options, destination)
    session.ordinal += 1
    subscription = Subscription(
        session,
        subscription_id if subscription_id is not None else _unnamed(session.ordinal),
        mode=mode,
        prefetch=prefetch,
        destination=str(written),
        client=session.client,
    )
    subscription.ordinal = session.ordinal
    session.subscriptions[subscription.id] = subscription
    session.by_ordinal[b"%d" % session.ordinal] = subscription
    session.broker.subscribe(subscription, destination)
    subscription.memo = DeliveryFormat(
        subscription,
        version=session.protocol.version,
        cluster=session.context.cluster,
        term=session.context.term,
        named=subscription_id is not None,
        session=session.id,
        known_plain=session.context.known_plain,
        shared=session.context.shared_frames,
    )
    if frame.receipt is not None:
        # The queue that it declares must be there after a failover too.
        session.broker.receipts.reply_after_pending(session, frame.receipt)


def _require_place(session: StompSession, cost: int) -> None:
    count_max = session.broker.settings.subscription_count_max
    if len(session.subscriptions) >= count_max:
        raise DestinationError(f"at most {count_max:,} subscriptions on one connection")
    require_subscription_room(session.broker, cost)


def _unnamed(ordinal: int) -> str:
    """
    Give what a subscription without an id is known by; a client never sees it.

    Only STOMP 1.0 has those, where no header holds a line feed: no id is like it.
    """
    return f"\n{ordinal}"


def _prefetch(
    session: StompSession,
    headers: dict[str, str],
    options: dict[str, str],
    destination: Queue | Topic,
) -> int:
    settings = session.broker.settings
    text = headers.get("activemq.prefetchSize", headers.get("prefetch-count"))
    if text is None:
        text = options.get("consumer.prefetchSize")
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
    subscription = _find(session, frame.headers)
    del session.subscriptions[subscription.id]
    del session.by_ordinal[b"%d" % subscription.ordinal]
    session.broker.unsubscribe(subscription)
    session.recount_room()  # What was on its way to it is not written any more.
    if frame.receipt is not None:
        # With mode `auto` all it was given is settled: it must not come again after this.
        session.broker.receipts.reply_after_pending(session, frame.receipt)


def _find(session: StompSession, headers: dict[str, str]) -> Subscription:
    """
    Give the subscription that an UNSUBSCRIBE means.

    STOMP 1.0 may name the destination only. Where several are there, those without an id, which
    cannot be named otherwise, go first, and of those the oldest.
    """
    subscription_id = headers.get("id")
    if subscription_id is not None:
        found = session.subscriptions.get(subscription_id)
        if found is None:
            raise DestinationError(f"there is no subscription {subscription_id!r} to end")
        return found
    written = str(parse_destination(headers["destination"]))
    session.effort = len(session.subscriptions)
    of_it = [each for each in session.subscriptions.values() if each.destination == written]
    if not of_it:
        raise DestinationError(f"there is no subscription of {written!r} to end")
    return min(of_it, key=lambda each: (each.id != _unnamed(each.ordinal), each.ordinal))

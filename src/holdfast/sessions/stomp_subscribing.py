"""
SUBSCRIBE and UNSUBSCRIBE: what a consumer asks for, checked, and what it is known by.

A consumer is known by its id. In STOMP 1.0 it needs none, and is ended by its destination.

Invariants:
    A refused SUBSCRIBE leaves nothing behind but perhaps a queue.
"""

from __future__ import annotations

from functools import partial

from holdfast.broker.serving.consumer import NO_CLAIM, Claim
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.router.router import has_groups
from holdfast.broker.serving.subscription import Subscription
from holdfast.errors import DestinationError
from holdfast.model.destination import Destination, Kind, parse_destination
from holdfast.protocols.stomp.frames import Frame
from holdfast.protocols.stomp.states import Version
from holdfast.sessions.client_session import ClientSession
from holdfast.sessions.holdings import unnamed
from holdfast.sessions.requirements import read_number
from holdfast.sessions.selection import Selection
from holdfast.sessions.sending import MUCH
from holdfast.sessions.stomp_delivery import DeliveryFormat
from holdfast.sessions.stomp_headers import (
    read_browser,
    read_claim,
    read_mode,
    read_redelivery,
    read_selector,
    require_served,
)
from holdfast.sessions.stomp_values import written_by_jms
from holdfast.sessions.target import Action


def subscribe(session: ClientSession, frame: Frame, version: Version) -> None:
    """
    Add a consumer.

    Raises:
        RefusedError: It asks for what is not served, or there are too many.
    """
    headers = frame.headers
    holdings, context = session.holdings, session.context
    written = parse_destination(headers["destination"])
    options = written.read_options() if written.options else {}
    context.refusals.note_ignored(session, require_served(headers, options))
    holdings.require_allowed(written, Action.CONSUME)
    subscription_id = headers.get("id")
    selector = _selection(session, written, read_selector(headers, options))
    holdings.require_place(subscription_id, written, selector)
    mode = read_mode(headers.get("ack", "auto"))
    redelivery = read_redelivery(headers)
    claim = _claim(written, headers, options)
    browses = _browses(written, headers, options)
    destination = holdings.target(session, written, Action.CONSUME)
    if selector is not None and isinstance(destination, Queue):
        if not browses and destination.sifting is None and has_groups(destination):
            raise DestinationError(
                f"there are message groups on '{written}': there selectors are not served yet"
            )
        # Its number is known by now.
        selector.identity = f"ID:{context.cluster}-{destination.number}-"
        selector.volatile_identity = f"{selector.identity}t{context.term}."
    holdings.subscribe(
        session,
        destination,
        subscription_id=subscription_id,
        written=written,
        mode=mode,
        prefetch=holdings.prefetch(destination, _wanted(headers, options), browses=browses),
        form=partial(
            DeliveryFormat,
            version=version,
            cluster=context.cluster,
            term=context.term,
            named=subscription_id is not None,
            session=session.id,
            known_plain=context.known_plain,
            shared=context.shared_frames,
        ),
        selector=selector,
        redelivery=redelivery,
        claim=claim,
        browses=browses,
    )
    if frame.receipt is not None:
        # The queue that it declares must be there after a failover too.
        holdings.reply_after_pending(session, frame.receipt)


def _selection(session: ClientSession, written: Destination, text: str | None) -> Selection | None:
    """
    Give what selects the messages that a consumer wants; None: it wants all.

    Raises:
        SelectorError: The selector cannot be read.
    """
    if text is None:
        return None
    session.effort = MUCH  # Reading it takes up to some milliseconds.
    context = session.context
    identity = f"ID:{context.cluster}-0-t{context.term}."
    return context.selections.read(text, written_by_jms(written, session.id), identity)


def _claim(written: Destination, headers: dict[str, str], options: dict[str, str]) -> Claim:
    """
    Give what a consumer claims before others; of a topic each gets all messages anyway.

    Raises:
        RefusedError: A value makes no sense.
        DestinationError: It wants to be the only one on a topic.
    """
    claim = read_claim(headers, options)
    if written.kind not in {Kind.TOPIC, Kind.TEMPORARY_TOPIC}:
        return claim
    if claim.is_exclusive:
        raise DestinationError(
            f"exclusive consumers are served on queues only ('{written}' is a topic)"
        )
    return NO_CLAIM


def _browses(written: Destination, headers: dict[str, str], options: dict[str, str]) -> bool:
    """
    Give whether it only wants to look through a queue.

    Raises:
        RefusedError: The value makes no sense.
        DestinationError: It is a topic, which keeps nothing to be looked through.
    """
    browses = read_browser(headers, options)
    if browses and written.kind in {Kind.TOPIC, Kind.TEMPORARY_TOPIC}:
        raise DestinationError(f"browsers are served on queues only ('{written}' is a topic)")
    return browses


def _wanted(headers: dict[str, str], options: dict[str, str]) -> int | None:
    """Give how much a consumer wants to have at once, None if it does not say."""
    text = headers.get("activemq.prefetchSize", headers.get("prefetch-count"))
    if text is None:
        text = options.get("consumer.prefetchSize")
    return None if text is None else read_number(text.strip().encode(), "prefetch")


def unsubscribe(session: ClientSession, frame: Frame) -> None:
    """
    End a consumer; what it holds goes back.

    Raises:
        DestinationError: There is no such consumer.
    """
    subscription = _find(session, frame.headers)
    session.holdings.unsubscribe(session, subscription)
    if frame.receipt is not None:
        # With mode `auto` all it was given is settled: it must not come again after this.
        session.holdings.reply_after_pending(session, frame.receipt)


def _find(session: ClientSession, headers: dict[str, str]) -> Subscription:
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
    return min(of_it, key=lambda each: (each.id != unnamed(each.ordinal), each.ordinal))

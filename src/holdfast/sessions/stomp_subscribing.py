"""
SUBSCRIBE and UNSUBSCRIBE: what a consumer asks for, checked, and what it is known by.

A consumer is known by its id. In STOMP 1.0 it needs none, and is ended by its destination.

Invariants:
    A refused SUBSCRIBE leaves nothing behind but perhaps a queue.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final

from holdfast.broker.serving.consumer import NO_CLAIM, NO_WISHES, Claim, TopicWishes
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.subscription import Subscription
from holdfast.broker.serving.topic import Topic
from holdfast.errors import DestinationError
from holdfast.model.destination import Destination, Kind, parse_sources
from holdfast.protocols.stomp.frames import Frame
from holdfast.protocols.stomp.states import Version
from holdfast.sessions.advisories import are_advisories, listen
from holdfast.sessions.client_session import ClientSession
from holdfast.sessions.holder import unnamed
from holdfast.sessions.permissions import require_allowed
from holdfast.sessions.requirements import read_number
from holdfast.sessions.selection import Selection
from holdfast.sessions.sending import MUCH
from holdfast.sessions.stomp_delivery import DeliveryFormat
from holdfast.sessions.stomp_durables import durable_of, end_durable, leave_durable
from holdfast.sessions.stomp_headers import (
    read_browser,
    read_claim,
    read_mode,
    read_no_local,
    read_redelivery,
    read_retroactive,
    read_selector,
    require_served,
)
from holdfast.sessions.stomp_several import Asked, know, subscribe_to_parts, subscribe_to_several
from holdfast.sessions.stomp_values import written_by_jms
from holdfast.sessions.target import Action

_TOPICS: Final = frozenset({Kind.TOPIC, Kind.TEMPORARY_TOPIC})


def subscribe(session: ClientSession, frame: Frame, version: Version) -> None:
    """
    Add a consumer.

    Raises:
        RefusedError: It asks for what is not served, or there are too many.
    """
    headers = frame.headers
    holdings, context = session.holdings, session.context
    sources = parse_sources(headers["destination"])
    written = sources[0]
    options = written.read_options() if written.options else {}
    context.refusals.note_ignored(session, require_served(options))
    require_allowed(session, holdings.broker, sources, Action.CONSUME)
    subscription_id = headers.get("id")
    selector = _selection(session, written, read_selector(headers, options))
    named = ",".join(map(str, sources))
    holdings.require_place(session, subscription_id, named, selector)
    form = _form(session, version, named=subscription_id is not None)
    asked = _asked(sources, headers, options, selector, form)
    holdings.has_browsed |= asked.browses
    wishes = asked.wishes
    durable = durable_of(session, headers, options, sources, asked)
    destination: Queue | Topic | None = durable
    if durable is not None:
        selector, wishes = None, NO_WISHES  # The log says which messages are not for it.
    elif are_advisories(sources):
        destination = listen(holdings.broker, written, headers)
    if written.is_wildcard and durable is not None:
        subscribe_to_parts(session, durable, named, asked, frame.receipt)
        return
    if destination is None and (len(sources) > 1 or written.is_wildcard):
        subscribe_to_several(session, sources, named, asked, frame.receipt)
        return
    if destination is None:
        destination = holdings.target(session, written, Action.CONSUME)
    if selector is not None:
        know(selector, context, destination)
    holdings.subscribe(
        session,
        destination,
        subscription_id=subscription_id,
        written=written,
        mode=asked.mode,
        prefetch=holdings.prefetch(destination, asked.wanted, browses=asked.browses),
        form=asked.form,
        selector=selector,
        redelivery=asked.redelivery,
        claim=asked.claim,
        browses=asked.browses,
        wishes=wishes,
    )
    if frame.receipt is not None:  # The queue that it declares must outlast a failover, too.
        holdings.reply_after_pending(session, frame.receipt)


def _asked(
    sources: tuple[Destination, ...],
    headers: dict[str, str],
    options: dict[str, str],
    selector: Selection | None,
    form: Callable[[Subscription], DeliveryFormat],
) -> Asked:
    """
    Give what a SUBSCRIBE says beside its destinations.

    Raises:
        RefusedError: A value makes no sense.
        DestinationError: It asks for what these do not have.
    """
    return Asked(
        headers.get("id"),
        mode=read_mode(headers.get("ack", "auto")),
        redelivery=read_redelivery(headers),
        claim=_claim(sources, headers, options),
        browses=_browses(sources, headers, options),
        wanted=_wanted(headers, options),
        selector=selector,
        form=form,
        wishes=_wishes(sources, headers, options),
    )


def _form(
    session: ClientSession, version: Version, *, named: bool
) -> Callable[[Subscription], DeliveryFormat]:
    """Give how its deliveries are written; `named`: its client has given it an id."""
    context = session.context
    return partial(
        DeliveryFormat,
        version=version,
        cluster=context.cluster,
        term=context.term,
        named=named,
        address=session.address,
        known_plain=context.known_plain,
        shared=context.shared_frames,
    )


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
    return context.selections.read(text, written_by_jms(written, session.address), identity)


def _claim(
    sources: tuple[Destination, ...], headers: dict[str, str], options: dict[str, str]
) -> Claim:
    """
    Give what a consumer claims before others; of a topic each gets all messages anyway.

    Raises:
        RefusedError: A value makes no sense.
        DestinationError: It wants to be the only one on a topic.
    """
    claim = read_claim(headers, options)
    for written in sources:
        if written.kind in _TOPICS and claim.is_exclusive:
            raise DestinationError(
                f"exclusive consumers are served on queues only ('{written}' is a topic)"
            )
    return NO_CLAIM if all(it.kind in _TOPICS for it in sources) else claim


def _browses(
    sources: tuple[Destination, ...], headers: dict[str, str], options: dict[str, str]
) -> bool:
    """
    Give whether it only wants to look through a queue.

    Raises:
        RefusedError: The value makes no sense.
        DestinationError: It is a topic, which keeps nothing to be looked through, or several.
    """
    browses = read_browser(headers, options)
    if not browses:
        return False
    for written in sources:
        if written.kind in _TOPICS:
            raise DestinationError(f"browsers are served on queues only ('{written}' is a topic)")
        if written.is_wildcard or len(sources) > 1:
            raise DestinationError(
                f"a browser looks through one queue; '{written}' is one of several, or a wildcard"
            )
    return True


def _wishes(
    sources: tuple[Destination, ...], headers: dict[str, str], options: dict[str, str]
) -> TopicWishes:
    """
    Give what it wishes of topics.

    Raises:
        RefusedError: A value makes no sense.
        DestinationError: It is of a queue, where nobody is told who has sent what.
    """
    no_local = read_no_local(headers, options)
    retroactive = read_retroactive(headers, options)
    word = no_local or retroactive
    for each in sources:
        if word and each.kind not in _TOPICS:
            raise DestinationError(f"{word} is of topics only, not of '{each}'")
    pending_max = _pending_max(sources, headers, options)
    return TopicWishes(pending_max, bool(no_local), bool(retroactive))


def _pending_max(
    sources: tuple[Destination, ...], headers: dict[str, str], options: dict[str, str]
) -> int | None:
    """
    Give how many messages may wait for a consumer of a topic; None: as the policies say.

    Raises:
        RefusedError: The value makes no sense.
        DestinationError: It is a queue, where messages wait for all of its consumers.
    """
    name = "activemq.maximumPendingMessageLimit"
    text = headers.get(name, options.get("consumer.maximumPendingMessageLimit", "0")).strip()
    if text in {"0", "-1", "false"}:
        return None
    count = read_number(text.encode(), "maximumPendingMessageLimit")
    for each in sources:
        if each.kind not in _TOPICS:
            raise DestinationError(f"maximumPendingMessageLimit is of topics only, not of '{each}'")
    return count


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
    if end_durable(session, frame.headers, frame.receipt):
        return
    found = _find(session, frame.headers)
    if leave_durable(session, found, frame.receipt):
        return
    session.holdings.unsubscribe(session, found)
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
    written = ",".join(map(str, parse_sources(headers["destination"])))
    session.effort = len(session.subscriptions)
    of_it = [each for each in session.subscriptions.values() if each.destination == written]
    if not of_it:
        raise DestinationError(f"there is no subscription of {written!r} to end")
    return min(of_it, key=lambda each: (each.id != unnamed(each.ordinal), each.ordinal))

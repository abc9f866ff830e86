"""
SUBSCRIBE to several queues and topics at once: `/queue/a,/topic/b`, `/queue/a.>`.

It is one subscription with one id and one prefetch; each message says by its own destination where
it comes from. Its receipt means that all that was there is joined.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from holdfast.broker.serving.bundle import Bundle
from holdfast.broker.serving.consumer import (
    NO_WISHES,
    AcknowledgeMode,
    Claim,
    DeliveryForm,
    MessageSelector,
    TopicWishes,
)
from holdfast.broker.serving.durable import DurableQueue
from holdfast.broker.serving.queue import Queue
from holdfast.broker.serving.subscription import Subscription
from holdfast.broker.serving.topic import Topic
from holdfast.errors import DestinationError
from holdfast.model.destination import Destination
from holdfast.model.policy_option import Value
from holdfast.model.wildcards import Pattern
from holdfast.sessions.bundles import Parts, pattern_of, prefetch_of, subscribe, take_up
from holdfast.sessions.client_session import ClientSession
from holdfast.sessions.context import SessionContext
from holdfast.sessions.holder import unnamed
from holdfast.sessions.permissions import sharer
from holdfast.sessions.requirements import require_served_name
from holdfast.sessions.selection import Selection
from holdfast.sessions.stomp_values import written_by_jms


@dataclass(frozen=True, slots=True)
class Asked:
    """What a SUBSCRIBE says beside its destinations, checked."""

    subscription_id: str | None
    mode: AcknowledgeMode
    redelivery: Mapping[str, Value] | None
    claim: Claim
    browses: bool
    wanted: int | None
    """How much it wants to have at once."""
    selector: Selection | None
    form: Callable[[Subscription], DeliveryForm]
    wishes: TopicWishes = NO_WISHES
    """What it wishes of topics."""


def know(selector: Selection, context: SessionContext, destination: Queue | Topic) -> None:
    """Let a selector know of which queue the messages are, whose number is known by now."""
    if not isinstance(destination, Queue):
        return
    selector.identity = f"ID:{context.cluster}-{destination.number}-"
    selector.volatile_identity = f"{selector.identity}t{context.term}."


def subscribe_to_several(
    session: ClientSession,
    sources: tuple[Destination, ...],
    named: str,
    asked: Asked,
    receipt: bytes | None,
) -> None:
    """
    Add a consumer of all that its destinations mean, now and later.

    Raises:
        DestinationError: One of them cannot be, or there are too many.
    """
    holdings = session.holdings
    for each in sources:
        require_served_name(each)
    patterns = [pattern_of(it) for it in sources if it.is_wildcard]
    exact = tuple(it for it in sources if not it.is_wildcard)
    bundle = _bundle(session, named, asked, patterns)
    bundle.wish(asked.wishes)
    subscribe(holdings, bundle, exact, _parts(session, asked, asked.selector, receipt))


def subscribe_to_parts(
    session: ClientSession,
    durable: DurableQueue,
    named: str,
    asked: Asked,
    receipt: bytes | None,
) -> None:
    """
    Add a consumer of a durable subscription of a wildcard: of all its parts, now and later.

    Raises:
        DestinationError: There are too many subscriptions.
    """
    # The log says which messages are not for it.
    take_up(
        session.holdings,
        _bundle(session, named, asked, ()),
        durable,
        _parts(session, asked, None, receipt),
    )


def _bundle(
    session: ClientSession, named: str, asked: Asked, patterns: Sequence[Pattern]
) -> Bundle:
    holdings = session.holdings
    ordinal = holdings.next_ordinal()
    bundle = Bundle(
        session,
        unnamed(ordinal) if asked.subscription_id is None else asked.subscription_id,
        mode=asked.mode,
        prefetch=prefetch_of(holdings, asked.wanted),
        destination=named,
        client=session.client,
        patterns=patterns,
        stirring=holdings.broker.destinations.leadership.stirring,
    )
    bundle.ordinal, bundle.user = ordinal, sharer(session, holdings.broker)
    bundle.claim, bundle.redelivery = asked.claim, asked.redelivery
    return bundle


def _parts(
    session: ClientSession, asked: Asked, selector: Selection | None, receipt: bytes | None
) -> Parts:
    told = _Told(session, receipt)
    return Parts(
        session,
        session.holdings,
        form=asked.form,
        selector=_Selecting(session, selector),
        say_joined=told.joined,
        say_failed=told.failed,
    )


class _Selecting:
    """Gives each part a selector of its own, which knows of which queue its messages are."""

    def __init__(self, session: ClientSession, selector: Selection | None) -> None:
        self._session = session
        self._selector = selector

    def __call__(self, written: Destination, destination: Queue | Topic) -> MessageSelector | None:
        """Give the selector of a part, None where all messages are wanted."""
        if self._selector is None:
            return None
        selector = self._selector.of(written_by_jms(written, self._session.address))
        know(selector, self._session.context, destination)
        return selector


class _Told:
    """What the client is told of a subscription, once for its SUBSCRIBE, and if it ends later."""

    def __init__(self, session: ClientSession, receipt: bytes | None) -> None:
        self._session = session
        self._receipt = receipt
        self._is_confirmed = False

    def joined(self) -> None:
        """Confirm the SUBSCRIBE when what it declared is there after a failover too."""
        self._is_confirmed = True
        if self._receipt is not None:
            self._session.holdings.reply_after_pending(self._session, self._receipt)

    def failed(self, error: DestinationError) -> None:
        """Refuse the SUBSCRIBE, or hang up: who goes on without the subscription would miss it."""
        if self._is_confirmed:
            self._session.farewell(str(error), error.code)
        else:
            self._session.say_refused(error, self._receipt)

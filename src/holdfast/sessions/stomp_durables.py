"""
Durable subscriptions in the words of STOMP clients: by a name and the client-id, or RabbitMQ's way.

ActiveMQ's and Artemis's clients name them in SUBSCRIBE, under one of four headers, and are known by
the client-id that they sent in CONNECT. RabbitMQ's send `durable:true` and are known by topic and
id; of queues that says nothing. The same words in UNSUBSCRIBE end one.

Invariants:
    One is consumed from by one subscription at a time.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from holdfast.broker.durables import Wanted
from holdfast.broker.lasting.topics import SubscriptionKey
from holdfast.broker.serving.bundle import Bundle
from holdfast.broker.serving.durable import DurableQueue
from holdfast.broker.serving.subscription import Subscription
from holdfast.errors import DestinationError, RefusedError
from holdfast.model.destination import Destination, Kind, parse_destination
from holdfast.model.format_level import DURABLE_LEVEL
from holdfast.sessions.bundles import leave, pattern_of
from holdfast.sessions.client_session import ClientSession
from holdfast.sessions.durable_keys import known_as, owner_for
from holdfast.sessions.requirements import require_served_name, require_short
from holdfast.sessions.stomp_headers import is_true, read_selector
from holdfast.sessions.stomp_several import Asked

_NAMES: Final = (
    "activemq.subscriptionName",
    "activemq.subcriptionName",
    "durable-subscription-name",
    "durable-subscriber-name",
)
_OPTIONS: Final = ("consumer.subscriptionName", "consumer.subcriptionName")
_FLAGS: Final = ("durable", "persistent")
"""RabbitMQ's, in UNSUBSCRIBE."""


def may_begin_wildcard(headers: dict[str, str]) -> bool:
    """Whether a SUBSCRIBE may be durable and of a wildcard; asked before anything of it is read."""
    written = headers.get("destination", "")
    if not ("*" in written or ">" in written):
        return False
    is_named = "?" in written or any(name in headers for name in _NAMES)
    return is_named or any(headers.get(flag, "false") != "false" for flag in _FLAGS)


def durable_of(
    session: ClientSession,
    headers: dict[str, str],
    options: dict[str, str],
    sources: tuple[Destination, ...],
    asked: Asked,
) -> DurableQueue | None:
    """
    Give the durable subscription that a SUBSCRIBE wants, made if it is new; None: it wants none.

    Raises:
        RefusedError: A value makes no sense.
        DestinationError: It cannot be, somebody consumes from it, or there are too many.
        LevelNotReachedError: Not every member of the cluster knows them yet.
    """
    written = sources[0]
    key = _key(session, headers, options, sources) or _key_to_take_up(session, headers, sources)
    if key is None:
        return None
    key = known_as(session, key)
    if len(sources) > 1:
        given = ",".join(map(str, sources))
        raise DestinationError(
            f"a durable subscription is of one topic, or of one wildcard ('{given}' is several)"
        )
    if written.is_wildcard:
        pattern_of(written)
    if asked.wishes.is_retroactive:
        raise DestinationError(
            f"durable subscription {key[1]!r} cannot be retroactive ('activemq.retroactive'):"
            " it gets what is sent from its beginning on"
        )
    if asked.wishes.has_no_local and not (key[0] and session.client_id):
        raise DestinationError(
            f"no-local of durable subscription {key[1]!r} needs a client-id, by which it is known"
            " what is its own: name it by 'activemq.subscriptionName'"
        )
    require_served_name(written)
    durables = session.holdings.broker.durables
    known = durables.find(key)
    if known is not None and known.subscriptions:
        raise DestinationError(
            f"durable subscription {key[1]!r} of client-id {key[0]!r} has an active consumer"
        )
    selector = asked.selector
    text = read_selector(headers, options) if selector is not None else None
    return durables.open(
        Wanted(
            *(written.name, *key, text or "", selector, asked.wishes.has_no_local),
            owner_for(session),
        )
    )


def end_durable(session: ClientSession, headers: dict[str, str], receipt: bytes | None) -> bool:
    """
    End the durable subscription that an UNSUBSCRIBE means, if there is one; false: it means none.

    A consumer of this connection leaves it first. Its client is told once the log says that it has
    ended. Whose it is needs no right to read its topic for that: it goes on storing until then.

    Raises:
        RefusedError: A value makes no sense.
        DestinationError: A consumer of another connection has it.
    """
    key = _key(session, headers, {}, ()) or _key_to_end(session, headers)
    if key is None:
        return False
    key = known_as(session, key)
    holdings = session.holdings
    known = holdings.broker.durables.find(key)
    if known is None:
        _tell(session, receipt)
        return True
    for subscription in list(session.subscriptions.values()):
        if isinstance(subscription, Bundle) and known in subscription.queues:
            leave(holdings, session, subscription, partial(_end, session, known, receipt))
            return True
        if subscription.queue is known:
            holdings.unsubscribe(session, subscription)
    if known.subscriptions:
        raise DestinationError(
            f"durable subscription {key[1]!r} of client-id {key[0]!r} has an active consumer"
            " on another connection; end that one first"
        )
    _end(session, known, receipt)
    return True


def _end(session: ClientSession, durable: DurableQueue, receipt: bytes | None) -> None:
    session.holdings.broker.durables.remove(durable)
    _tell(session, receipt)


def _tell(session: ClientSession, receipt: bytes | None) -> None:
    if receipt is not None:
        session.holdings.reply_after_pending(session, receipt)


def leave_durable(
    session: ClientSession, subscription: Subscription, receipt: bytes | None
) -> bool:
    """Leave a durable subscription of a wildcard, which stays; false: it is not of one."""
    if not (isinstance(subscription, Bundle) and subscription.is_durable):
        return False
    leave(session.holdings, session, subscription, partial(_tell, session, receipt))
    return True


def _key(
    session: ClientSession,
    headers: dict[str, str],
    options: dict[str, str],
    sources: tuple[Destination, ...],
) -> SubscriptionKey | None:
    """
    Give by which client-id and name a frame means a durable subscription; None: not by a name.

    Raises:
        RefusedError: A value makes no sense.
        DestinationError: It needs a client-id or a topic, and there is none.
    """
    named = _name(headers, options)
    if named is None:
        return None
    if not _are_served(session):
        raise DestinationError(f"durable subscriptions are not served ({named[1]})")
    require_short(named[0], "durable subscription name")
    if not session.client_id:
        raise DestinationError(
            f"durable subscription {named[0]!r} needs a client-id: send header 'client-id' in"
            " CONNECT"
        )
    if sources and sources[0].kind is not Kind.TOPIC:
        raise DestinationError(f"durable subscriptions are of topics only ('{sources[0]}' is none)")
    return session.given_client_id, named[0]


def _are_served(session: ClientSession) -> bool:
    return session.holdings.broker.settings.known_format_level >= DURABLE_LEVEL


def _key_to_take_up(
    session: ClientSession, headers: dict[str, str], sources: tuple[Destination, ...]
) -> SubscriptionKey | None:
    """
    Give which durable subscription a SUBSCRIBE in RabbitMQ's words means; None: it means none.

    Raises:
        RefusedError: A value makes no sense.
        DestinationError: It needs an id, and has none.
    """
    if not (_are_served(session) and any(each.kind is Kind.TOPIC for each in sources)):
        return None
    is_durable = is_true("header 'durable'", headers.get("durable"))
    # ActiveMQ's clients say `persistent` of a subscription as well, where it means nothing.
    is_persistent = headers.get("persistent") == "true" and headers.get("auto-delete") == "false"
    if not (is_durable or is_persistent):
        return None
    if not headers.get("id"):
        flag = "durable" if is_durable else "persistent"
        raise DestinationError(f"header {flag!r} needs header 'id', by which it is known again")
    return _key_of(sources[0], headers["id"])


def _key_to_end(session: ClientSession, headers: dict[str, str]) -> SubscriptionKey | None:
    """
    Give which durable subscription an UNSUBSCRIBE in RabbitMQ's words means; None: it means none.

    What is subscribed to here under the id is meant, whatever it is; else what its destination
    says.

    Raises:
        DestinationError: It does not say, and there is no such subscription here.
    """
    is_meant = any(headers.get(flag) == "true" for flag in _FLAGS) and _are_served(session)
    subscription_id = headers.get("id")
    if not (is_meant and subscription_id):
        return None
    own = session.subscriptions.get(subscription_id)
    if own is not None:
        queue = own.queues[0] if isinstance(own, Bundle) and own.is_durable else own.queue
        if not isinstance(queue, DurableQueue):
            return None
        key = _key_of(Destination(Kind.TOPIC, queue.topic.name), subscription_id)
        return key if known_as(session, key) == queue.key else None
    if "destination" in headers:
        written = parse_destination(headers["destination"])
        return _key_of(written, subscription_id) if written.kind is Kind.TOPIC else None
    raise DestinationError(
        f"there is no subscription {subscription_id!r} here to end; name its 'destination'"
    )


def _key_of(topic: Destination, subscription_id: str) -> SubscriptionKey:
    """
    Give client-id and name of what is known by topic and id: no two of these have the same name.

    Raises:
        DestinationError: The id is too long.
    """
    require_short(subscription_id, "header 'id'")
    return "", f"{topic.name.replace('%', '%25').replace(':', '%3A')}:{subscription_id}"


def _name(headers: dict[str, str], options: dict[str, str]) -> tuple[str, str] | None:
    """
    Give the name of the durable subscription that a frame speaks of, and where that stands.

    Raises:
        RefusedError: Two names are given, and they are not the same.
    """
    given = {headers[it]: f"header {it!r}" for it in _NAMES if headers.get(it)}
    given |= {options[it]: f"option {it!r}" for it in _OPTIONS if options.get(it)}
    given.pop("false", None)
    if len(given) > 1:
        raise RefusedError(f"two names of one durable subscription: {sorted(given)}")
    return given.popitem() if given else None

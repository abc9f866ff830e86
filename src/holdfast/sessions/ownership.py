"""
Whose a durable subscription is, and who may not have it.

A user's client-ids begin here with his name, so those of two users are never the same. That says
nothing of what was made before there were users, when a client-id could be spelled like that too:
whose something is, the log says beside it. What is nobody's, and has a client-id that begins with
the name of a user, may be that one's: only he takes it up, or whoever an operator gives it to.

Pure values.
"""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import unquote

from holdfast.broker.lasting.queue import LastingQueue
from holdfast.broker.lasting.topics import LastingSubscription
from holdfast.broker.serving.access_book import AccessBook
from holdfast.errors import ForbiddenError
from holdfast.model.owners import Owner, mark_of
from holdfast.security.principal import Principal


def require_own(owner: Owner, client_id: str, name: str, who: Principal, book: AccessBook) -> None:
    """
    Refuse a durable subscription, by client-id and name, that is another's, or may be.

    Raises:
        ForbiddenError: It is.
    """
    what = f"durable subscription {name[:80]!r} of client-id {client_id[:80]!r}"
    if not owner.name:
        other = unquote(mark_of(client_id)[:-1])
        if other and other != who.name and book.is_user(other):
            raise ForbiddenError(
                f"{what} may be user {other!r}'s, and {named(who)} may not use it until an operator"
                f" says whose it is (holdfast subscriptions give)"
            )
    elif owner.name != who.name:
        raise ForbiddenError(f"{what} belongs to another user, and {named(who)} may not use it")
    elif owner != book.owner(who.name):
        raise ForbiddenError(
            f"{what} was left by an earlier {named(who)}: an operator gives it to this one, or ends"
            f" it (holdfast subscriptions give, holdfast subscriptions end)"
        )


def owner_of(durable: LastingSubscription, queues: Mapping[int, LastingQueue]) -> Owner:
    """Give whose one is; of a part of one of a wildcard whose the whole is."""
    whole = queues.get(durable.whole_number)
    return whole.owner if isinstance(whole, LastingSubscription) else durable.owner


def named(principal: Principal) -> str:
    """Say who somebody is."""
    return f"user {principal.name!r}" if principal.name else "who is not logged in"

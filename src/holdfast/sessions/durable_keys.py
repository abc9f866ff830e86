"""
By what a client's words mean a durable subscription: its own, or one that is nobody's yet.

What was made before there were users is nobody's. It becomes his who first subscribes to it and may
read its topic, so whoever makes himself known from now on loses nothing that waits for him.

Invariants:
    Nobody takes up, or ends, what the log says is another's, or an earlier holder's of his name.
    What is nobody's is found by the client-id with which it was made, whatever that looks like.
"""

from __future__ import annotations

from holdfast.broker.lasting.topics import SubscriptionKey
from holdfast.model.destination import Destination, Kind
from holdfast.model.owners import NOBODY, Owner, owner_mark
from holdfast.sessions.client_session import ClientSession
from holdfast.sessions.ownership import require_own
from holdfast.sessions.permissions import require_granted, who_is
from holdfast.sessions.target import Action


def owner_for(session: ClientSession) -> Owner:
    """Give whose a durable subscription is to be that a client makes, or takes up, now."""
    book = session.holdings.broker.access_book
    name = who_is(session).name
    return book.owner(name) if name and book.is_guarded else NOBODY


def known_as(session: ClientSession, said: SubscriptionKey) -> SubscriptionKey:
    """
    Give by what the durable subscription is known that a client means by this client-id and name.

    Raises:
        ForbiddenError: It is another's, or may be, or the client may not read its topic.
    """
    broker, who = session.holdings.broker, who_is(session)
    own = owner_mark(who.name) + said[0], said[1]
    if not broker.access_book.is_guarded:
        return own
    for key in dict.fromkeys((own, said)):
        known = broker.durables.find(key)
        if known is None or (key != own and known.belongs_to.name not in {"", who.name}):
            continue  # Of somebody else's that has this client-id nothing is meant.
        require_own(known.belongs_to, *key, who, broker.access_book)
        if not known.belongs_to.name:
            # Whoever takes it up gets what it has kept, or ends it for another topic.
            written = Destination(Kind.TOPIC, known.topic.name)
            require_granted(session, broker, (written,), Action.CONSUME)
        return key
    return own

"""
By what a producer is known here that a client means by an id: its user's own, and nobody else's.

Worked out once for a connection, and again when users come or go. While nobody has a name here, or
not all nodes know of rooms, ids are known as they are said.

Called by its session.
"""

from __future__ import annotations

from holdfast.broker.owning import says_owners
from holdfast.model.owners import NOBODY
from holdfast.model.producer_ids import room_of
from holdfast.sessions.client_session import ClientSession
from holdfast.sessions.permissions import who_is


def known_producer(session: ClientSession, said: str) -> str:
    """Give by what the producer is known that a client calls so, or its producers' name."""
    broker = session.holdings.broker
    seen = broker.state.access.change_count, broker.state.format_level
    if session.room_seen != seen:
        session.room_seen, session.room = seen, _room(session)
    return session.room + said


def _room(session: ClientSession) -> str:
    broker, who = session.holdings.broker, who_is(session)
    book = broker.access_book
    # Not `is_guarded`: where it is not sure whether there is somebody nobody is known to be.
    if not says_owners(broker.state) or not (who.name or book.has_users or book.has_authorities):
        return ""
    return room_of(book.owner(who.name) if who.name else NOBODY)

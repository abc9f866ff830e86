"""
By what a producer is known here that a client means by an id: its user's own, and nobody else's.

Worked out once for a connection, and again when users come or go. While nobody has a name here, or
not all nodes know of rooms, ids are known as they are said. But once the log knows of a producer in
a room nobody in particular stays in his: else one of these that goes on without its user, as after
the last one is removed, would meet numbers that another was confirmed who had called himself so.

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
    state = broker.state
    seen = state.access.change_count, state.format_level, bool(state.producers.roomed_count)
    if session.room_seen != seen:
        before, session.room_seen, session.room = session.room, seen, _room(session)
        if session.room != before:
            session.templates.forget()  # They have by what its producers were known.
    return session.room + said


def _room(session: ClientSession) -> str:
    broker, who = session.holdings.broker, who_is(session)
    book = broker.access_book
    if not says_owners(broker.state):
        return ""
    # Not `is_guarded`: where it is not sure whether there is somebody nobody is known to be.
    has_names = book.has_users or book.has_authorities or broker.state.producers.roomed_count
    if not (who.name or has_names):
        return ""
    return room_of(book.owner(who.name) if who.name else NOBODY)

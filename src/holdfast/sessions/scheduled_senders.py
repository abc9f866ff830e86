"""
Whether a scheduled message may still be sent as its time comes: judged by who has sent it.

That it was allowed once, when it was sent, says nothing of a day years later. What is asked is the
log: users and grants as they are when the message is due, so every leader judges alike, and what
comes of it is in the log as well. What nobody is said to have sent, as before there were users, and
what people sent for whom a directory or an issuer vouches, is not judged: of them the log knows no
roles, and nothing was taken away from them there.

Invariants:
    Whoever is given a name again may send nothing that was scheduled by the one before.
"""

from __future__ import annotations

from typing import NamedTuple

from holdfast.broker.broker import Broker
from holdfast.errors import ForbiddenError
from holdfast.model.records import MessageRecord
from holdfast.protocols.stomp.mapping import USER, VOUCHED_BY, lookup
from holdfast.security.grants import Right
from holdfast.security.verdicts import require
from holdfast.sessions.scheduled_messages import Kept


class NotAnyMore(NamedTuple):
    """Whose message may not be sent any more, and why."""

    name: str
    reason: str


def refused_now(broker: Broker, kept: Kept, message: MessageRecord) -> NotAnyMore | None:
    """Say who may not send his message any more where it goes, and why; None: it may be sent."""
    book = broker.access_book
    assert message.headers is not None, "it was read with its content"
    name = lookup(message.headers, USER)
    if not (name and book.is_guarded) or lookup(message.headers, VOUCHED_BY) is not None:
        return None
    principal = book.principal(name)
    if principal is None:
        return NotAnyMore(name, f"there is no user {name!r} any more")
    if (message.queue_number, message.sequence) < book.schedules_from(name):
        return NotAnyMore(name, f"it was sent by an earlier user {name!r}")
    try:
        require(principal, book.access(principal), Right.WRITE, kept.destinations)
    except ForbiddenError as error:
        return NotAnyMore(name, str(error))
    return None

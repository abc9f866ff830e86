"""
By what a client can be known again, and that a client-id is one connection's at a time.

Our own client shows a secret of its own, the same on each of its connections, which nobody can
guess. Any other client has its client-id, if it has one: as in ActiveMQ that is a name and no
proof, and a second connection under it is refused while the first one lives.

A client of ours that connects again has given its old connection up, and says again what was not
answered there. So it is ended at once, and the new one is served when all that the old one held is
given back: else the client's own late words would be about messages that somebody else has.

Invariants:
    Of the connections of a node that live, no two have the same client-id, or show the same secret.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from holdfast.errors import RemoteProtocolError
from holdfast.model.limits import CLIENT_NAME_BYTES_MAX
from holdfast.sessions.context import SessionContext
from holdfast.sessions.session import Session

CLIENT_ID_IN_USE: Final = "client-id-in-use"
"""The code of the ERROR for whom is refused, or has to go for himself."""


class Introduction(NamedTuple):
    """What a client has said of itself."""

    known_by: str
    """By what it is known again; empty: by nothing."""
    lost: Session | None
    """Its old connection, which is ended: what that held is to be given back first."""


def introduce(
    session: Session, context: SessionContext, *, client_id: str, shown: str
) -> Introduction:
    """
    Take the client-id of a client, and the secret that it shows; either may be empty.

    Raises:
        RemoteProtocolError: The client-id is another connection's, or too long.
    """
    for name in (shown, client_id):
        if len(name.encode()) > CLIENT_NAME_BYTES_MAX:
            raise RemoteProtocolError(
                f"a client-id of {len(name.encode()):,} bytes; at most {CLIENT_NAME_BYTES_MAX:,}",
                code="bad-header",
            )
    known_by = f"shown {shown}" if shown else f"client-id {client_id}" if client_id else ""
    if client_id:
        _take(session, context, client_id, known_by)
    return Introduction(known_by, _succeed(session, context, shown) if shown else None)


def _succeed(session: Session, context: SessionContext, shown: str) -> Session | None:
    """End the old connection of a client of ours, which is lost, whoever knows of it already."""
    shown_by = context.shown_by
    other = shown_by.get(shown)
    shown_by[shown] = session
    session.shown = shown
    if other is not None and not other.is_closing:
        other.farewell("this client has connected again", CLIENT_ID_IN_USE)
    return other


def _take(session: Session, context: SessionContext, client_id: str, known_by: str) -> None:
    client_ids = context.client_ids
    other = client_ids.get(client_id)
    if (
        other is not None
        and not other.is_closing
        and (other.client != known_by or not known_by.startswith("shown "))
    ):
        raise RemoteProtocolError(
            f"client-id {client_id[:80]!r} is in use by another connection, session {other.id};"
            f" one connection at a time may have it",
            code=CLIENT_ID_IN_USE,
        )
    client_ids[client_id] = session
    session.client_id = client_id


def let_go(session: Session, context: SessionContext) -> None:
    """Let another connection have the client-id of one that is gone, if it had one."""
    client_id, session.client_id = session.client_id, ""
    if client_id and context.client_ids.get(client_id) is session:
        del context.client_ids[client_id]


def forget_shown(session: Session, context: SessionContext) -> None:
    """Note that a connection has given back all it held."""
    if session.shown and context.shown_by.get(session.shown) is session:
        del context.shown_by[session.shown]

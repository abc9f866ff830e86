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

from typing import TYPE_CHECKING, Final

from holdfast.errors import RemoteProtocolError
from holdfast.model.limits import CLIENT_NAME_BYTES_MAX

if TYPE_CHECKING:
    from holdfast.sessions.stomp import StompSession

CLIENT_ID_IN_USE: Final = "client-id-in-use"
"""The code of the ERROR for whom is refused, or has to go for himself."""


def introduce(session: StompSession, headers: dict[str, str]) -> str:
    """
    Take the client-id of a CONNECT and give by what this client is known again, empty: by nothing.

    Raises:
        RemoteProtocolError: The client-id is another connection's, or too long.
    """
    shown = headers.get("holdfast-client", "")
    client_id = headers.get("client-id", "")
    for name in (shown, client_id):
        if len(name.encode()) > CLIENT_NAME_BYTES_MAX:
            raise RemoteProtocolError(
                f"a client-id of {len(name.encode()):,} bytes; at most {CLIENT_NAME_BYTES_MAX:,}",
                code="bad-header",
            )
    known_by = f"shown {shown}" if shown else f"client-id {client_id}" if client_id else ""
    if client_id:
        _take(session, client_id, known_by)
    if shown:
        _succeed(session, shown)
    return known_by


def _succeed(session: StompSession, shown: str) -> None:
    """End the old connection of a client of ours, which is lost, whoever knows of it already."""
    shown_by = session.context.shown_by
    other = shown_by.get(shown)
    shown_by[shown] = session
    session.shown = shown
    if other is not None:
        if not other.is_closing:
            other.farewell("this client has connected again", CLIENT_ID_IN_USE)
        session.wait_for(other.leaving(), other.held_count)


def _take(session: StompSession, client_id: str, known_by: str) -> None:
    client_ids = session.context.client_ids
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


def let_go(session: StompSession) -> None:
    """Let another connection have the client-id of one that is gone, if it had one."""
    client_id, session.client_id = session.client_id, ""
    if client_id and session.context.client_ids.get(client_id) is session:
        del session.context.client_ids[client_id]


def forget_shown(session: StompSession) -> None:
    """Note that a connection has given back all it held."""
    if session.shown and session.context.shown_by.get(session.shown) is session:
        del session.context.shown_by[session.shown]

"""
Clients that have said who they are and do nothing since: they may go when the port is full.

Without names and passwords nobody can tell a client that was forgotten from one that only fills the
port. So what counts is what it does: it consumes, has a transaction open, sends, or its heart-beats
say that somebody lives. A client of a pool that did none of it for a minute is told why it
goes, and connects again when it has something to do.
"""

from __future__ import annotations

from typing import Final

from holdfast.server.connection import ClientConnection
from holdfast.sessions.connection_shares import PORT_FULL, say_farewell
from holdfast.sessions.session import Session
from holdfast.transport.admission import Admission

IDLE_SECONDS: Final = 60.0
"""Silence after which a client that consumes nothing counts as idle."""


def client_admission(count_max: int) -> Admission[ClientConnection]:
    """Make the client port's, with nobody inside."""
    return Admission[ClientConnection](
        "client",
        count_max,
        lambda it: it.session.is_connected,
        is_idle=is_idle,
        source_of=source_of,
    )


def is_idle(connection: ClientConnection, now: float) -> bool:
    """Whether this client does nothing, and has sent nothing for so long."""
    session = connection.session
    if connection.is_ready or not session.is_idle:
        return False
    received_at = session.received_at
    return received_at is not None and now - received_at >= IDLE_SECONDS


def source_of(connection: ClientConnection) -> str:
    """The address it came from."""
    peer = connection.transport.get_extra_info("peername")
    return str(peer[0]) if isinstance(peer, tuple) and peer else ""


def is_session_idle(session: Session, now: float) -> bool:
    """The same of whose end this session is."""
    connection = session.connection
    return isinstance(connection, ClientConnection) and is_idle(connection, now)


def give_way(session: Session, why: str) -> None:
    """Close a client for another one behind this turn; at once if it does not take its answers."""
    say_farewell(session, why)
    connection = session.connection
    if isinstance(connection, ClientConnection) and connection.transport.get_write_buffer_size():
        connection.transport.abort()


def turn_away(connection: ClientConnection) -> None:
    """Close a client for another one; who is connected is told why, if that can be sent now."""
    if connection.session.is_connected:
        connection.session.farewell(
            f"the client port is full, and this connection did nothing for {IDLE_SECONDS:.0f} s;"
            f" connect again when there is something to do, or use heart-beats",
            PORT_FULL,
        )
        connection.flush()
        if not connection.transport.get_write_buffer_size():
            return
    connection.transport.abort()

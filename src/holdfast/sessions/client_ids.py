"""
By what a client can be known again, and that a client-id is one connection's at a time.

Our own client shows a secret of its own, the same on each of its connections, which nobody can
guess. Any other client has its client-id, if it has one: as in ActiveMQ that is a name and no
proof, and a second connection under it is refused while the first one lives; or, where links may be
stolen, takes it over.

A client of ours that connects again has given its old connection up, and says again what was not
answered there. So it is ended at once. Any other client's is read to its end if it is lost: what it
sent last may be confirmed to nobody, and is wanted all the same. The new one is served when all
that the old ones held is given back: else the client's own late words would be about messages that
somebody else has.

Invariants:
    Of the connections of a node that live, no two have the same client-id, or show the same secret.
    What is a user's is had by nobody else, also when he is not there.
"""

from __future__ import annotations

import hmac
import re
from hashlib import blake2b
from typing import Final, NamedTuple

from holdfast.broker.serving.access_book import AccessBook
from holdfast.errors import RemoteProtocolError
from holdfast.model.limits import CLIENT_NAME_BYTES_MAX
from holdfast.model.owners import owner_mark
from holdfast.security.principal import Principal
from holdfast.sessions.context import SessionContext
from holdfast.sessions.session import Session

_PLAIN: Final = re.compile(r"[^A-Za-z0-9_-]|-(?=[0-9]+-[0-9]+\Z)").sub
"""Finds what is not left as it is in the names of a client's temporary destinations."""

_ADDRESS_BYTES_MAX: Final = 255
_ADDRESS_LABEL: Final = b"holdfast temporary addresses 1 "

CLIENT_ID_IN_USE: Final = "client-id-in-use"
"""The code of the ERROR for whom is refused, or has to go for himself."""


def own_of(client_id: str, who: Principal, book: AccessBook) -> str:
    """
    Give by what a client-id, or the secret that a client shows, is known here.

    Each user has his own: two users with the same are in each other's way no more than with
    different ones. So nobody takes over what is another's, whoever is there first. One with a mark
    in it, of who is nobody in particular, begins with one: no user has an empty name.
    """
    if not client_id:
        return ""
    is_nobodys = not who.name and book.is_guarded and ":" in client_id
    return f":{client_id}" if is_nobodys else owner_mark(who.name) + client_id


class Introduction(NamedTuple):
    """What a client has said of itself."""

    known_by: str
    """By what it is known again; empty: by nothing."""
    lost: tuple[Session, ...] = ()
    """
    Its old connections, oldest first: they are done with what they sent, or ended, and what they
    held is given back, before anything is done for the new one.
    """


def introduce(
    session: Session,
    context: SessionContext,
    *,
    client_id: str,
    shown: str,
    steals: bool = False,
    address_key: bytes = b"",
    life: int = 0,
) -> Introduction:
    """
    Take the client-id of a client, and the secret that it shows; either may be empty.

    Args:
        session: The new connection.
        context: What all of them share.
        client_id: The name that it gives.
        shown: The secret.
        steals: Whether it gets the name from a connection that has it.
        address_key: What hides its temporary destinations; empty: anybody may find them.
        life: Which of those who had the name of its user he is: another one has other addresses.

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
    lost: dict[Session, None] = {}
    if client_id:
        lost |= dict.fromkeys(_take(session, context, client_id, known_by, steals=steals))
    if address_key:
        session.address = hidden_address(known_by, session.id, address_key, life)
    elif known_by:
        session.address = address_of(client_id, shown)
    if shown:
        lost |= dict.fromkeys(_succeed(session, context, shown))
    if session.is_gone:  # Before this was read: it may be back before all is.
        let_go(session, context)
    return Introduction(known_by, tuple(lost))


def address_of(client_id: str, shown: str) -> str:
    """
    Give what the names of a client's temporary destinations begin with, under every leader.

    A client-id as it is, but for what would end it there, or make it look like a connection's. Who
    only shows a secret, or has a long client-id, is named by a digest: nobody learns the secret.
    """
    plain = _PLAIN(lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()), client_id)
    if plain and len(plain) <= _ADDRESS_BYTES_MAX:
        return plain
    return "~" + blake2b((client_id or shown).encode(), digest_size=16).hexdigest()


def address_key(secret: bytes, cluster_id: str) -> bytes:
    """
    Give what hides the temporary destinations of a log's clients.

    Args:
        secret: What only the nodes know. The identity alone would hide nothing: it is shown.
        cluster_id: The identity of the log.
    """
    assert secret, "what everybody can work out hides nothing"
    return hmac.digest(secret, _ADDRESS_LABEL + cluster_id.encode(), "sha256")


def hidden_address(known_by: str, session_id: str, key: bytes, life: int = 0) -> str:
    """
    Give the same where nobody may guess it: only who was told of it can send an answer there.

    Client-ids and numbers of sessions are no secrets. Of who can be known again it is the same
    under every leader that has the key; of who cannot it ends in what no client-id's has. Of who
    has a user's name again it is another one: what is sent there was asked for by somebody else.
    """
    text = known_by or f"session {session_id}"
    text = f"life {life} {text}" if life else text
    digest = blake2b(text.encode(), key=key, digest_size=16).hexdigest()
    return f"~{digest}" if known_by else f"~{digest}~"


def _succeed(session: Session, context: SessionContext, shown: str) -> list[Session]:
    """End the old connection of a client of ours, which is lost, whoever knows of it already."""
    shown_by = context.shown_by
    other = shown_by.get(shown)
    shown_by[shown] = session
    session.shown = shown
    if other is not None:
        _await(other, context.leaving_shown, shown)
        if not other.is_closing:
            other.farewell("this client has connected again", CLIENT_ID_IN_USE)
    return list(context.leaving_shown.get(shown, ()))


def _take(
    session: Session, context: SessionContext, client_id: str, known_by: str, *, steals: bool
) -> list[Session]:
    """Let a connection have a client-id; gives those that have lost it, and hold something yet."""
    client_ids = context.client_ids
    other = client_ids.get(client_id)
    is_taken = (
        other is not None
        and not other.is_closing
        and (other.client != known_by or not known_by.startswith("shown "))
    )
    if is_taken and not steals:
        assert other is not None, "it has it"
        raise RemoteProtocolError(
            f"client-id {client_id[:80]!r} is in use by another connection, session {other.id};"
            f" one connection at a time may have it",
            code=CLIENT_ID_IN_USE,
        )
    if other is not None:
        _await(other, context.leaving_by, client_id)
    client_ids[client_id] = session
    session.client_id = session.sent_as = client_id
    if is_taken and other is not None:
        other.farewell(
            f"client-id {client_id[:80]!r} was taken by another connection, session {session.id}",
            CLIENT_ID_IN_USE,
        )
    return list(context.leaving_by.get(client_id, ()))


def _await(session: Session, leaving: dict[str, dict[Session, None]], known_by: str) -> None:
    """Let who is known by this next wait until this connection has left."""
    leaving.setdefault(known_by, {})[session] = None


def _left(session: Session, leaving: dict[str, dict[Session, None]], known_by: str) -> None:
    sessions = leaving.get(known_by)
    if sessions is not None:
        sessions.pop(session, None)
        if not sessions:
            del leaving[known_by]


def let_go(session: Session, context: SessionContext) -> None:
    """Let another connection have the client-id of one that is gone, if it had one."""
    client_id, session.client_id = session.client_id, ""
    if client_id and context.client_ids.get(client_id) is session:
        del context.client_ids[client_id]
        _await(session, context.leaving_by, client_id)


def forget_left(session: Session, context: SessionContext) -> None:
    """Note that a connection has given back all it held."""
    if session.shown and context.shown_by.get(session.shown) is session:
        del context.shown_by[session.shown]
    _left(session, context.leaving_by, session.sent_as)
    _left(session, context.leaving_shown, session.shown)

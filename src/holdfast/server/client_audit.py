"""
What the audit file has of clients: who came in or was not let in, and who was refused what.

It hangs on the two places that every client passes, whatever its protocol: where it is found out
who it is, and where refusals are told. A node without such a file has none of this.

Owned by the loop.
"""

from __future__ import annotations

from typing import Final

from holdfast.errors import ForbiddenError
from holdfast.security.checking import Shown
from holdfast.security.principal import Principal
from holdfast.server.audit_trail import AuditTrail
from holdfast.server.logins import address_of
from holdfast.server.parts import Parts
from holdfast.sessions.credentials import Answer
from holdfast.sessions.session import Session

_CLIENTS: Final = "clients"


class ClientAudit:
    """Notes what becomes of clients."""

    __slots__ = ("_trail",)

    def __init__(self, trail: AuditTrail) -> None:
        """Note in `trail`."""
        self._trail = trail

    def found_out(self, shown: Shown, answer: Answer) -> None:
        """Take who somebody is, or why he is not let in."""
        if isinstance(answer, Principal):
            self._trail.login(answer.name, _CLIENTS, shown.address)
        else:
            name = shown.name or shown.certified
            self._trail.login(name, _CLIENTS, shown.address, str(answer))

    def refused(self, session: Session, code: str, reason: str) -> None:
        """Take what a client was refused; what nobody may has nothing to do with who he is."""
        if code != ForbiddenError.code:
            return
        connection, principal = session.connection, session.principal
        address = address_of(connection) if connection is not None else ""
        name = principal.name if principal is not None else ""
        self._trail.denied(name, _CLIENTS, address, reason)


def audit_clients(parts: Parts, trail: AuditTrail) -> None:
    """Let what becomes of a node's clients be noted from now on."""
    audit = ClientAudit(trail)
    parts.context.refusals.hear = audit.refused
    parts.access.logins.notice = audit.found_out

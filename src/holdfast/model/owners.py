"""
Whose something is that outlives the connection which made it, and how client-ids of users look.

The log says whose a durable subscription is beside its client-id: how that is spelled proves
nothing, as clients gave themselves any client-id before there were users. A name that was given
again is another owner: which of those who had it tells his life, the revision with which the user
was made.

Pure values.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

OWNER: Final = struct.Struct("<QH")
"""How an owner is written: which life of the name, and its length in bytes; the name follows."""

_MARK: Final = ":"
"""Ends the name of whose a client-id is, in which it stands in other letters."""


class Owner(NamedTuple):
    """Whose something is."""

    name: str
    """The user's; empty: nobody's."""
    life: int = 0
    """Which of those who had the name; 0: of somebody whom the log does not know, or who was made
    before the log said so."""


NOBODY: Final = Owner("")
"""Whose is what was made before there were users, or before the log said whose it is."""


def owner_bytes(owner: Owner) -> bytes:
    """Give an owner as records and checkpoints have it; nothing of nobody."""
    if not owner.name:
        return b""
    name = owner.name.encode()
    return OWNER.pack(owner.life, len(name)) + name


def owner_mark(name: str) -> str:
    """Give what the client-ids of a user begin with here; nothing without a name."""
    if not name:
        return ""
    return name.replace("%", "%25").replace(_MARK, "%3A") + _MARK


def mark_of(client_id: str) -> str:
    """Give what a client-id begins with, if that may be the mark of a user; else nothing."""
    name, mark, _ = client_id.partition(_MARK)
    return name + mark if name and mark else ""


def sent_id(owner: Owner, client_id: str) -> str:
    """Give by which client-id the owner of a durable subscription of this one is known here."""
    mark = owner_mark(owner.name)
    return client_id if client_id.startswith(mark) else mark + client_id

"""
By what a producer is known in the log: in the room of its user, by the id that its client says.

Ids of producers are no secrets, and many programs call theirs `producer-1`. In one room for all of
them a user who sends under another's id takes the numbers that the other comes to next, and what
the other sends under these is confirmed as a repetition and stored nowhere. So each user has a room
of his own, and another one in each life of his name; who is nobody in particular, where others are
somebody, has one as well. Where nobody is, ids are known as they are said.

Rooms begin with a word that no client may begin an id with, so what was numbered before there were
users is in none, and nobody can spell himself into another's.

Pure values.
"""

from __future__ import annotations

from typing import Final

from holdfast.model.limits import FLOOR_ID
from holdfast.model.owners import NOBODY, Owner, owner_mark

ROOM_ID: Final = "holdfast-user:"
"""With which ids in a room begin, and none that a client says; behind it stand the name of its
user in other letters, a colon, which life of the name that is, a colon, and what the client says:
`holdfast-user:anna:7:shop-1`."""

ROOM_PATTERN: Final = f"^{ROOM_ID}[^:]*:[0-9]+:"
"""The room that an id begins with, as a regular expression."""

RESERVED: Final = FLOOR_ID, ROOM_ID
"""With which no id begins that a client says."""

_END: Final = ":"


def room_of(owner: Owner) -> str:
    """Give what the ids of a user's producers begin with in the log."""
    mark = _END if owner.name == NOBODY.name else owner_mark(owner.name)
    return f"{ROOM_ID}{mark}{owner.life}{_END}"


def room_length(producer_id: str) -> int:
    """Give where what the client says begins in the id of a producer, in characters."""
    if not producer_id.startswith(ROOM_ID):
        return 0
    name_end = producer_id.find(_END, len(ROOM_ID))
    return producer_id.find(_END, name_end + 1) + 1


def said_id(producer_id: str) -> str:
    """Give what the client says that is known by this: by that it was before there were rooms."""
    return producer_id[room_length(producer_id) :]


def room_in(producer_id: str) -> str:
    """Give the room in which a producer is known, or the floor under some of it; empty: in none."""
    known_by = producer_id.removeprefix(FLOOR_ID)
    return known_by[: room_length(known_by)]

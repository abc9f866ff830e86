"""
The set of members as it stands in the column `members` of a lease row: JSON, short.

Beside the set it has where each member stood when it was last seen, so that a sentence can name
what is missing; nothing is decided by that. The text is empty where there is no set.
"""

from __future__ import annotations

import json

from holdfast.errors import MirrorError
from holdfast.mirrors.mirror_set import set_fields, set_of
from holdfast.raidb.member import KnownSet


def encode(written: KnownSet) -> str:
    """Give the text of a set."""
    known = written.known
    return json.dumps(
        {
            **set_fields(known),
            "places": dict(written.places),
        },
        separators=(",", ":"),
    )


def decode(text: str, place: str) -> KnownSet | None:
    """
    Give the set that a text is, None if there is none.

    Raises:
        MirrorError: It makes no sense.
    """
    if not text:
        return None
    try:
        said = json.loads(text)
        known = set_of(said)
        return KnownSet(known, tuple(sorted(said["places"].items())))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise MirrorError(
            f"the column members of holdfast_lease in {place} cannot be read: it was changed by"
            f" hand; bring back a copy of the database, or leave it out until it is filled again"
        ) from None

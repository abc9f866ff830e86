"""
The set of members as it stands in the column `members` of a lease row: JSON, short.

Beside the set it has where each member stood when it was last seen, so that a sentence can name
what is missing; nothing is decided by that. The text is empty where there is no set.
"""

from __future__ import annotations

import json

from holdfast.errors import MirrorError
from holdfast.mirrors.mirror_set import Acceptance, MirrorSet, Number
from holdfast.raidb.member import KnownSet


def encode(written: KnownSet) -> str:
    """Give the text of a set."""
    known = written.known
    return json.dumps(
        {
            "set": known.set_id,
            "states": dict(known.states),
            "number": known.number,
            "before": [sorted(group) for group in known.before],
            "promised": known.promised,
            "accepted": [[it.mark, it.after] for it in known.accepted],
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
        known = MirrorSet(
            said["set"],
            tuple(sorted(said["states"].items())),
            Number(*said["number"]),
            tuple(frozenset(group) for group in said["before"]),
            said["promised"],
            tuple(Acceptance(mark, Number(*after)) for mark, after in said["accepted"]),
        )
        return KnownSet(known, tuple(sorted(said["places"].items())))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise MirrorError(
            f"the column members of holdfast_lease in {place} cannot be read: it was changed by"
            f" hand; bring back a copy of the database, or leave it out until it is filled again"
        ) from None

"""
The verdict on a wish: what somebody wants to do with what he wrote, and which grants decide it.

What a client writes may be several destinations, each of which is judged by itself: whoever may
send to one of them may not for that send to the others. A wildcard is judged as a whole. The
temporary destinations of a connection are its own, and whoever was told of one may answer there.

Pure values.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from holdfast.errors import ForbiddenError, PolicyError
from holdfast.model.destination import Destination, Kind
from holdfast.model.wildcards import parse_pattern
from holdfast.security.grants import Access, Grant, Right
from holdfast.security.principal import Principal

_SHOWN_MAX: Final = 200


class Verdict(NamedTuple):
    """What comes of a wish for one destination, or one wildcard."""

    right: Right
    destination: Destination
    is_allowed: bool
    grants: tuple[Grant, ...] = ()
    """Which allow it; several may do so for a wildcard, none is asked for what is temporary."""


def judge(access: Access, right: Right, written: Destination) -> Verdict:
    """Say whether somebody who may so much may do this."""
    kind, name = written.kind, written.name
    if kind not in (Kind.QUEUE, Kind.TOPIC):
        return Verdict(right, written, right is not Right.ADMIN)
    if not written.is_wildcard:
        grant = access.deciding(right, kind, name)
        return Verdict(right, written, grant is not None, () if grant is None else (grant,))
    try:
        wanted = parse_pattern(f"{kind.value}://{name}")
    except PolicyError:
        return Verdict(right, written, False)  # It means nothing that could be granted.
    grants = access.covering(right, wanted)
    return Verdict(right, written, bool(grants), grants)


def require(
    principal: Principal, access: Access, right: Right, written: Iterable[Destination]
) -> None:
    """
    Refuse what somebody may not do with one of these.

    Raises:
        ForbiddenError: He may not.
    """
    for each in written:
        if not judge(access, right, each).is_allowed:
            raise ForbiddenError(_refusal(principal, right, str(each)) + hint(principal, access))


def hint(principal: Principal, access: Access) -> str:
    """Say what to do where somebody may do nothing anywhere: nobody has thought of it yet."""
    if not access.is_empty or not (principal.name or principal.roles):
        return ""
    roles = ", ".join(sorted(principal.roles))
    if not roles:
        return "; they have no role yet ('holdfast users roles')"
    return f"; nothing at all was granted to {roles[:_SHOWN_MAX]} yet ('holdfast grant')"


def _refusal(principal: Principal, right: Right, written: str) -> str:
    """Say who may not do what with which destination, and nothing of what there is."""
    shown = written if len(written) <= _SHOWN_MAX else f"{written[:_SHOWN_MAX]}…"
    who = f"user {principal.name!r}" if principal.name else "who is not logged in"
    return f"{who} may not {right.value} {shown}: no role of theirs was granted that"

"""
Who may do what with which destinations: grants to roles, by pattern.

What a principal may is the union of what his roles were granted: there are no denials, so what one
grant allows no other takes away, and what none allows is refused. A wildcard is allowed if each
name that it can ever mean is, also those that no destination has yet: several grants may do that
together.

Invariants:
    The same grants and roles give the same verdict, and the same deciding grants, on every node,
    in whatever order they were granted.
    Nothing of a verdict depends on which destinations there are.

Pure values.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import Enum
from typing import Final, NamedTuple

from holdfast.errors import AccessError, PolicyError
from holdfast.model.destination import Kind
from holdfast.model.wildcards import Pattern, Shape, parse_pattern
from holdfast.security.names import require_name

_NEW: Final = "\n"
"""A part of a name that no pattern has: whoever means this one there means every one."""

KNOWN_COUNT_MAX: Final = 1_000
"""So many different sets of roles are kept worked out."""


class Right(Enum):
    """What somebody may do with a destination."""

    READ = "read"
    """Consume, browse, make and end durable subscriptions."""

    WRITE = "write"
    """Send."""

    ADMIN = "admin"
    """Create, delete, purge, and say policies of it."""


_BITS: Final = {Right.READ: 1, Right.WRITE: 2, Right.ADMIN: 4}


class Grant(NamedTuple):
    """What a role may do with the destinations that a pattern means."""

    role: str
    rights: frozenset[Right]
    pattern: Pattern

    def __str__(self) -> str:
        return f"{self.role} may {named(self.rights)} {self.pattern}"


def named(rights: Collection[Right]) -> str:
    """Write rights as they are read, always in the same order."""
    return ",".join(right.value for right in Right if right in rights)


def bits_of(rights: Collection[Right]) -> int:
    """Give what stands for these rights in the log."""
    return sum(_BITS[right] for right in rights)


def rights_of(bits: int) -> frozenset[Right]:
    """Give the rights that these stand for; what is not known here gives none."""
    return frozenset(right for right, bit in _BITS.items() if bits & bit)


def read_rights(text: str) -> frozenset[Right]:
    """
    Read rights as they are written: `read,write`.

    Raises:
        AccessError: There is none, or another word.
    """
    known = {right.value: right for right in Right}
    words = [word.strip() for word in text.split(",")]
    for word in words:
        if word not in known:
            raise AccessError(
                f"{word[:80]!r} is no right; there are {', '.join(known)}, with commas between"
            )
    return frozenset(known[word] for word in words)


def read_grant(role: str, rights: str, pattern: str) -> Grant:
    """
    Read a grant as it is written: `sales`, `read,write`, `queue://ORDERS.>`.

    Raises:
        AccessError: Its role, its rights or its pattern cannot be.
    """
    try:
        found = parse_pattern(pattern)
    except PolicyError as error:
        raise AccessError(str(error)) from None
    return Grant(require_name(role, "role"), read_rights(rights), found)


_ByKey = dict[tuple[str, ...], Grant]


class Access:
    """What one set of roles may, found without asking each grant."""

    __slots__ = ("_by_right",)

    def __init__(self, grants: Iterable[Grant]) -> None:
        """Take the grants to all of these roles."""
        by_right: dict[tuple[Right, Kind], dict[Shape, _ByKey]] = {}
        for grant in sorted(grants, key=_in_order):
            pattern = grant.pattern
            for right in grant.rights:
                by_shape = by_right.setdefault((right, pattern.kind), {})
                by_shape.setdefault(pattern.shape, {}).setdefault(pattern.key, grant)
        self._by_right = {
            of: dict(sorted(by_shape.items(), key=_exactness, reverse=True))
            for of, by_shape in by_right.items()
        }
        """What is more exact comes first."""

    @property
    def is_empty(self) -> bool:
        """Whether it allows nothing anywhere."""
        return not self._by_right

    def deciding(self, right: Right, kind: Kind, name: str) -> Grant | None:
        """Give the most exact grant that allows something with one destination; None: none does."""
        by_shape = self._by_right.get((right, kind))
        return None if by_shape is None else _first(by_shape, name.split("."))

    def covering(self, right: Right, wanted: Pattern) -> tuple[Grant, ...]:
        """
        Give the grants that together allow something with all that a pattern means.

        None if there is a name, maybe of no destination yet, which it means and they do not.
        """
        by_shape = self._by_right.get((right, wanted.kind))
        if by_shape is None:
            return ()
        found: dict[Grant, None] = {}
        for length in _lengths(wanted.shape, by_shape):
            # What means this one name, whose other parts no pattern has, means all of this length.
            grant = _first(by_shape, _newest_name(wanted, length))
            if grant is None:
                return ()
            found[grant] = None
        return tuple(found)


def _first(by_shape: dict[Shape, _ByKey], parts: list[str]) -> Grant | None:
    for shape, by_key in by_shape.items():
        key = shape.key_of(parts)
        if key is not None and (grant := by_key.get(key)) is not None:
            return grant
    return None


def _lengths(wanted: Shape, shapes: Iterable[Shape]) -> list[int]:
    """
    Give how many parts the names have that must be looked at, for all that are meant.

    Between two neighbouring ones, and beyond the last one, the same shapes mean every length.
    """
    shortest = max(1, wanted.length)
    if not wanted.is_open:
        return [shortest]
    turns = {length for shape in shapes for length in (shape.length, shape.length + 1)}
    return sorted({shortest} | {length for length in turns if length > shortest})


def _newest_name(wanted: Pattern, length: int) -> list[str]:
    parts = [_NEW] * length
    for place, part in zip(wanted.shape.own, wanted.key, strict=True):
        parts[place] = part
    return parts


def _in_order(grant: Grant) -> tuple[str, str, str]:
    return grant.role, str(grant.pattern), named(grant.rights)


def _exactness(of_shape: tuple[Shape, _ByKey]) -> tuple[int, tuple[int, ...]]:
    return of_shape[0].rank


class Grants:
    """All grants there are."""

    __slots__ = ("_by_role", "_known")

    def __init__(self, grants: Iterable[Grant] = (), before: Grants | None = None) -> None:
        """Take all; what was worked out `before` of roles that have the same is not once more."""
        by_role: dict[str, list[Grant]] = {}
        for grant in grants:
            by_role.setdefault(grant.role, []).append(grant)
        self._by_role = {role: tuple(sorted(of, key=_in_order)) for role, of in by_role.items()}
        self._known: dict[frozenset[str], Access] = {}
        """Worked out once for all principals with the same roles."""
        if before is not None:
            changed = self.changed_since(before)
            self._known = before.known_but(changed)

    def known_but(self, changed: frozenset[str]) -> dict[frozenset[str], Access]:
        """Give what is worked out of sets without these roles."""
        return {roles: it for roles, it in self._known.items() if not roles & changed}

    def changed_since(self, before: Grants) -> frozenset[str]:
        """Give the roles that had other grants then."""
        now, then = self._by_role, before._by_role
        return frozenset(it for it in now.keys() | then.keys() if now.get(it) != then.get(it))

    def of(self, roles: frozenset[str]) -> Access:
        """Give what a principal with these roles may; as long as that is the same, the same."""
        granted = frozenset(roles & self._by_role.keys())
        found = self._known.get(granted)
        if found is None:
            found = Access(grant for role in granted for grant in self._by_role[role])
            if len(self._known) >= KNOWN_COUNT_MAX:
                self._known.clear()
            self._known[granted] = found
        return found

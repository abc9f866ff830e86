"""
Who may do what with which destinations: grants to roles, by pattern.

What a principal may is the union of what his roles were granted: there are no denials, so what one
grant allows no other takes away, and what none allows is refused. A wildcard is allowed if each
name that it can ever mean is, also those that no destination has yet: several grants may do that
together.

Ten thousand grants are worked out once: each that comes or goes afterwards is put in its place or
taken from it, and the others are not looked at. They may all be one role's.

Invariants:
    The same grants and roles give the same verdict, and the same deciding grants, on every node,
    in whatever order they were granted, and whatever was granted and taken back before.
    Nothing of a verdict depends on which destinations there are.

Pure.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from enum import Enum
from operator import itemgetter
from typing import Final, NamedTuple

from holdfast.errors import AccessError, PolicyError
from holdfast.model.destination import Kind
from holdfast.model.wildcards import Pattern, Shape, parse_pattern
from holdfast.security.names import require_name

_NEW: Final = "\n"
"""A part of a name that no pattern has: whoever means this one there means every one."""


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


_Rank = tuple[int, tuple[int, ...]]
_ByKey = dict[tuple[str, ...], tuple[Grant, ...]]
_RANK: Final = itemgetter(0)


class _Granted:
    """What one role was granted by one right, of queues or of topics."""

    __slots__ = ("_by_shape", "ranked")

    def __init__(self) -> None:
        self._by_shape: dict[Shape, _ByKey] = {}
        """Of one shape and key is one grant, unless a log says the same pattern in two ways."""
        self.ranked: list[tuple[_Rank, Shape, _ByKey]] = []
        """What is more exact comes later."""

    def put(self, grant: Grant) -> None:
        """Take one more."""
        shape, key = grant.pattern.shape, grant.pattern.key
        by_key = self._by_shape.get(shape)
        if by_key is None:
            by_key = self._by_shape[shape] = {}
            insort(self.ranked, (shape.rank, shape, by_key), key=_RANK)
        by_key[key] = tuple(sorted((*by_key.get(key, ()), grant), key=_in_order))

    def take(self, grant: Grant) -> None:
        """Give up one that is here."""
        shape, key = grant.pattern.shape, grant.pattern.key
        by_key = self._by_shape[shape]
        left = tuple(it for it in by_key[key] if it is not grant)
        if left:
            by_key[key] = left
            return
        del by_key[key]
        if not by_key:
            del self._by_shape[shape]
            del self.ranked[bisect_left(self.ranked, shape.rank, key=_RANK)]

    def first(self, parts: list[str]) -> tuple[_Rank, Grant] | None:
        """Give the most exact grant of what has a name of these parts, and how exact it is."""
        for rank, shape, by_key in reversed(self.ranked):
            key = shape.key_of(parts)
            if key is not None and (grants := by_key.get(key)) is not None:
                return rank, grants[0]
        return None


_Role = dict[tuple[Right, Kind], _Granted]
"""What one role was granted; what was not is not there."""


class Access:
    """What one set of roles may, found without asking each grant; until a grant changes."""

    __slots__ = ("_roles",)

    def __init__(self, roles: Sequence[Mapping[tuple[Right, Kind], _Granted]]) -> None:
        """Take what each of these roles was granted, in the order of their names."""
        self._roles = roles

    @property
    def is_empty(self) -> bool:
        """Whether it allows nothing anywhere."""
        return not any(self._roles)

    def has(self, right: Right) -> bool:
        """Whether it allows this with anything at all."""
        return any(of[0] is right for role in self._roles for of in role)

    def deciding(self, right: Right, kind: Kind, name: str) -> Grant | None:
        """Give the most exact grant that allows something with one destination; None: none does."""
        return _first(self._granted(right, kind), name.split("."))

    def covering(self, right: Right, wanted: Pattern) -> tuple[Grant, ...]:
        """
        Give the grants that together allow something with all that a pattern means.

        None if there is a name, maybe of no destination yet, which it means and they do not.
        """
        granted = self._granted(right, wanted.kind)
        found: dict[Grant, None] = {}
        for length in _lengths(wanted.shape, granted):
            # What means this one name, whose other parts no pattern has, means all of this length.
            grant = _first(granted, _newest_name(wanted, length))
            if grant is None:
                return ()
            found[grant] = None
        return tuple(found)

    def _granted(self, right: Right, kind: Kind) -> list[_Granted]:
        of = right, kind
        return [found for role in self._roles if (found := role.get(of)) is not None]


def _first(granted: list[_Granted], parts: list[str]) -> Grant | None:
    """Give the most exact grant; of several that say the same, the one of the first role."""
    if len(granted) == 1:
        found = granted[0].first(parts)
        return None if found is None else found[1]
    all_found = [found for it in granted if (found := it.first(parts)) is not None]
    return max(all_found, key=_RANK)[1] if all_found else None


def _lengths(wanted: Shape, granted: list[_Granted]) -> list[int]:
    """
    Give how many parts the names have that must be looked at, for all that are meant.

    Between two neighbouring ones, and beyond the last one, the same shapes mean every length.
    """
    shortest = max(1, wanted.length)
    if not wanted.is_open:
        return [shortest]
    lengths = {shape.length for it in granted for _, shape, _ in it.ranked}
    turns = {length + more for length in lengths for more in (0, 1)}
    return sorted({shortest} | {length for length in turns if length > shortest})


def _newest_name(wanted: Pattern, length: int) -> list[str]:
    parts = [_NEW] * length
    for place, part in zip(wanted.shape.own, wanted.key, strict=True):
        parts[place] = part
    return parts


def _in_order(grant: Grant) -> str:
    return named(grant.rights)


class Grants:
    """All grants there are."""

    __slots__ = ("_by_key", "_by_role")

    def __init__(self, grants: Iterable[Grant] = ()) -> None:
        """Take these, each as one of its own."""
        self._by_key: dict[Hashable, Grant] = {}
        self._by_role: dict[str, _Role] = {}
        for place, grant in enumerate(grants):
            self.put(place, grant)

    def put(self, key: Hashable, grant: Grant | None) -> None:
        """Let this be what stands under a key from now on; None: nothing does."""
        known = self._by_key.pop(key, None)
        if known is not None:
            self._take(known)
        if grant is None or not grant.rights:
            return
        self._by_key[key] = grant
        role = self._by_role.setdefault(grant.role, {})
        for right in grant.rights:
            of = right, grant.pattern.kind
            granted = role.get(of)
            if granted is None:
                granted = role[of] = _Granted()
            granted.put(grant)

    def of(self, roles: frozenset[str]) -> Access:
        """Give what a principal with these roles may."""
        return Access([self._by_role[role] for role in sorted(roles & self._by_role.keys())])

    def are_any_of(self, roles: frozenset[str]) -> bool:
        """Whether anything was granted to one of these roles."""
        return not roles.isdisjoint(self._by_role)

    def _take(self, grant: Grant) -> None:
        role = self._by_role[grant.role]
        for right in grant.rights:
            of = right, grant.pattern.kind
            granted = role[of]
            granted.take(grant)
            if not granted.ranked:
                del role[of]
        if not role:
            del self._by_role[grant.role]

"""
Users, grants and verdicts as they are told to operators: values only.

The names of the fields are those of the answers over HTTP, on which programs rely: they stay.

Invariants:
    Nothing that credentials are compared with has a field here.
"""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.security.grants import Grant, Right


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenStatus:
    """A token of a user, without itself."""

    name: str
    expires_ms: int = 0
    """When it ends, since the epoch; 0: never."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserStatus:
    """A user."""

    name: str
    roles: tuple[str, ...] = ()
    has_password: bool = False
    has_scram: bool = False
    """Whether the password can be shown by SCRAM, too."""
    tokens: tuple[TokenStatus, ...] = ()
    revision: int = 0
    """Higher with each change of the user."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GrantStatus:
    """What a role may do with the destinations of a pattern."""

    role: str
    rights: tuple[str, ...]
    pattern: str


def grant_status(grant: Grant) -> GrantStatus:
    """Give a grant as it is told, its rights always in the same order."""
    rights = tuple(right.value for right in Right if right in grant.rights)
    return GrantStatus(role=grant.role, rights=rights, pattern=str(grant.pattern))


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """Whether a user may do something with a destination, and by which grants."""

    right: str
    is_allowed: bool
    grants: tuple[GrantStatus, ...] = ()
    """Several may allow all of a wildcard together."""

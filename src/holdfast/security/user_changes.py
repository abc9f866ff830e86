"""
What a change makes of what is so of a user: the values before it, and those after it.

Keys that are not known here stay as they are: another version, or another kind of credential, has
put them there.

Invariants:
    What is given is not changed: whoever holds a record's values holds them on.
    A token that has ended is not carried on by a change of tokens.

Pure values.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from holdfast.errors import AccessError
from holdfast.security.names import require_name
from holdfast.security.scram_keys import require_kept, with_before

ROLE_COUNT_MAX: Final = 100
TOKEN_COUNT_MAX: Final = 100
"""Of one user: a program has one, and a second one while they are changed."""

_KEPT: Final = re.compile(
    r"\$argon2id\$v=19\$m=19456,t=2,p=1\$[A-Za-z0-9+/]{22}\$[A-Za-z0-9+/]{43}"
)

Values = Mapping[str, Any]


def with_roles(values: Values, roles: Iterable[str]) -> dict[str, Any]:
    """
    Let a user have these roles and no others.

    Raises:
        AccessError: One cannot be, or there are too many.
    """
    named = sorted({require_name(role, "role") for role in roles})
    if len(named) > ROLE_COUNT_MAX:
        raise AccessError(f"a user has at most {ROLE_COUNT_MAX} roles, not {len(named):,}")
    return {**values, "roles": named}


def with_password(
    values: Values, kept: str, scram: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """
    Let a user have the password that this was kept of.

    Args:
        values: All that was so before.
        kept: As `hash_password` made it.
        scram: As `keep_keys` made it of the same password; None: it is not shown by SCRAM.

    Raises:
        AccessError: It was not made by these: another one might take minutes to look at.
    """
    if _KEPT.fullmatch(kept) is None:
        raise AccessError("what is to be kept of the password was not made by a node of this kind")
    changed = {key: value for key, value in values.items() if key != "scram"}
    changed["password"] = kept
    if scram is not None:
        changed["scram"] = with_before(require_kept(scram, kept), values)
    return changed


def with_token(
    values: Values, name: str, digest: str, *, expires_ms: int, now_ms: int
) -> dict[str, Any]:
    """
    Let a user have one more token.

    Args:
        name: What it is called; the token itself is not in here.
        digest: What is kept of it.
        expires_ms: When it ends, since the epoch; 0: never.
        now_ms: Now, since the epoch.

    Raises:
        AccessError: There is one of that name, or there are too many.
    """
    require_name(name, "token")
    left = [it for it in _tokens(values) if not _has_ended(it, now_ms)]
    if any(it.get("name") == name for it in left):
        raise AccessError(f"there is a token {name!r} already; end it, or give another name")
    if len(left) >= TOKEN_COUNT_MAX:
        raise AccessError(f"a user has at most {TOKEN_COUNT_MAX} tokens: end one first")
    token: dict[str, Any] = {"name": name, "sha256": digest}
    if expires_ms:
        token["expires_ms"] = expires_ms
    return {**values, "tokens": [*left, token]}


def without_token(values: Values, name: str) -> dict[str, Any]:
    """
    Let a user have a token no more.

    Raises:
        AccessError: There is none of that name.
    """
    tokens = _tokens(values)
    left = [it for it in tokens if it.get("name") != name]
    if len(left) == len(tokens):
        known = ", ".join(sorted(str(it.get("name")) for it in tokens)) or "none"
        raise AccessError(f"there is no token {name[:80]!r}; there are: {known}")
    return {**values, "tokens": left}


def _tokens(values: Values) -> list[dict[str, Any]]:
    found = values.get("tokens")
    return [it for it in found if isinstance(it, dict)] if isinstance(found, list) else []


def _has_ended(token: Mapping[str, Any], now_ms: int) -> bool:
    expires_ms = token.get("expires_ms", 0)
    return isinstance(expires_ms, int) and 0 < expires_ms <= now_ms

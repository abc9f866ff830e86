"""
What is so of a user, as a record of the log has it: roles, and what credentials are like.

An object in JSON: `roles`, a list of names; `password`, as `passwords` keeps it; `scram`, as
`scram_keys` does; `tokens`, a list of objects with `name`, `sha256` and, of one that ends,
`expires_ms`; `life`, the revision with which he was made: who has the name next is another;
`schedule`, number and sequence from which on what is scheduled in his name is his. Other keys are
for others.

Invariants:
    What cannot be read here is none: it lets nobody in, and gives nobody a role.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from hashlib import sha256
from typing import Any, NamedTuple

from holdfast.security.scram_keys import KeptKeys, read_kept


class Token(NamedTuple):
    """A token of a user, without itself."""

    name: str
    digest: str
    expires_ms: int
    """0: never."""


class UserValues(NamedTuple):
    """A user's roles and credentials."""

    roles: frozenset[str]
    password: str
    """Empty: there is none."""
    tokens: tuple[Token, ...]
    life: int = 0
    """Which of those who had the name; 0: he was made before that was said."""
    scram: KeptKeys | None = None
    """Of that password; None: it cannot be shown by SCRAM."""
    schedules_from: tuple[int, int] = (0, 0)
    """Number of the queue of what is scheduled, and the sequence from which on that is his."""

    def __repr__(self) -> str:
        """Without what anything is compared with: this stands in logs and traces."""
        return f"UserValues(roles={sorted(self.roles)})"


def read_values(text: str) -> UserValues:
    """Read what a record has; there is nothing where that makes no sense."""
    try:
        values = json.loads(text)
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        return UserValues(frozenset(), "", ())
    roles, password = values.get("roles"), values.get("password")
    life = values.get("life")
    return UserValues(
        frozenset(it for it in roles if isinstance(it, str))
        if isinstance(roles, list)
        else frozenset(),
        password if isinstance(password, str) else "",
        _tokens(values.get("tokens")),
        life if type(life) is int and 0 < life < 1 << 64 else 0,
        read_kept(values),
        _place(values.get("schedule")),
    )


def mark_of(kept: str, values: UserValues) -> str:
    """
    Give a mark of what a user was found by, and of which life of his name; nothing opens by it.

    Args:
        kept: What of his record that was; empty: his name, which his certificate has.
    """
    return sha256(f"{values.life}:{kept}".encode()).hexdigest()


def marks_of(values: UserValues) -> Iterator[str]:
    """Give the marks of all that a user can be found by now."""
    for kept in ("", values.password, *(token.digest for token in values.tokens)):
        yield mark_of(kept, values)


def _place(found: Any) -> tuple[int, int]:
    if isinstance(found, list) and [type(it) for it in found] == [int, int]:
        return found[0], found[1]
    return 0, 0


def _tokens(found: Any) -> tuple[Token, ...]:
    if not isinstance(found, list):
        return ()
    tokens = []
    for each in found:
        if isinstance(each, dict):
            token = Token(each.get("name", ""), each.get("sha256", ""), each.get("expires_ms", 0))
            kinds = (str, str, int)
            if all(isinstance(it, kind) for it, kind in zip(token, kinds, strict=True)):
                tokens.append(token)
    return tuple(tokens)

"""
Users and grants, as the log says them.

They are kept as they are and not looked into: what they mean for somebody is worked out where it is
asked, from the same values on every node.

Invariants:
    Each is replaced as a whole, and never changed: who remembers a record can tell whether it still
    counts.
    What the cleaner carries on, unchanged, is the same record as before: nobody is judged anew.
    Whoever works out what grants mean is told of each that changes, and need not go through all.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol, TypeAlias

from holdfast.model.access_records import AuditRecord, GrantRecord, UserRecord


class UserKey(NamedTuple):
    """Who."""

    name: str


class GrantKey(NamedTuple):
    """To whom something is granted, and of what."""

    role: str
    pattern: str


AccessKey: TypeAlias = UserKey | GrantKey
KeptRecord: TypeAlias = UserRecord | GrantRecord
GrantListener: TypeAlias = Callable[[GrantKey, GrantRecord | None], None]
"""Is told what a key has from now on; None: nothing."""


class LastingAccess:
    """All users and grants."""

    __slots__ = ("change_count", "changed", "grants", "homes", "listeners", "users")

    def __init__(self) -> None:
        self.users: dict[str, UserRecord] = {}
        self.grants: dict[GrantKey, GrantRecord] = {}
        self.homes: dict[AccessKey, int] = {}
        """The newest record that carries each whole."""
        self.change_count = 0
        """How often anything changed since this process began."""
        self.changed: set[AccessKey] | None = None
        """What has changed since somebody has looked who takes this away; None: nobody looks."""
        self.listeners: list[GrantListener] = []

    def apply(self, record: KeptRecord, number: int) -> None:
        """Take one record's word, whose number is this."""
        key = key_of(record)
        known = self.get(key)
        if known is not None and says_the_same(known, record):
            self.homes[key] = number
            return
        if is_kept(record):
            self.put(record, number)
        elif known is not None:
            del self.homes[key]
            if isinstance(key, UserKey):
                del self.users[key.name]
            else:
                del self.grants[key]
                self._tell(key, None)
        if self.changed is not None:
            self.changed.add(key)
        self.change_count += 1

    def put(self, record: KeptRecord, home: int) -> None:
        """Note a record as a checkpoint says it."""
        if isinstance(record, UserRecord):
            self.users[record.name] = record
        else:
            key = GrantKey(record.role, record.pattern)
            self.grants[key] = record
            self._tell(key, record)
        self.homes[key_of(record)] = home

    def get(self, key: AccessKey) -> KeptRecord | None:
        """Give what a key has."""
        return self.users.get(key.name) if isinstance(key, UserKey) else self.grants.get(key)

    def records(self) -> list[KeptRecord]:
        """Give all of them, in one order on every node."""
        users = [self.users[name] for name in sorted(self.users)]
        return [*users, *(self.grants[key] for key in sorted(self.grants))]

    def _tell(self, key: GrantKey, record: GrantRecord | None) -> None:
        for listener in self.listeners:
            listener(key, record)


def key_of(record: KeptRecord) -> AccessKey:
    """Give what a record's word stands under."""
    if isinstance(record, UserRecord):
        return UserKey(record.name)
    return GrantKey(record.role, record.pattern)


def is_kept(record: KeptRecord) -> bool:
    """Whether it says something, not that there is nothing any more."""
    return bool(record.values if isinstance(record, UserRecord) else record.rights)


def says_the_same(one: KeptRecord, other: KeptRecord) -> bool:
    """Whether two records of one key are alike."""
    if isinstance(one, UserRecord):
        assert isinstance(other, UserRecord), "they have one key"
        return one.values == other.values and one.revision == other.revision
    assert isinstance(other, GrantRecord), "they have one key"
    return one.rights == other.rights


class _State(Protocol):
    access: LastingAccess


def access_appliers(state: _State) -> dict[type, Callable[[Any, int], None]]:
    """Give what applies the records of users and grants; of who changed them nothing lasts."""
    apply = partial(_apply, state)
    return {UserRecord: apply, GrantRecord: apply, AuditRecord: lambda _record, _number: None}


def _apply(state: _State, record: KeptRecord, number: int) -> None:
    state.access.apply(record, number)

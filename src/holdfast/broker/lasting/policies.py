"""
Policies of destinations, as the log says them: what each pattern has, from a file and at run time.

What a file says belongs to its revision: a newer one replaces all of it, an older one changes
nothing, whichever node's file it stands in. What an operator says at run time stays until it is
taken back. What that means for one destination is worked out by the leader, see
`broker.serving.policies`.

Invariants:
    Of a pattern there is at most one record of the file and one of the run time.
    No record of a file is of another revision than `revision`.
    Each is replaced as a whole: no two states are ever mixed.
"""

from __future__ import annotations

from typing import NamedTuple

from holdfast.model.records import PolicyRecord


class PolicyKey(NamedTuple):
    """Whose word it is, and of what; a file's without a pattern tells only its revision."""

    is_of_file: bool
    pattern: str


class Policies:
    """All that is said of destinations by pattern."""

    __slots__ = ("by_key", "change_count", "homes", "revision", "size_bytes")

    def __init__(self) -> None:
        self.by_key: dict[PolicyKey, PolicyRecord] = {}
        self.homes: dict[PolicyKey, int] = {}
        """The newest record that carries each whole."""
        self.revision = 0
        """Of the file whose word counts; 0 if there was none."""
        self.size_bytes = 0
        """What they take in the log, about."""
        self.change_count = 0
        """How often anything changed since this process began: what was worked out is out of
        date."""

    def apply(self, record: PolicyRecord, number: int) -> None:
        """Take one record's word, whose number is this."""
        if record.revision:
            if record.revision < self.revision:
                return  # Of an older file: written before it was known, or carried on in vain.
            if record.revision > self.revision:
                self._begin_file(record.revision, number)
        key = key_of(record)
        self._drop(key)
        if record.values or not record.pattern:
            self.put(key, record, number)
        self.change_count += 1

    def put(self, key: PolicyKey, record: PolicyRecord, home: int) -> None:
        """Note what a key has, as a checkpoint says it."""
        self.by_key[key] = record
        self.homes[key] = home
        self.revision = max(self.revision, record.revision)
        self.size_bytes += len(record.pattern) + len(record.values)

    def _begin_file(self, revision: int, number: int) -> None:
        for key in [key for key in self.by_key if key.is_of_file]:
            self._drop(key)
        self.put(PolicyKey(True, ""), PolicyRecord("", "", revision), number)

    def _drop(self, key: PolicyKey) -> None:
        record = self.by_key.pop(key, None)
        if record is not None:
            del self.homes[key]
            self.size_bytes -= len(record.pattern) + len(record.values)


def key_of(record: PolicyRecord) -> PolicyKey:
    """Give what a record's word stands under."""
    return PolicyKey(record.revision > 0, record.pattern)

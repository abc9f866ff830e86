"""
Who did what in the committed log of a simulated world, read by somebody who trusts no broker.

Whoever changed a user or a grant stands right behind the change, in the same entry: so a crash, a
power cut or a new leader can leave neither without the other. What the cleaner writes again changes
nothing, and has nobody behind it.

Invariants (S15 of what is secured; a violation is raised with its name):
    No entry changes a user or a grant without saying behind it who did.
    Nobody is said to have changed what is not right before it.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

from holdfast.broker.lasting.access import AccessKey, KeptRecord, key_of, says_the_same
from holdfast.model.access_records import AuditRecord, GrantRecord, UserRecord
from holdfast.model.records import Record
from trials.simulation.history import ViolationError

NAME: Final = "S15 (audit)"


class Change(NamedTuple):
    """What somebody did by the log."""

    key: AccessKey
    record: KeptRecord


By: TypeAlias = dict[str, Change]


class Audits:
    """All changes of users and grants as far as the log is committed, and who made them."""

    def __init__(self) -> None:
        self.by_object: By = {}
        """By what the record of who did it says that it was done to."""
        self._values: dict[AccessKey, KeptRecord] = {}
        self._said: KeptRecord | None = None
        """What the record before this one says."""
        self._is_open = False
        """That changes something, and nobody is said to have done it yet."""

    def take(self, record: Record, index: int) -> None:
        """Take the next record of the entry of that index."""
        if isinstance(record, AuditRecord):
            if self._said is None:
                raise ViolationError(
                    NAME, f"entry {index} says {record.object} was done, it is not"
                )
            self.by_object[record.object] = Change(key_of(self._said), self._said)
            self._said, self._is_open = None, False
            return
        self.end_change(index)
        if isinstance(record, UserRecord | GrantRecord):
            key = key_of(record)
            known = self._values.get(key)
            self._values[key] = self._said = record
            self._is_open = known is None or not says_the_same(known, record)

    def end_change(self, index: int) -> None:
        """Nothing more comes of that entry that could say who did what stood last in it."""
        if self._is_open and self._said is not None:
            key = key_of(self._said)
            raise ViolationError(NAME, f"entry {index} changes {key} and does not say who did")
        self._said = None

"""
Who did what on a node, and who was refused what: into the log, and into a file of lines.

A change has its record in the log, in the same entry, so nothing is ever changed without that being
known, on every node and in every archive. The file has changes too, and what stands in no log:
logins and refusals, and what is changed without a record.

Invariants:
    No secret is handed to anything here.
    A record is written only where every member can read it.

Owned by the loop.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Protocol

from holdfast.admin.person import Person, acting
from holdfast.broker.broker import Broker
from holdfast.environment.clock import Clock
from holdfast.model.access_records import AuditRecord
from holdfast.server.audit_bounds import Kind

DONE: Final = "done"
_TEXT_LETTERS_MAX: Final = 1_000
"""Of each of its texts; a record's own may have 65,535 bytes."""

_ADMIN: Final = "admin"
_FIELDS: Final = ("who", "source", "address", "action", "object", "outcome")


class Notebook(Protocol):
    """Where lines are written; see `AuditFile`."""

    def note(self, fields: Mapping[str, str], kind: Kind) -> None:
        """Write one line, in its time."""
        ...


class AuditTrail:
    """What one node notes of who did what."""

    __slots__ = ("_broker", "_clock", "_file")

    def __init__(self, broker: Broker, clock: Clock, file: Notebook | None = None) -> None:
        """Note in the broker's log, and in a file if there is one."""
        self._broker = broker
        self._clock = clock
        self._file = file

    def record(self, action: str, object_: str) -> AuditRecord:
        """Give the record of what the person who asks just now does, to be written with it."""
        person = acting()
        return AuditRecord(
            self._clock.wall_microseconds() // 1000,
            _cut(person.who),
            _cut(f"{_ADMIN} {person.address}".strip()),
            action,
            _cut(object_),
            DONE,
        )

    def write(self, action: str, object_: str) -> None:
        """Put the record into the gathering batch, with the change that was put there just now."""
        if self._broker.access_changes.may_be_made:
            self._broker.receipts.add_records([self.record(action, object_)])

    def tell(self, action: str, object_: str, outcome: str = DONE) -> None:
        """Note in the file what came of what the person who asks just now wanted."""
        person = acting()
        self._note(Kind.CHANGE, person.who, _ADMIN, person.address, action, object_, outcome)

    def refused(self, person: Person, method: str, path: str, reason: str) -> None:
        """Note in the file that somebody was refused something on the admin port."""
        what = f"{method} {path}"
        self._note(Kind.REFUSAL, person.who, _ADMIN, person.address, what, "", reason)

    def login(self, who: str, source: str, address: str, outcome: str = DONE) -> None:
        """Note in the file that somebody came in by a port, or why he did not."""
        kind = Kind.LOGIN if outcome == DONE else Kind.REFUSAL
        self._note(kind, who, source, address, "login", "", outcome)

    def denied(self, who: str, source: str, address: str, reason: str) -> None:
        """Note in the file that somebody was refused something by a port."""
        self._note(Kind.REFUSAL, who, source, address, "refused", "", reason)

    def _note(self, kind: Kind, *texts: str) -> None:
        if self._file is not None:
            cut = zip(_FIELDS, map(_cut, texts), strict=True)
            self._file.note(dict(cut), kind)


def _cut(text: str) -> str:
    """Give a text that can be written: of bounded length, and without halves of characters."""
    shown = text.encode(errors="replace").decode()
    return shown if len(shown) <= _TEXT_LETTERS_MAX else f"{shown[:_TEXT_LETTERS_MAX]}…"

"""
A database as a model: one lease row, the entries, and the brokers' lines; each method a statement.

A statement is atomic, and judged when it takes effect: a compare-and-set of epoch and holder, and
in an append of the log's end. What must never be undone is also kept apart, for who judges a world
from outside.

Invariants:
    An entry that was stored is never written over and never stored twice.
    Each epoch has one holder.
"""

from __future__ import annotations

import copy
from itertools import islice
from typing import Any

from holdfast.errors import CorruptEntryError, MissingEntriesError, StoreError
from holdfast.journal.entry import Entry, parse_entry
from holdfast.leases.contract import Claimant, Holding, Outcome, Place, Waiter
from holdfast.leases.projection import KEYS_MAX, Changes, MessageKey

NOTHING = Place(0, bytes(16))
DROPPED_AT_ONCE = 3
"""So few entries are forgotten in one statement: a drop takes several."""


class ModelMedium:
    """What is stored, shared by all who are connected."""

    def __init__(self, identity: str = "5" * 32) -> None:
        self.identity = identity
        self.has_lease_row = True
        self.epoch = self.beat = 0
        self.claimant: Claimant | None = None
        self.is_released = False
        self.first_index = 1
        self.end = NOTHING
        self.rows: dict[int, bytes] = {}
        """In the order of their indexes."""
        self.waiters: dict[str, Waiter] = {}
        self.history: dict[int, bytes] = {}
        """The chain of every entry that was ever stored, also of those dropped since."""
        self.shown: list[tuple[int, Changes]] = []
        """What was written for people to see, and under which epoch."""
        self.takes: list[tuple[int, str]] = []
        """Epoch and holder of each take."""

    # The lease's row ------------------------------------------------------------------------------

    def read(self) -> Holding:
        """The lease as it is."""
        self._require_the_row()
        return Holding(
            epoch=self.epoch,
            beat=self.beat,
            claimant=self.claimant,
            is_released=self.is_released,
            first_index=self.first_index,
            end=self.end,
            sure=self.end,
        )

    def is_as(self, seen: Holding) -> bool:
        """Whether nothing was done since."""
        was = "" if seen.claimant is None else seen.claimant.holder
        now = "" if self.claimant is None else self.claimant.holder
        return (self.epoch, self.beat, now) == (seen.epoch, seen.beat, was)

    def take(self, seen: Holding, claimant: Claimant) -> Holding | None:
        """Begin the next epoch, unless epoch, beat or holder are others than were seen."""
        self._require_the_row()
        if not self.is_as(seen):
            return None
        self.epoch += 1
        self.beat += 1
        self.claimant, self.is_released = claimant, False
        self.takes.append((self.epoch, claimant.holder))
        return self.read()

    def renew(self, epoch: int, holder: str) -> Outcome:
        """Give a sign of life."""
        if not self.is_held_by(epoch, holder):
            return Outcome.DEPOSED
        self.beat += 1
        return Outcome.STORED

    def project(self, epoch: int, holder: str, end: Place, changes: Changes) -> Outcome:
        """Write what is shown to people, unless the log went on; which is a sign of life too."""
        outcome = self.renew(epoch, holder)
        if outcome is Outcome.STORED and end == self.end:
            self.shown.append((epoch, changes))
        return outcome

    def shown_keys(self, after: MessageKey) -> list[MessageKey]:
        """Of what was told of messages and not told to be gone, what is behind this one."""
        keys: set[MessageKey] = set()
        for _, changes in self.shown:
            for span in changes.settled:
                keys -= {
                    it
                    for it in keys
                    if it.queue_number == span.queue_number
                    and span.first <= it.sequence <= span.last
                }
            keys |= {MessageKey(it.queue_number, it.sequence) for it in changes.messages}
        return sorted(it for it in keys if it > after)[:KEYS_MAX]

    def release(self, epoch: int, holder: str) -> None:
        """Give the lease back, if it is still this holder's."""
        if self.is_held_by(epoch, holder):
            self.beat += 1
            self.is_released = True

    def is_held_by(self, epoch: int, holder: str) -> bool:
        """Whether this is who holds it."""
        self._require_the_row()
        own = self.claimant is not None and self.claimant.holder == holder
        return own and self.epoch == epoch and not self.is_released

    def _require_the_row(self) -> None:
        if not self.has_lease_row:
            raise StoreError("the lease row is gone from the model: bring it back from a backup")

    # The entries ----------------------------------------------------------------------------------

    def append(
        self, epoch: int, holder: str, entries: list[Entry], before: Place | None = None
    ) -> Outcome:
        """Store entries behind the last one, if the lease and the end are as they were."""
        if not self.is_held_by(epoch, holder):
            return Outcome.DEPOSED
        first, last = entries[0], entries[-1]
        if first.index != self.end.index + 1:
            if (last.index, last.chain) == (self.end.index, self.end.chain):
                self.found_again()
                return Outcome.STORED  # The reply had been lost.
            raise StoreError(f"the log ends with {self.end.index}, not before {first.index}")
        if before is not None and before != self.end:
            raise StoreError(f"the log ends with another entry {self.end.index} than it is to")
        self.keep(entries)
        return Outcome.STORED

    def found_again(self) -> None:
        """What is given again is there: the holder goes by this answer, so the beat has to."""
        self.beat += 1

    def keep(self, entries: list[Entry]) -> None:
        """Write the rows and the lease's."""
        for entry in entries:
            assert entry.index not in self.history, f"entry {entry.index} is stored twice"
            self.rows[entry.index] = entry.raw
            self.history[entry.index] = entry.chain
        self.end = Place(entries[-1].index, entries[-1].chain)
        self.beat += 1

    def entries(self, after: int, through: int, bytes_max: int) -> list[Entry]:
        """Read entries in order, one at least."""
        found: list[Entry] = []
        size = 0
        for index in range(after + 1, min(through, self.end.index) + 1):
            raw = self.rows.get(index)
            if raw is None:
                raise MissingEntriesError(index, index, "the model")
            if found and size + len(raw) > bytes_max:
                break
            size += len(raw)
            try:
                found.append(parse_entry(raw))
            except CorruptEntryError as error:
                raise CorruptEntryError(error.reason, segment="of the model", index=index) from None
        return found

    def drop_before(self, epoch: int, holder: str, index: int) -> bool:
        """Forget a few of the oldest entries."""
        if not self.is_held_by(epoch, holder):
            return False
        self.first_index = max(self.first_index, min(index, self.end.index + 1))
        gone = [it for it in islice(self.rows, DROPPED_AT_ONCE + 1) if it < self.first_index]
        for it in gone[:DROPPED_AT_ONCE]:
            del self.rows[it]
        return len(gone) > DROPPED_AT_ONCE

    # What happens to it ---------------------------------------------------------------------------

    def backup(self) -> dict[str, Any]:
        """A copy of all of it."""
        return {name: copy.copy(value) for name, value in vars(self).items()}

    def restore(self, backup: dict[str, Any]) -> None:
        """Go back to a copy, without a word; what happened since is only known outside."""
        for name, value in backup.items():
            if name != "takes":
                setattr(self, name, copy.copy(value))

    def damage(self, index: int) -> None:
        """Let a byte of an entry rot."""
        raw = self.rows[index]
        self.rows[index] = raw[:-9] + bytes([raw[-9] ^ 1]) + raw[-8:]

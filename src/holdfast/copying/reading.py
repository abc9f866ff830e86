"""
A log in a database or a shared directory, read from end to end beside whoever serves it.

Invariants:
    What is damaged is told in its place, and what follows is read.
    What the cleaner dropped meanwhile is never taken for damage.

Blocking. Whoever reads closes the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Final

from holdfast.copying.looking import LookedLog
from holdfast.copying.patience import ask_again
from holdfast.errors import CorruptEntryError, RecordNotFoundError
from holdfast.journal.entry import FIRST_CHAIN, Entry, verify_chain
from holdfast.leases.contract import Holding
from holdfast.model.limits import MiB

CALL_SECONDS: Final = 20.0
PATIENCE_SECONDS: Final = 30.0
"""What was planned is asked for so long: a database that fails over takes less."""
READ_BYTES: Final = 4 * MiB

Visit = Callable[[int, int], None]
"""Called with (entries done, entries in all)."""


@dataclass(frozen=True, slots=True)
class LostEntries:
    """Entries side by side that were stored and cannot be read."""

    first_index: int
    last_index: int
    reason: str
    place: str
    file: str = ""
    byte: int = 0
    """Where in a file the first of them begins; 0 where that is not known."""

    def __str__(self) -> str:
        if self.first_index == self.last_index:
            return self._told(f"entry {self.first_index:,}")
        return self._told(f"entries {self.first_index:,} to {self.last_index:,}")

    def _told(self, which: str) -> str:
        where = f"{self.place}, {self.file} byte {self.byte:,}" if self.file else self.place
        return f"{which} of {where}: {self.reason}"

    def error(self) -> CorruptEntryError:
        """Return this as an error to raise, of the first entry."""
        segment = self.file or self.place
        error = CorruptEntryError(
            self.reason, segment=segment, byte=self.byte, index=self.first_index
        )
        error.args = (self._told(f"entry {self.first_index:,}"),)
        return error


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedLog:
    """What is in a log and everything that is wrong with it."""

    place: str
    kind: str
    identity: str
    first_index: int
    """The first entry of which a broker reads records; what stands for all before it is none."""

    last_index: int
    last_term: int
    last_chain: bytes
    last_record: int
    entries: int
    bytes: int
    damage: tuple[LostEntries, ...]
    epoch: int
    holder: str
    """Who holds the lease, or held it last; empty before anybody did."""

    is_released: bool


def read_entries(
    log: LookedLog, after: int, through: int, bytes_max: int | None = None
) -> list[Entry]:
    """
    Read as `LeasedLog.entries`, again while there is no answer; without `bytes_max` some MiB.

    Raises:
        CorruptEntryError: One is damaged or missing.
        UnreachableError: There was no answer for `PATIENCE_SECONDS`.
    """
    wanted = READ_BYTES if bytes_max is None else bytes_max
    read = partial(log.entries, after, through, wanted, CALL_SECONDS)
    return ask_again(read, PATIENCE_SECONDS)


def range_of(holding: Holding) -> tuple[int, int]:
    """The entries that a reader is given: not the one that stands for all before it."""
    first = holding.first_index
    return (first + 1 if first > 1 else 1), holding.sure.index


def require_kept(holding: Holding, first_index: int, last_index: int, name: str) -> None:
    """
    See that entries are there still, and that there ever were so many.

    Raises:
        RecordNotFoundError: They are not.
    """
    first, last = range_of(holding)
    if first_index < first:
        raise RecordNotFoundError(
            f"entries {first_index:,} to {min(first, last_index + 1) - 1:,} are no longer in"
            f" {name}, which begins with entry {first:,}: read the brokers by url, with a hold"
        )
    if last_index > max(last, holding.end.index):
        raise RecordNotFoundError(
            f"entry {last_index:,} is not in {name}, which ends with entry {last:,}"
        )


def next_part(log: LookedLog, index: int, last: int, name: str) -> list[Entry] | LostEntries:
    """
    Give what comes next, from entry `index` on: entries, or damage.

    Args:
        name: What the log is called in errors.

    Raises:
        RecordNotFoundError: Entry `index` was dropped meanwhile.
        UnreachableError: The log does not answer any more.
    """
    try:
        return read_entries(log, index - 1, last)
    except CorruptEntryError as error:
        holding = ask_again(partial(log.observe, CALL_SECONDS), PATIENCE_SECONDS)
        require_kept(holding, index, index, name)
        if index < error.index <= last:
            try:
                return read_entries(log, index - 1, error.index - 1)
            except CorruptEntryError as other:
                error = other
        through = _damaged_through(log, index, last)
        file = error.segment if error.byte else ""
        return LostEntries(index, through, error.reason, name, file, error.byte)


def each_entry(
    log: LookedLog, first: int, last: int, name: str, visit: Visit = lambda *_: None
) -> Iterator[Entry | LostEntries]:
    """
    Give these entries in order, and in place of what is damaged, its damage.

    What was dropped meanwhile is passed over. See `next_part` for what is raised.
    """
    index, begun = first, first
    while index <= last:
        try:
            found = next_part(log, index, last, name)
        except RecordNotFoundError:
            holding = ask_again(partial(log.observe, CALL_SECONDS), PATIENCE_SECONDS)
            index = max(index + 1, range_of(holding)[0])
            continue
        if isinstance(found, LostEntries):
            yield found
            index = found.last_index + 1
        else:
            yield from found
            index = found[-1].index + 1
        visit(index - begun, last - begun + 1)


def verify(log: LookedLog, visit: Visit = lambda *_: None) -> VerifiedLog:
    """
    Read every entry, and follow the chain from the first to the last of which is known that
    nothing undoes it.

    Raises:
        StoreError: There is no log, or it cannot be read.
        UnreachableError: It does not answer.
    """
    holding = ask_again(log.open_existing, PATIENCE_SECONDS)
    name = log.facts().place
    first, last = range_of(holding)
    damage: list[LostEntries] = []
    before = _anchor(log, first, name, damage) if first > 1 else FIRST_CHAIN
    count = size = 0
    expected: int | None = first
    entry = None
    for found in each_entry(log, first, last, name, visit):
        if isinstance(found, LostEntries):
            damage.append(found)
            expected = None
            continue
        is_next = expected != found.index or before is None or verify_chain(found, before)
        if not is_next or (entry is not None and not _follows(entry, found)):
            reason = "it does not follow on the one before it"
            damage.append(LostEntries(found.index, found.index, reason, name))
        entry, before, expected = found, found.chain, found.index + 1
        count += 1
        size += len(found.raw)
    sure = holding.sure
    if entry is not None and entry.index == sure.index and entry.chain != sure.chain:
        reason = "it is not the entry with which the log ends, by the lease"
        damage.append(LostEntries(entry.index, entry.index, reason, name))
    facts, claimant = log.facts(), holding.claimant
    return VerifiedLog(
        place=facts.place,
        kind=facts.kind,
        identity=log.identity(),
        first_index=first,
        last_index=last,
        last_term=entry.term if entry is not None else 0,
        last_chain=entry.chain if entry is not None else holding.sure.chain,
        last_record=entry.next_record - 1 if entry is not None else 0,
        entries=count,
        bytes=size,
        damage=tuple(damage),
        epoch=holding.epoch,
        holder=claimant.name if claimant is not None else "",
        is_released=holding.is_released,
    )


def _anchor(log: LookedLog, first: int, name: str, damage: list[LostEntries]) -> bytes | None:
    """The chain before the first entry; None if that cannot be read, which is damage."""
    try:
        return read_entries(log, first - 2, first - 1)[0].chain
    except CorruptEntryError as error:
        reason = (
            f"{error.reason}: nothing of it is needed but what the first entry follows on. Brokers"
            f" that have the log in their --data go on; a new one cannot begin with it, nor is it"
            f" copied: bring the row back from a backup, or let those run until it is cleaned away"
        )
        damage.append(LostEntries(first - 1, first - 1, reason, name))
        return None


def _follows(before: Entry, entry: Entry) -> bool:
    if entry.index != before.index + 1:
        return True  # What is between is told.
    return entry.first_record == before.next_record and entry.term >= before.term


def _damaged_through(log: LookedLog, index: int, last: int) -> int:
    """
    The last entry of the damage that begins at `index`.

    Looked for by leaps, so that a lost file is not asked for entry by entry: of entries that are
    damaged here and there, close by, a whole one may be told of as damaged with them.
    """

    def is_whole(at: int) -> bool:
        try:
            read_entries(log, at - 1, at)
        except CorruptEntryError:
            return False
        return True

    low, leap = index, 1
    while True:
        high = min(index + leap, last + 1)
        if high > last or is_whole(high):
            break
        low, leap = high, leap * 2
    while high - low > 1:
        middle = (low + high) // 2
        if is_whole(middle):
            high = middle
        else:
            low = middle
    return high - 1

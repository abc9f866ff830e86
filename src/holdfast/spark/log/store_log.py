"""
A log read from where brokers keep it: a database, several that hold the same, a shared directory.

No broker is asked, and one that serves the log meanwhile does not notice: the lease is only looked
at, for how far the log goes. A broker holds nothing for this reader either, so what the cleaner
drops is gone: read a cluster by its URL, with a hold, where that must not be.

Invariants:
    Entry for entry it is what a broker reads: from behind the entry that stands for all before it,
    through the last one of which is known that nothing undoes it.
    A password stands in the pickle that goes to the workers, and in nothing that is shown.

Blocking. Connections belong to one call.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from holdfast.config.store_url import StoreUrl
from holdfast.copying.looking import LookedLog, member_at, open_looked, whole_address
from holdfast.copying.patience import ask_again
from holdfast.copying.reading import (
    PATIENCE_SECONDS,
    LostEntries,
    next_part,
    range_of,
    read_entries,
    require_kept,
)
from holdfast.errors import ConfigError, CorruptEntryError
from holdfast.journal.entry import Entry
from holdfast.leases.contract import Holding
from holdfast.spark.log.entry_block import EntryBlock, cut_entries
from holdfast.spark.log.source import BLOCK_BYTES, DamagedRange, LogPosition

POSITION_SECONDS: Final = 5.0
"""How far it goes is asked for so long: an address that is wrong must show soon."""

PARTS_MAX: Final = 64
PART_ENTRIES_MIN: Final = 256
"""A store has no segments: its entries are cut into ranges of so many, or of a power of two more,
so that two copies of about the same length are cut in the same places."""


@dataclass(frozen=True)
class StoreLog:
    """The log at these addresses: one, or several databases that hold the same."""

    addresses: tuple[StoreUrl, ...]
    is_one_of_several: bool = False
    """Whether one database of several may be read alone, as it is."""

    def __str__(self) -> str:
        return ", ".join(str(it).replace(":***@", "@") for it in self.addresses)

    def position(self) -> LogPosition:
        """
        How far the log goes.

        Raises:
            StoreError: There is no log, or it cannot be read.
            UnreachableError: It does not answer.
        """
        with self._opened(POSITION_SECONDS) as (log, holding):
            first, last = range_of(holding)
            timestamp = 0
            if first <= last:
                try:
                    timestamp = read_entries(log, last - 1, last)[-1].timestamp
                except CorruptEntryError:
                    pass  # whoever reads it is told
            return LogPosition(
                first_index=first,
                last_index=last,
                cluster_id=log.identity(),
                bases=bases_of(first, last),
                last_timestamp=timestamp,
            )

    def blocks(self, first_index: int, last_index: int) -> Iterator[EntryBlock | DamagedRange]:
        """
        Give these entries, verified.

        Raises:
            RecordNotFoundError: They were dropped meanwhile, or never there.
            UnreachableError: The store does not answer any more.
        """
        if first_index > last_index:
            return
        with self._opened() as (log, holding):
            require_kept(holding, first_index, last_index, str(self))
            index = first_index
            while index <= last_index:
                part = next_part(log, index, last_index, str(self))
                found = _damaged(part) if isinstance(part, LostEntries) else _block(part)
                yield found
                index = found.last_index + 1

    def queue_names(self) -> dict[int, str]:
        """None: they stand in the log itself."""
        return {}

    def reach(self, from_index: int, bytes_max: int) -> int:
        """The last index such that entries from `from_index` on are about `bytes_max` together."""
        with self._opened() as (log, holding):
            last = range_of(holding)[1]
            if from_index > last:
                return last
            reached, room = from_index - 1, bytes_max
            while reached < last and room > 0:
                try:
                    entries = read_entries(log, reached, last, min(room, BLOCK_BYTES))
                except CorruptEntryError as error:
                    reached = max(error.index, reached + 1)
                    continue
                for entry in entries:
                    room -= len(entry.raw)
                    if room < 0:
                        break
                    reached = entry.index
            return min(max(reached, from_index), last)

    def chain_before(self, first_index: int) -> str:
        """Give the chain value before an entry; empty if the one before it is not kept, or read."""
        if first_index <= 1:
            return ""
        with self._opened() as (log, holding):
            if not holding.first_index <= first_index - 1 <= holding.end.index:
                return ""
            try:
                return read_entries(log, first_index - 2, first_index - 1)[0].chain.hex()
            except CorruptEntryError:
                return ""

    @contextmanager
    def _opened(self, patience: float = PATIENCE_SECONDS) -> Iterator[tuple[LookedLog, Holding]]:
        log = open_looked(
            [it.text for it in self.addresses], may_be_one_of_several=self.is_one_of_several
        )
        try:
            yield log, ask_again(log.open_existing, patience)
        finally:
            log.close()


def store_log(words: list[str], *, is_one_of_several: bool = False) -> StoreLog:
    """
    Give the log at these addresses, as operators write them.

    Raises:
        ConfigError: One cannot be used; no sentence repeats what may be a password.
    """
    addresses = tuple(StoreUrl(whole_address(it)) for it in words)
    if len(set(addresses)) < len(addresses):
        raise ConfigError([f"store: {addresses[0]} is named more than once"])
    return StoreLog(addresses, is_one_of_several)


def require_apart(logs: list[StoreLog]) -> None:
    """
    See that each of these is a database of its own, where it says which it is.

    Raises:
        ConfigError: Two addresses lead to the same one.
        StoreError: One cannot be read.
    """
    known: dict[str, StoreLog] = {}
    for log in logs:
        (address,) = log.addresses
        member = member_at(address.text)
        if member and member in known:
            raise ConfigError([f"store: {known[member]} and {log} are one database: name it once"])
        known[member] = log


def bases_of(first: int, last: int) -> tuple[int, ...]:
    """Where the ranges begin that tasks read side by side."""
    if first > last:
        return ()
    step = PART_ENTRIES_MIN
    while (last - first + 1) > step * PARTS_MAX:
        step *= 2
    return (first, *range((first // step + 1) * step, last + 1, step))


def _block(entries: list[Entry]) -> EntryBlock:
    block = cut_entries(b"".join([it.raw for it in entries]), entries[0].index)
    assert len(block) == len(entries), "they were verified when they were read"
    return block


def _damaged(lost: LostEntries) -> DamagedRange:
    return DamagedRange(lost.first_index, lost.last_index, lost.error())

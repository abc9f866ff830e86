"""
What lost entries must have been, found out from the end of what is lost.

A chain value covers all that goes before it, and nothing that comes after. So the entry behind a
lost one proves what stood there, while the one before it proves nothing: whoever was cut off may
have put other entries into the same places, and they continue it as well. Where the headers of
several neighbours are lost, only the last one has somebody behind it. Its copy proves the one
before, and so on: copies are asked for from the end backwards, and of each the chain value is kept.
Then they are written from the beginning on, as only the first of them has a place that is known.

Invariants:
    A chain value that is given is that of the entry that stood there.

One run of neighbours at a time; owned by `Repairs`.
"""

from __future__ import annotations

import logging
from collections import OrderedDict
from typing import Final

from holdfast.errors import CorruptEntryError
from holdfast.journal.entry import CHAIN_BYTES, Entry, verify_chain
from holdfast.model.limits import MiB
from holdfast.replication.log import ReplicatedLog
from holdfast.replication.messages import NO_CHAIN

_KEPT_BYTES_MAX: Final = 8 * MiB
"""Of copies that are not asked for again once all are proven; the first ones are kept longest."""
_KEPT_COUNT_MAX: Final = 8_192

_SOUGHT_MAX: Final = 10_000
"""Entries that are looked at in one go: some 2 ms."""

logger = logging.getLogger("holdfast.replication")


class RunProof:
    """The chain values of the entries of one run, as far as they are proven."""

    __slots__ = (
        "_behind",
        "_chains",
        "_epoch",
        "_first",
        "_kept",
        "_kept_bytes",
        "_last",
        "_new",
        "_until",
        "is_seeking",
    )

    def __init__(self) -> None:
        self._last = 0
        """The last entry of the run; 0 if there is none."""
        self.is_seeking = False
        """Whether the run is longer, or may be; then nothing of it is wanted yet."""
        self._first = 0
        """From here on the run is proven."""
        self._until = 0
        """Down to this entry it is to be."""
        self._epoch = 0
        self._chains = bytearray()
        """Of the last entry, the one before, and so on."""
        self._behind: Entry | None = None
        """The entry behind the next one that is to be proven."""
        self._new: dict[int, Entry] = {}
        """Copies that came and have nothing proven behind them yet."""
        self._kept = OrderedDict[int, Entry]()
        """Copies that are proven, the last one of the run first."""
        self._kept_bytes = 0

    def chain_at(self, index: int) -> bytes:
        """The chain value that the entry here must have; NO_CHAIN if it is not known yet."""
        if not self._first <= index <= self._last:
            return NO_CHAIN
        place = (self._last - index) * CHAIN_BYTES
        return bytes(self._chains[place : place + CHAIN_BYTES])

    def wanted(self, log: ReplicatedLog, index: int, count: int) -> list[int]:
        """Give which copies to ask for next, so that this entry, which is lost, can be proven."""
        next_index = self._first - 1
        is_same = self._epoch == log.epoch and self._last in log.damaged and next_index >= index
        is_end = self._last >= log.last_index or self._last + 1 not in log.damaged
        if not (is_same and (is_end or self.is_seeking) and next_index in log.damaged):
            self._begin(log, index)
        self._until = index
        if self.is_seeking:
            self._seek(log)
            if self.is_seeking:
                return []
        return list(range(self._first - 1, max(self._first - 1 - count, index - 1), -1))

    def rest(self) -> None:
        """Want nothing more: no lost entry is left that needs a proof. What is proven stays so."""
        self.is_seeking = False
        self._until = self._first

    def is_wanted(self, index: int) -> bool:
        """Whether a copy of this entry is yet to be proven here."""
        return self._until <= index < self._first

    def take(self, log: ReplicatedLog, copy: Entry) -> dict[int, Entry]:
        """Prove with a peer's copy what can be; give the copies that may be written now."""
        self._new[copy.index] = copy
        while (found := self._new.pop(self._first - 1, None)) is not None:
            if not self._is_proven(log, found):
                logger.warning("a peer's copy of entry %d does not fit our log", found.index)
                break
            self._first -= 1
            self._chains += found.chain
            self._behind = found
            self._keep(found)
        if self._first > self._until:
            return {}
        done, self._kept, self._kept_bytes = self._kept, OrderedDict(), 0
        return done

    def _begin(self, log: ReplicatedLog, index: int) -> None:
        self._last, self._first, self._epoch = index, index + 1, log.epoch
        self.is_seeking = True
        self._chains.clear()
        self._new.clear()
        self._kept.clear()
        self._kept_bytes = 0
        self._behind = None

    def _seek(self, log: ReplicatedLog) -> None:
        """Look for the run's end, so far that the loop is not kept."""
        last = self._last
        limit = min(last + _SOUGHT_MAX, log.last_index)
        while last < limit and last + 1 in log.damaged:
            last += 1
        self._last, self._first = last, last + 1
        self.is_seeking = last == limit < log.last_index
        if last < log.last_index and not self.is_seeking:
            try:
                self._behind = log.journal.entry(last + 1)
            except CorruptEntryError:
                log.damaged.add(last + 1)

    def _is_proven(self, log: ReplicatedLog, copy: Entry) -> bool:
        if self._behind is not None:
            return verify_chain(self._behind, copy.chain)
        known = log.chain_at(copy.index)
        return copy.index == log.last_index and copy.chain == known != NO_CHAIN

    def _keep(self, copy: Entry) -> None:
        self._kept[copy.index] = copy
        self._kept_bytes += len(copy.raw)
        while self._kept_bytes > _KEPT_BYTES_MAX or len(self._kept) > _KEPT_COUNT_MAX:
            self._kept_bytes -= len(self._kept.popitem(last=False)[1].raw)

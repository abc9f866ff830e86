"""
Whether the log of a witness is a beginning for a node with data.

A witness drops what every data voter held, and what a leader had cleaned away. To whoever lacks
what stood before, the two are not alike. Where it was cleaned nothing lives: it was written again
further on. What all held may live, and if one of them has lost it, by a disk that lied or rots, the
others have it; who began with the witness's log would never ask them. Which of the two it was the
log itself tells: a record names the entry through which all was written again.

Invariants:
    A log from its first entry on tells the whole state, or nobody is told to begin with it.
    One look takes as long as to read `LOOK_BYTES`, or one entry, however small the entries and
    their records are: nobody waits for a long log to be searched, nor for a long entry.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import islice
from typing import Final

from holdfast.errors import CorruptEntryError, CorruptRecordError
from holdfast.journal.entry import KIND_RECORDS
from holdfast.journal.record import iterate_records
from holdfast.model.records import CLEANED_TYPE
from holdfast.replication.log import EntryLog

LOOK_BYTES: Final = 1 << 20
_ENTRY_BYTES: Final = 2048
_RECORD_BYTES: Final = 64
"""What an entry and a record take beside their bytes, in bytes that are read in the same time."""
_RECORDS_AT_ONCE: Final = 1000
"""At least so many of an entry that was read, however long it is."""
_THROUGH: Final = struct.Struct("<Q")


class Beginning:
    """The search for the proof, of one leadership: backwards, as the newest record says most."""

    __slots__ = ("_body", "_bound", "_next", "_records", "_through", "_within")

    def __init__(self) -> None:
        self._bound = self._next = self._through = 0
        self._records: Iterator[tuple[int, int, int, int]] | None = None
        """What is left of the entry that was begun with: it may have very many records."""
        self._body: memoryview | bytes = b""
        """Of that entry."""
        self._within = 0
        """What its records name as cleaned, as far as they were looked at."""

    def is_whole(self, journal: EntryLog, commit_index: int) -> bool:
        """Whether what stands before this log's first entry lives nowhere; False until known."""
        first = journal.first_index
        # After a restart nobody has said yet what is committed: then what a leader has counts.
        bound = commit_index if commit_index >= first else journal.last_index
        if bound > self._bound:
            self._bound = self._next = bound
            self._leave()
        if self._through < first - 1:
            self._search(journal, first)
        return self._through >= first - 1

    def _search(self, journal: EntryLog, first: int) -> None:
        left = LOOK_BYTES
        while left > 0 and (self._records is not None or self._next >= first):
            try:
                if self._records is None:
                    left -= _ENTRY_BYTES + self._begin(journal)
                if self._records is not None:
                    count_max = max(_RECORDS_AT_ONCE, left // _RECORD_BYTES)
                    left -= self._look_at_some(self._records, count_max)
            except (CorruptEntryError, CorruptRecordError):
                self._leave()  # It proves nothing; one before it may.

    def _begin(self, journal: EntryLog) -> int:
        """Take up the next entry; gives how many bytes it has."""
        index = self._next
        self._next -= 1
        entry = journal.entry(index)
        if entry.kind == KIND_RECORDS:
            self._body = entry.body
            self._records = iterate_records(self._body)
        return len(entry.raw)

    def _look_at_some(self, records: Iterator[tuple[int, int, int, int]], count_max: int) -> int:
        """Look at the next records of the entry; gives what that counts for."""
        count = 0
        for kind, _, start, _ in islice(records, count_max):
            count += 1
            if kind == CLEANED_TYPE:
                self._within = max(self._within, _THROUGH.unpack_from(self._body, start)[0])
        if count < count_max:
            if self._within:
                # Those before it name less.
                self._through = max(self._through, self._within)
                self._next = 0
            self._leave()
        return count * _RECORD_BYTES

    def _leave(self) -> None:
        """Forget the entry that was begun with."""
        self._records, self._body, self._within = None, b"", 0

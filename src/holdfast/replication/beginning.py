"""
Whether the log of a witness is a beginning for a node with data.

A witness drops what every data voter held, and what a leader had cleaned away. To whoever lacks
what stood before, the two are not alike. Where it was cleaned nothing lives: it was written again
further on. What all held may live, and if one of them has lost it, by a disk that lied or rots, the
others have it; who began with the witness's log would never ask them. Which of the two it was the
log itself tells: a record names the entry through which all was written again.

Invariants:
    A log from its first entry on tells the whole state, or nobody is told to begin with it.
    One look takes as long as to read `LOOK_BYTES`, or one entry, however small the entries are:
    nobody waits for a long log to be searched.
"""

from __future__ import annotations

import struct
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
_THROUGH: Final = struct.Struct("<Q")


class Beginning:
    """The search for the proof, of one leadership: backwards, as the newest record says most."""

    __slots__ = ("_bound", "_next", "_through")

    def __init__(self) -> None:
        self._bound = self._next = self._through = 0

    def is_whole(self, journal: EntryLog, commit_index: int) -> bool:
        """Whether what stands before this log's first entry lives nowhere; False until known."""
        first = journal.first_index
        # After a restart nobody has said yet what is committed: then what a leader has counts.
        bound = commit_index if commit_index >= first else journal.last_index
        if bound > self._bound:
            self._bound = self._next = bound
        if self._through < first - 1:
            self._search(journal, first)
        return self._through >= first - 1

    def _search(self, journal: EntryLog, first: int) -> None:
        left = LOOK_BYTES
        while self._next >= first and left > 0:
            index = self._next
            self._next -= 1
            left -= _ENTRY_BYTES
            try:
                entry = journal.entry(index)
                left -= len(entry.raw) + _RECORD_BYTES * entry.record_count
                through = _cleaned_through(entry.body) if entry.kind == KIND_RECORDS else 0
            except (CorruptEntryError, CorruptRecordError):
                continue  # It proves nothing; one before it may.
            if through:
                # Those before it name less.
                self._through = max(self._through, through)
                self._next = 0


def _cleaned_through(body: memoryview | bytes) -> int:
    """The highest entry that a record of this body names as cleaned; 0 if none does."""
    payloads = (start for kind, _, start, _ in iterate_records(body) if kind == CLEANED_TYPE)
    return max((_THROUGH.unpack_from(body, start)[0] for start in payloads), default=0)

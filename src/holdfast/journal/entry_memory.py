"""
Entries of the log that are in memory: the newest ones, and some that were read back.

What was just staged is about to be written, sent to the other members and applied, so it stays
until all that is done; to read a large entry back from the disk would keep the loop from everybody.

Invariants:
    What is not durable yet is here, whatever its size.
    The newest entries have no gap: from `first` on all that were staged are here.

Owned by the loop thread.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from holdfast.journal.entry import Entry
from holdfast.journal.settings import JournalSettings

NOBODY: Final = 1 << 64
"""No entry has such an index: nobody is about to ask for any."""


class EntryMemory:
    """What one journal has in memory."""

    __slots__ = ("_reads", "_reads_bytes", "_settings", "bytes", "first", "needed_from", "tail")

    def __init__(self, settings: JournalSettings, first: int) -> None:
        self._settings = settings
        self.tail: dict[int, Entry] = {}
        """The newest entries by index."""
        self.first = first
        """The index of the oldest of them."""
        self.bytes = 0
        """What they take."""
        self.needed_from = NOBODY
        """From this entry on somebody is about to ask: a peer, or whoever applies them."""
        self._reads: OrderedDict[int, Entry] = OrderedDict()
        self._reads_bytes = 0

    def find(self, index: int) -> Entry | None:
        """Give an entry if it is here."""
        entry = self.tail.get(index)
        if entry is not None:
            return entry
        entry = self._reads.get(index)
        if entry is not None:
            self._reads.move_to_end(index)
        return entry

    def add(self, entry: Entry) -> None:
        """Take the entry that was staged behind the last one."""
        self.tail[entry.index] = entry
        self.bytes += len(entry.raw)

    def shrink(self, stored: int) -> None:
        """Forget the oldest that are durable, as far as there is too much."""
        settings = self._settings
        while self.bytes > settings.tail_cache_bytes and self.first <= stored:
            is_needed = self.first >= self.needed_from
            if is_needed and self.bytes <= settings.tail_needed_bytes_max:
                return
            self._forget_first()

    def keep_read(self, entry: Entry) -> None:
        """Keep an entry that was read back, instead of those that were asked for long ago."""
        reads = self._reads
        reads[entry.index] = entry
        self._reads_bytes += len(entry.raw)
        while self._reads_bytes > self._settings.read_cache_bytes and len(reads) > 1:
            _, oldest = reads.popitem(last=False)
            self._reads_bytes -= len(oldest.raw)

    def forget_read(self, index: int) -> None:
        """Forget an entry that was read back, if it is here."""
        entry = self._reads.pop(index, None)
        if entry is not None:
            self._reads_bytes -= len(entry.raw)

    def forget_after(self, index: int, last: int) -> None:
        """Forget what was cut: everything after `index`, of a log that ended with `last`."""
        for later in range(max(index + 1, self.first), last + 1):
            entry = self.tail.pop(later, None)
            if entry is not None:
                self.bytes -= len(entry.raw)
        self.first = min(self.first, index + 1)
        for later in [it for it in self._reads if it > index]:
            self.forget_read(later)

    def forget_before(self, index: int) -> None:
        """Forget what was dropped: everything before `index`."""
        while self.first < index:
            self._forget_first()
        for earlier in [it for it in self._reads if it < index]:
            self.forget_read(earlier)

    def _forget_first(self) -> None:
        entry = self.tail.pop(self.first, None)
        if entry is not None:
            self.bytes -= len(entry.raw)
        self.first += 1

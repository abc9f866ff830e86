"""
Reading on behind entries that were cleaned away before they were read: `failOnDataLoss=false`.

By default that is an error, as a reader must not take what is left for everything. Who does not
mind gets what is there, a warning that names the entries, and their number in the progress of a
stream. So it is with what an archive lacks. Nothing else is passed over: damage, another cluster,
or what a promotion lost stay errors.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from holdfast.errors import MissingEntriesError, RecordNotFoundError
from holdfast.spark.archive.source import ArchivedFiles, FilePart
from holdfast.spark.archive.store import Archive
from holdfast.spark.log.entry_block import EntryBlock
from holdfast.spark.log.source import DamagedRange, LogPosition, LogSource

logger = logging.getLogger("holdfast.spark")

_Piece = TypeVar("_Piece", bound=EntryBlock | FilePart | DamagedRange)


def first_kept(source: LogSource, position: LogPosition, index: int) -> int:
    """
    Return the first entry from `index` on that can still be read.

    Each node cleans its own log, so another than the one that told the position may have more.

    Raises:
        LinkError: No node answers.
    """
    if index >= position.first_index:
        return index
    try:
        for _ in source.blocks(index, index):
            break
    except RecordNotFoundError:
        return max(source.position().first_index, index + 1)
    return index


def passed_over(first_index: int, kept_index: int, last_index: int) -> int:
    """Warn of the entries of a range that are before what is kept; gives how many they are."""
    gone = min(kept_index, last_index + 1) - first_index
    if gone > 0:
        logger.warning(
            "failOnDataLoss=false: entries skipped, as they were cleaned away before they were"
            " read: %d, from %d to %d",
            gone,
            first_index,
            first_index + gone - 1,
        )
    return max(gone, 0)


def is_missing(block: EntryBlock | FilePart | DamagedRange) -> bool:
    """Tell what an archive has never got, or has lost with its manifest, from what is damaged."""
    return isinstance(block, DamagedRange) and isinstance(block.error, MissingEntriesError)


@dataclass(frozen=True)
class LenientLog:
    """A log of which what was cleaned away is left out; all else is as in `source`."""

    source: LogSource

    def position(self) -> LogPosition:
        """How far the log goes now."""
        return self.source.position()

    def blocks(self, first_index: int, last_index: int) -> Iterator[EntryBlock | DamagedRange]:
        """Give those of these entries that are kept, verified."""
        return self._kept(self.source.blocks, first_index, last_index)

    def _kept(
        self, give: Callable[[int, int], Iterator[_Piece]], first_index: int, last_index: int
    ) -> Iterator[_Piece]:
        index = first_index
        while index <= last_index:
            try:
                for block in give(index, last_index):
                    index = block.last_index + 1
                    if is_missing(block):  # cleaned away before it was archived
                        passed_over(block.first_index, index, last_index)
                    else:
                        yield block
            except RecordNotFoundError:
                kept = self.source.position().first_index
                if kept <= index:
                    raise  # it is not gone: the log does not go so far
                passed_over(index, kept, last_index)
                index = kept
            else:
                return

    def queue_names(self) -> dict[int, str]:
        """The names of queues that can be told without reading the log, by number."""
        return self.source.queue_names()

    def reach(self, from_index: int, bytes_max: int) -> int:
        """The last index such that entries from there on are about `bytes_max` together."""
        return self.source.reach(first_kept(self.source, self.position(), from_index), bytes_max)


@dataclass(frozen=True)
class LenientArchive(LenientLog):
    """Files of an archive, whose gaps are left out."""

    source: ArchivedFiles

    @property
    def archive(self) -> Archive:
        """Where the files are."""
        return self.source.archive

    def pieces(self, first_index: int, last_index: int) -> Iterator[FilePart | DamagedRange]:
        """Give the files that hold these entries."""
        return self._kept(self.source.pieces, first_index, last_index)


def lenient(source: LogSource) -> LenientLog:
    """Give a log without what it lacks."""
    return LenientArchive(source) if isinstance(source, ArchivedFiles) else LenientLog(source)

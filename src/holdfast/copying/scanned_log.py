"""
The log in the files of a data directory, verified as a whole and then read entry by entry.

Nothing is written. Which bytes are good is decided by `journal.scan` alone, as when a node starts.
"""

from __future__ import annotations

from bisect import bisect_right
from pathlib import Path

from holdfast.copying.contract import CHUNK_BYTES
from holdfast.environment.disk import Disk
from holdfast.errors import CorruptEntryError, MissingEntriesError, StoreError
from holdfast.journal.ballot import NO_CLAIM, Ballot, BallotFile
from holdfast.journal.entry import Entry, parse_entry
from holdfast.journal.scan import scan_log
from holdfast.journal.segment import Segment


class ScannedLog:
    """What is in the files of one directory, which nobody writes meanwhile."""

    def __init__(self, directory: Path, disk: Disk) -> None:
        """
        Read and verify all of it.

        Raises:
            BallotLostError: The ballot cannot be read.
            StoreError: A file is missing, foreign or of another version, or an entry is damaged.
        """
        self.directory = directory
        self._disk = disk
        self.ballot = _ballot(directory, disk)
        claim = NO_CLAIM if self.ballot is None else self.ballot.claim
        self.scan = scan_log(directory / "journal", disk, claim=claim)
        if self.scan.damage:
            raise self.scan.damage[0].error()
        if self.scan.tail.state == "unknown":
            raise StoreError(
                f"the end of the log in {directory} is damaged, or was being written when the"
                f" machine went down, which cannot be told ({self.scan.tail.reason}): start the"
                f" node on it once, which settles that"
            )
        self._bases = [it.base_index for it in self.scan.segments]

    @property
    def first(self) -> Segment | None:
        """The oldest segment; its header says what the log begins behind."""
        return self.scan.segments[0] if self.scan.segments else None

    def entries(self, after: int) -> list[Entry]:
        """
        Read what follows on an entry, of one file, at most a chunk.

        Raises:
            CorruptEntryError: One is not as it was when the log was verified.
            MissingEntriesError: It is not there.
        """
        index = after + 1
        if index > self.scan.last_index:
            return []
        place = bisect_right(self._bases, index) - 1
        if place < 0:
            raise MissingEntriesError(index, index, str(self.directory))
        segment = self.scan.segments[place]
        first, size, last = segment.span(index, CHUNK_BYTES, segment.last_index)
        file = self._disk.open(segment.path, writable=False)
        try:
            data = file.read(size, first)
        finally:
            file.close()
        found = []
        for each in range(index, last + 1):
            offset = segment.place(each)[0] - first
            try:
                found.append(parse_entry(data, offset))
            except CorruptEntryError as error:
                raise CorruptEntryError(
                    error.reason, segment=segment.path.name, byte=offset + first, index=each
                ) from None
        return found


def _ballot(directory: Path, disk: Disk) -> Ballot | None:
    if not disk.exists(directory / "ballot"):
        return None
    file = BallotFile(directory / "ballot", disk)
    try:
        return file.load()
    finally:
        file.close()

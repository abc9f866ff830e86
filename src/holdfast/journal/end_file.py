"""
The file that is being written: made for a segment, opened, closed, and taken away.

A file gets its name last, when it has its zeros and its header: recovery never meets half a one.

Invariants:
    At most one file is open, that of the segment that is written.
    Where a file finds no room nothing is left behind, and what stood before stands.
    Files go newest first, each durably gone before the next.

Owned by the writer's thread.
"""

from __future__ import annotations

import errno

from holdfast.environment.disk import DiskFile, NoRoomError, fill_zeros, is_no_room
from holdfast.journal.claim import StandingClaim
from holdfast.journal.journal import Journal
from holdfast.journal.segment import Segment


class EndFile:
    """The file at the end of one journal's log."""

    __slots__ = ("_claim", "_journal", "file", "is_empty", "segment")

    def __init__(self, journal: Journal, claim: StandingClaim) -> None:
        self._journal = journal
        self._claim = claim
        self.file: DiskFile | None = None
        self.segment: Segment | None = None
        """Whose file it is."""
        self.is_empty = journal.was_empty
        """No file of the log exists yet."""

    def of(self, segment: Segment) -> DiskFile:
        """Give the file of a segment, opened if it is not."""
        file = self.file
        if file is None or segment is not self.segment:
            file = self.reopen(segment)
        return file

    def begin(self, segment: Segment) -> None:
        """Make the file of a segment, unless it is made: zeros and header first, its name last."""
        if segment is not self.segment:
            self.close()
            if self.is_empty:
                self._begin_log(segment)
            self._make_file(segment)
            self._journal.housekeeper.sync_directory()
            self.segment = segment
            self.is_empty = False
        # What stands in sealed segments is durable; recovery need not guess there.
        journal = self._journal
        journal.ballot_file.save_floor(journal.durable_index, journal.durable_chain)

    def _begin_log(self, segment: Segment) -> None:
        """Note that the log begins here, unless a reset did: it may have been noted further on."""
        ballot = self._journal.ballot_file.current
        header = segment.header
        if ballot is not None and ballot.first_index != header.base_index:
            self._journal.housekeeper.clear_away(set(), header.base_index)
            self._claim.note_begin(header.base_index, header.previous_chain)

    def _make_file(self, segment: Segment) -> None:
        """Make a file with the name of a segment; where there is no room, leave nothing behind."""
        housekeeper = self._journal.housekeeper
        capacity = segment.header.capacity
        filled = self._journal.settings.segment_bytes
        path = housekeeper.take_spare()
        if path is None:
            path, filled = housekeeper.new_path(), 0
        try:
            if self._journal.disk.free_bytes(path.parent) < capacity - filled:
                # Else each try would take the last room from everybody else.
                raise NoRoomError(errno.ENOSPC, f"a segment of {capacity:,} bytes has no room")
            self.file = file = self._journal.disk.open(path, create=True)
            fill_zeros(file, filled, capacity)
            file.write(segment.header.encode(), 0)
            file.sync()
            self._journal.disk.rename(path, segment.path)
        except OSError as error:
            if not is_no_room(error):
                raise
            # Nothing rests on this file yet, so it does not matter which of its syncs failed.
            self.close()
            housekeeper.discard(path)
            raise NoRoomError(error.errno, error.strerror) from error

    def reopen(self, segment: Segment) -> DiskFile:
        """Give the file of a segment that was made before, to write to."""
        self.close()
        self.file = self._journal.disk.open(segment.path)
        self.segment = segment
        return self.file

    def close(self) -> None:
        """Let go of the file, if one is open."""
        if self.file is not None:
            self.file.close()
        self.file = None
        self.segment = None

    def remove(self, segments: list[Segment]) -> None:
        """Take files away for good."""
        # Newest first, each durably gone before the next, so that a crash leaves no hole.
        for segment in reversed(segments):
            if segment is self.segment:
                self.close()
            self._journal.housekeeper.take_out(segment.path)

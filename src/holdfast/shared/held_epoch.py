"""
The epoch that this process holds: its beat, its segments, and how far it has stored and confirmed.

Owned by `DirectoryLog`, which asks `current` before it believes that anything here is confirmed,
and whether what was written stands where everybody else looks for it. Files that are open stay what
they were, whatever comes in the place of their directory: a copy of it has the same log and epoch.

Invariants:
    A segment is made and announced in the directory that has the beat, and in no copy of it.
    A segment is announced in the beat, durably, before an entry is written to it.
    `confirmed` is never ahead of `end`; a new segment continues at `confirmed`, and then the two
    are the same.
    What a beat calls sure is confirmed.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from typing import Final

from holdfast.environment.disk import DiskLock, NoRoomError
from holdfast.environment.shared_disk import SharedDisk
from holdfast.journal.entry import Entry, bytes_of
from holdfast.leases.contract import Claimant, Place
from holdfast.model.limits import KiB
from holdfast.shared.age import Look
from holdfast.shared.lease_files import Beat, BeatWriter
from holdfast.shared.log_view import EMPTY, FoundEnd
from holdfast.shared.page import PAGE_BYTES
from holdfast.shared.places import Places, SegmentName
from holdfast.shared.segments import SegmentPage, SegmentWriter
from holdfast.shared.settings import SharedSettings
from holdfast.shared.standing import require_standing

RESERVE_SEGMENTS: Final = 8
"""So many first segments have room: while less is free nothing is published."""
_LEAST_BYTES: Final = 64 * KiB
"""Of a segment, where there is no room for a larger one."""


def least_segment_bytes(settings: SharedSettings) -> int:
    """Return the size of a segment where there is no room for a larger one."""
    return min(_LEAST_BYTES, settings.first_segment_bytes)


class HeldEpoch:
    """What the holder of one epoch writes."""

    def __init__(
        self,
        disk: SharedDisk,
        places: Places,
        settings: SharedSettings,
        *,
        epoch: int,
        claimant: Claimant,
        identity: str,
    ) -> None:
        self._disk = disk
        self._places = places
        self._settings = settings
        self._identity = identity
        self.epoch = epoch
        self.claimant = claimant
        self.end = EMPTY
        """The last entry that is durable."""
        self.confirmed = EMPTY
        """The last one that was durable while this epoch was the newest."""
        self.first_index = 1
        self.last_beat = 0.0
        """When a beat was last written, by this machine's clock."""
        self._confirmed_term = self._end_term = 0
        self._confirmed_in: str | None = None
        """The segment that holds the entry `confirmed`."""
        self._end_in: str | None = None
        self._next_bytes = settings.first_segment_bytes
        self.reserve_bytes = RESERVE_SEGMENTS * settings.first_segment_bytes
        """What is kept free, so that messages can be acknowledged, and a lease be taken."""
        self.is_low = False
        """Whether less than that is left."""
        self.is_coherent = False
        """What is read by an open file is what is there: the file system is this machine's own."""
        self._beats: BeatWriter | None = None
        self._segment: SegmentWriter | None = None
        self._lock: DiskLock | None = None

    def give_first_beat(self, sure: Place, first_index: int) -> None:
        """
        Lock the claim, and make the file that the others will look for once the epoch has begun.

        Raises:
            OSError: It could not be done.
        """
        with suppress(BlockingIOError):  # A lock is only a hint.
            self._lock = self._disk.hold(self._places.claim(self.epoch))
        beat = Beat(counter=1, segment=None, sure=sure, first_index=first_index)
        self._beats = BeatWriter(self._disk, self._places, self.epoch, beat)

    def begin(self, found: FoundEnd, first_index: int) -> None:
        """
        Begin a segment behind what is surely durable, with a copy of what may not be.

        Raises:
            OSError: It could not be done; the epoch is lost.
        """
        self.first_index = first_index
        self.confirmed = found.sure
        self._confirmed_term = found.sure_term
        self._confirmed_in = found.segment
        self._begin_segment(found.behind)

    def write(self, entries: list[Entry]) -> None:
        """
        Write entries that follow on `end`; durable when this returns, and not confirmed.

        Raises:
            NoRoomError: There is no room for them, and none of them is there.
            OSError: They may be there. The same again goes into a new segment.
        """
        size = bytes_of(entries)
        segment = self._segment
        if segment is None or not segment.has_room(size):
            segment = self._begin_segment([], size)
        try:
            segment.write(entries)
        except BaseException:
            self._segment = None
            segment.close()
            raise
        self._move_end(entries[-1], segment)

    def note_confirmed(self) -> None:
        """What is durable is confirmed: this epoch was the newest after it was synced."""
        self.confirmed = self.end
        self._confirmed_term, self._confirmed_in = self._end_term, self._end_in

    def give_beat(self, now: float) -> None:
        """
        Give a sign of life that says what is confirmed.

        Raises:
            OSError: It may be given or not.
        """
        self._write_beat()
        self.last_beat = now
        self.look_for_room()

    def look_for_room(self) -> None:
        """See whether there is little; what cannot be seen stays as it was."""
        with suppress(OSError):
            wanted = self.reserve_bytes
            if self.is_low:
                wanted += wanted // 2  # Not back and forth with each segment that comes or goes.
            self.is_low = self._disk.free_bytes(self._places.root) < wanted

    def try_to_give_beat(self, now: float) -> None:
        """Give a sign of life if that works: the entries are one themselves."""
        self.last_beat = now
        with suppress(OSError):
            self._write_beat()
        self.look_for_room()

    def note_first_index(self, first_index: int, now: float) -> None:
        """
        Say from where on entries are kept; durable when this returns.

        Raises:
            OSError: It may be said or not.
        """
        self.first_index = first_index
        self._write_beat(both=True)
        self.last_beat = now

    def give_back(self) -> None:
        """
        Say that the lease may be taken at once.

        Raises:
            OSError: It may be said or not.
        """
        self._write_beat(is_released=True)

    def close(self) -> None:
        """Let go of all files and locks."""
        for it in (self._beats, self._segment):
            if it is not None:
                with suppress(OSError):
                    it.close()
        if self._lock is not None:
            with suppress(OSError):
                self._lock.release()
        self._beats = self._segment = self._lock = None

    def look(self) -> Look:
        """Return how far the log is for sure, for whoever looks."""
        assert self._beats is not None, "the epoch was let go"
        return Look(self.epoch, self._beats.durable_counter, self.end.index)

    def require_standing(self) -> None:
        """
        See that what this epoch has written stands in what the path leads to.

        Raises:
            UnreachableError: Other files have its names, or these have lost what was written.
            OSError: It cannot be seen.
        """
        beats, segment = self._beats, self._segment
        assert beats is not None, "the epoch was let go"
        root = self._places.root
        require_standing(self._disk, root, self._places.beat(self.epoch), beats.standing)
        if segment is not None:
            path = self._places.journal / segment.name
            require_standing(self._disk, root, path, segment.standing, is_coherent=self.is_coherent)

    def _begin_segment(self, copied: list[Entry], size: int = 0) -> SegmentWriter:
        """Make a segment that continues at `confirmed`, with these entries in it; announce it."""
        if self._segment is not None:
            self._segment.close()
            self._segment = None
        with self._disk.within(self._places.root):
            self.require_standing()
            return self._begin_segment_there(copied, size)

    def _begin_segment_there(self, copied: list[Entry], size: int) -> SegmentWriter:
        segment = self._make_segment(size + bytes_of(copied))
        try:
            if copied:
                segment.write(copied)
            # Nobody finds it before this: what it had then would be lost.
            self._write_beat(both=True, segment=segment.name)
        except BaseException:
            segment.close()
            raise
        self._segment = segment
        self.end = self.confirmed
        self._end_term, self._end_in = self._confirmed_term, self._confirmed_in
        if copied:
            self._move_end(copied[-1], segment)
        self.look_for_room()
        return segment

    def _make_segment(self, size: int) -> SegmentWriter:
        full = max(self._settings.segment_bytes, self._settings.first_segment_bytes)
        least = max(PAGE_BYTES + size, least_segment_bytes(self._settings))
        page = SegmentPage(
            name=SegmentName(self.confirmed.index + 1, self.epoch),
            cut=self.confirmed,
            cut_term=self._confirmed_term,
            previous=self._confirmed_in,
            capacity=max(self._next_bytes, PAGE_BYTES + size),
        )
        while True:
            try:
                made = SegmentWriter(self._disk, self._places, page, self._identity)
                self._next_bytes = min(2 * self._next_bytes, full)
                return made
            except NoRoomError:
                # A smaller one may have room: with each message acknowledged there is more.
                self._next_bytes = self._settings.first_segment_bytes
                if page.capacity <= least:
                    raise
                page = replace(page, capacity=max(least, page.capacity // 2))
            except FileExistsError:
                # Ours, of an attempt that failed.
                name = page.name._replace(attempt=page.name.attempt + 1)
                page = replace(page, name=name)

    def _write_beat(
        self, *, both: bool = False, is_released: bool = False, segment: str | None = None
    ) -> None:
        beats = self._beats
        assert beats is not None, "the epoch was let go"
        beats.write(
            Beat(
                counter=0,
                segment=segment or beats.last.segment,
                sure=self.confirmed,
                first_index=self.first_index,
                is_released=is_released,
            ),
            both=both,
        )

    def _move_end(self, entry: Entry, segment: SegmentWriter) -> None:
        self.end, self._end_term = Place(entry.index, entry.chain), entry.term
        self._end_in = segment.name

"""
The log of a shared directory, as it can be read now: which segments it is made of and how it ends.

A waiter asks several times a second, so what was verified once is not read again: only what stands
behind it in the newest segment, and what stands in a newer one. Only a take reads that segment from
its first entry: what had been seen before a sync may be gone since.

Invariants:
    `end` is reached from a segment's cut by entries whose checksums and chain are right.
    Behind the cut of a newer segment nothing of an older one is read.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Final

from holdfast.environment.shared_disk import SharedDisk
from holdfast.errors import CorruptEntryError, MissingEntriesError, StoreError, UnreachableError
from holdfast.journal.entry import FIRST_CHAIN, Entry, bytes_of, verify_chain
from holdfast.leases.contract import Place
from holdfast.shared.lease_files import Beat, CurrentFile, read_beat
from holdfast.shared.page import PAGE_BYTES
from holdfast.shared.places import Places
from holdfast.shared.segments import SegmentPage, SegmentReader, read_segment_page
from holdfast.shared.store_file import Origin

EMPTY: Final = Place(0, FIRST_CHAIN)


@dataclass(slots=True)
class _Tail:
    """How far the newest segment was read."""

    name: str = ""
    offset: int = PAGE_BYTES
    end: Place = EMPTY
    term: int = 0


@dataclass(slots=True)
class _Reading:
    """Where the next entry of a sequence stands."""

    name: str = ""
    offset: int = 0
    index: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundEnd:
    """How a log ends for good: what is surely durable, and what stands behind that."""

    sure: Place
    sure_term: int
    segment: str | None
    """The file that holds the entry of `sure`; None in an empty log."""

    behind: list[Entry] = field(default_factory=list)
    """Whole entries that follow; whether they are durable is not known."""


class LogView:
    """What one process knows of the log."""

    def __init__(
        self, disk: SharedDisk, places: Places, origin: Origin, current: CurrentFile
    ) -> None:
        self._disk = disk
        self._places = places
        self._origin = origin
        self._identity = origin.identity
        self._current = current
        self._segments: list[SegmentPage] = []
        """Without gap, the newest last; the older ones are looked up when they are wanted."""
        self._tail = _Tail(end=origin.place, term=origin.term)
        self._reading = _Reading()
        self.beat: Beat | None = None
        """Of the epoch that `refresh` looked at; None if there is none."""
        self.sure = origin.place
        self.first_index = origin.first_index

    @property
    def end(self) -> Place:
        """The last entry that could be seen."""
        return self._tail.end

    def refresh(self, epoch: int) -> None:
        """
        Look at the log as `epoch`, which has begun, has it now; the one before all: no epoch has.

        Raises:
            OSError: It could not be read.
            StoreError: It is damaged.
        """
        self.beat = self._beat_of(epoch) if epoch > self._origin.epoch_before else None
        self._find(epoch, self.beat)
        if self._segments:
            self._read_on()

    def find_end(self, epoch: int) -> FoundEnd:
        """
        Read how the log through `epoch` ends, all of it afresh, once nobody can add to it.

        Raises:
            CorruptEntryError: An entry that was durable once cannot be read any more.
            OSError: It could not be read.
        """
        self._find(epoch, None)
        if not self._segments:
            origin = self._origin
            return FoundEnd(sure=origin.place, sure_term=origin.term, segment=None)
        page = self._segments[-1]
        self._begin_tail(page)
        behind: list[Entry] = []
        sure = self.sure
        term = page.cut_term
        for entry in self._read_on():
            if entry.index > sure.index:
                behind.append(entry)
            elif entry.index == sure.index:
                term = entry.term
                self._require_same(entry)
        self._require_sure(page)
        is_cut = sure.index == page.cut.index
        return FoundEnd(
            sure=sure,
            sure_term=term,
            segment=page.previous if is_cut else str(page.name),
            behind=behind,
        )

    def read(self, after: int, through: int, bytes_max: int) -> list[Entry]:
        """
        Read entries in order, at least one if there is any.

        Raises:
            MissingEntriesError, CorruptEntryError: See the contract.
            UnreachableError: They are gone again, before anybody called them sure.
            OSError: They could not be read.
        """
        # An end before what is sure is damage, and it is told when it is read.
        through = min(through, max(self.end.index, self.sure.index))
        if after >= through:
            return []
        if after + 1 < self.first_index:
            raise MissingEntriesError(after + 1, self.first_index - 1, str(self._places.journal))
        found: list[Entry] = []
        anchor = self._origin.anchor
        if anchor is not None and after + 1 == anchor.index:
            found.append(anchor)
            after += 1
        while after < through:
            room = bytes_max - bytes_of(found)
            try:
                more = self._read_segment(after + 1, through, room, is_first=not found)
            except CorruptEntryError as error:
                if error.index <= self.sure.index:
                    raise
                # What was read before its sync is gone again, with a server's power: look anew.
                self._begin_tail(self._segments[-1])
                self._reading = _Reading()
                if not found:
                    raise UnreachableError(f"{error}: it was seen, and not yet sure") from error
                break
            if not more:
                break
            found += more
            after = more[-1].index
        return found

    def names_from(self, index: int) -> set[str]:
        """Return the segments that hold what there is from this entry on, and the newest."""
        if self._segments:
            self._reach_back(index)
        pairs = pairwise(self._segments)
        dropped = {str(it.name) for it, following in pairs if following.cut.index < index}
        self._segments = [it for it in self._segments if str(it.name) not in dropped]
        return {str(it.name) for it in self._segments}

    def _find(self, epoch: int, beat: Beat | None) -> None:
        """Find the newest segment: that of the last epoch up to this one that has begun one."""
        origin = self._origin
        for older in range(epoch, origin.epoch_before, -1):
            if beat is None and self._current.has_begun(older):
                beat = self._beat_of(older)
            # Who won an epoch and has not begun it by now will be deposed before it confirms.
            if beat is not None and beat.segment is not None:
                self.sure, self.first_index = beat.sure, beat.first_index
                self._follow(beat.segment)
                return
            beat = None
        self._segments, self._tail = [], _Tail(end=origin.place, term=origin.term)
        self.sure, self.first_index = origin.place, origin.first_index

    def _beat_of(self, epoch: int) -> Beat:
        """Return the beat of an epoch that has begun: its file was there before."""
        with _to_be_seen(self._places.beat(epoch)):
            return read_beat(self._disk, self._places, epoch)

    def _follow(self, name: str) -> None:
        if self._segments and str(self._segments[-1].name) == name:
            return
        with _to_be_seen(self._places.journal / name):
            page = read_segment_page(self._disk, self._places, name, self._identity)
        known = [str(it.name) for it in self._segments]
        kept = known.index(page.previous) + 1 if page.previous in known else 0
        self._segments = [*self._segments[:kept], page]
        self._begin_tail(page)

    def _begin_tail(self, page: SegmentPage) -> None:
        self._tail = _Tail(str(page.name), PAGE_BYTES, page.cut, page.cut_term)

    def _read_on(self) -> list[Entry]:
        """Read what follows in the newest segment, as far as it is whole and in the chain."""
        tail = self._tail
        found: list[Entry] = []
        with _to_be_seen(self._places.journal / tail.name):
            reader = SegmentReader(self._disk, self._places, tail.name)
        try:
            for offset, entry in reader.entries_from(tail.offset):
                is_next = entry.index == tail.end.index + 1
                if not (is_next and verify_chain(entry, tail.end.chain)):
                    break
                tail.offset, tail.end = offset, Place(entry.index, entry.chain)
                tail.term = entry.term
                found.append(entry)
        except CorruptEntryError:
            pass  # Torn, or just being written.
        finally:
            reader.close()
        return found

    def _require_sure(self, page: SegmentPage) -> None:
        if self.end.index < self.sure.index:
            raise CorruptEntryError(
                "an entry that was confirmed is damaged",
                segment=str(self._places.journal / str(page.name)),
                byte=self._tail.offset,
                index=self.end.index + 1,
            )

    def _require_same(self, entry: Entry) -> None:
        if entry.chain != self.sure.chain:
            raise StoreError(
                f"entry {entry.index:,} in {self._places.journal} is not the one that was"
                f" confirmed: a file was changed, or brought back from an older copy; stop all"
                f" brokers, and get the whole directory back from a copy"
            )

    def _reach_back(self, index: int) -> None:
        """Look up older segments, back to the one that holds this entry or the first one kept."""
        wanted = max(index, self.first_index)
        while self._segments[0].name.base > wanted:
            name = self._segments[0].previous
            if name is None:
                return
            page = read_segment_page(self._disk, self._places, name, self._identity)
            self._segments.insert(0, page)

    def _read_segment(self, index: int, through: int, room: int, *, is_first: bool) -> list[Entry]:
        """Read from this entry on, as far as its segment goes and as much as there is room for."""
        try:
            self._reach_back(index)
            place = max(at for at, it in enumerate(self._segments) if it.name.base <= index)
            if place + 1 < len(self._segments):
                through = min(through, self._segments[place + 1].cut.index)
            name = str(self._segments[place].name)
            if (self._reading.name, self._reading.index) != (name, index):
                base = self._segments[place].name.base
                self._reading = _Reading(name, PAGE_BYTES, base)
            reader = SegmentReader(self._disk, self._places, name)
        except (FileNotFoundError, ValueError) as error:
            raise MissingEntriesError(index, through, str(self._places.journal)) from error
        try:
            return self._read_entries(reader, range(index, through + 1), room, is_first=is_first)
        finally:
            reader.close()

    def _read_entries(
        self, reader: SegmentReader, wanted: range, room: int, *, is_first: bool
    ) -> list[Entry]:
        found: list[Entry] = []
        reading = self._reading
        expected = wanted.start
        try:
            for offset, entry in reader.entries_from(reading.offset, wanted.start):
                self._require_index(entry, expected)
                room -= len(entry.raw)
                if room < 0 and (found or not is_first):
                    return found
                found.append(entry)
                expected += 1
                reading.offset, reading.index = offset, expected
                if expected == wanted.stop:
                    return found
        except CorruptEntryError as error:
            raise CorruptEntryError(
                error.reason, segment=error.segment, byte=error.byte, index=expected
            ) from error
        raise MissingEntriesError(
            expected, wanted.stop - 1, str(self._places.journal / reading.name)
        )

    def _require_index(self, entry: Entry, expected: int) -> None:
        if entry.index != expected:
            raise StoreError(
                f"{self._places.journal / self._reading.name} has entry {entry.index:,} where entry"
                f" {expected:,} belongs: it was changed; get it back from a copy of the directory"
            )


@contextmanager
def _to_be_seen(path: Path) -> Iterator[None]:
    """A file that was named is there: seen a little later, or dropped since, by who then rolled."""
    try:
        yield
    except FileNotFoundError as error:
        raise UnreachableError(f"{path} is named as the newest and cannot be seen") from error

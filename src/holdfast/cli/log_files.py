"""
The log of a data directory, read by a tool: nothing is written and no lock is taken.

The directory may belong to a stopped node, be a copy, or be in use: a running node writes at the
end of the last segment, so what looks wrong there is looked at again before it is believed.

Invariants:
    Whether bytes are good is decided by `journal.scan` alone, as when a node starts.
    One segment is in memory at a time.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from holdfast.environment.disk import RealDisk, RealFile
from holdfast.errors import BallotLostError, ConfigError, CorruptEntryError, SegmentsMissingError
from holdfast.journal.ballot import NO_CLAIM, BallotFile, LogClaim
from holdfast.journal.damage import Damage
from holdfast.journal.entry import Entry, parse_entry
from holdfast.journal.found_log import LogScan, Progress
from holdfast.journal.scan import scan_log
from holdfast.journal.segment import Segment, base_index_of

LOOKS_MAX: Final = 4
"""How often the end of a log that is being written is looked at before it is called moving."""

SECONDS_BETWEEN_LOOKS: Final = 0.05

TailReport = Literal["clean", "torn", "unknown", "moving"]

Visit = Callable[[int, int], None]
"""Called with (bytes done, bytes in all)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verification:
    """What is in a log and everything that is wrong with it."""

    directory: Path
    segments: int
    bytes_read: int
    first_index: int
    last_index: int
    last_term: int
    last_chain: bytes
    next_record: int
    damage: tuple[Damage, ...]
    tail: TailReport
    tail_segment: str
    tail_byte: int
    tail_reason: str
    ballot_problem: str
    """Empty if identity, term and vote can be read, or there is no ballot, as in a copied log."""

    @property
    def is_clean(self) -> bool:
        """Nothing that was stored is damaged. An interrupted write at the end is no damage."""
        return not self.damage and not self.ballot_problem and self.tail != "unknown"


class LogFiles:
    """The segment files of one data directory, oldest first."""

    __slots__ = ("_claim", "ballot_problem", "journal", "names")

    def __init__(self, directory: Path) -> None:
        self.journal = directory / "journal"
        if not self.journal.is_dir() and any(directory.glob("*.segment")):
            self.journal = directory
        if not self.journal.is_dir():
            raise ConfigError([f"{directory} is no data directory: there is no journal in it"])
        listing = _ReadingDisk().list_directory(self.journal)
        self.names = [name for name in listing if base_index_of(name) is not None]
        self._claim, self.ballot_problem = _read_claim(self.journal.parent / "ballot")

    def verify(self, progress: Progress | None = None) -> Verification:
        """
        Read and check every byte of the log.

        Raises:
            SegmentsMissingError: Files are missing at the log's beginning.
            StoreError: A file is missing, foreign or of another version.
        """
        scan = self._scan_all(progress)
        damage = scan.damage
        segments, bytes_read = len(scan.segments), scan.bytes_read
        first = scan.segments[0].base_index if scan.segments else 1
        scan, is_moving = self._look_again(scan)
        if scan.damage is not damage:
            last = scan.segments[-1].path.name
            damage = [each for each in damage if each.segment != last]
            damage += [] if is_moving else scan.damage
        return Verification(
            directory=self.journal.parent,
            segments=segments,
            bytes_read=bytes_read,
            first_index=first,
            last_index=scan.last_index,
            last_term=scan.last_term,
            last_chain=scan.last_chain,
            next_record=scan.next_record,
            damage=tuple(damage),
            tail="moving" if is_moving else scan.tail.state,
            tail_segment=scan.segments[-1].path.name if scan.segments else "",
            tail_byte=scan.tail.start,
            tail_reason=scan.tail.reason,
            ballot_problem=self.ballot_problem,
        )

    def between(
        self, from_index: int, to_index: int | None, visit: Visit | None = None
    ) -> Iterator[Entry | Damage]:
        """
        The entries of this range in order, and in place of one that is damaged, its damage.

        What belongs to no entry is given with the files that may hold some of the range.

        Raises:
            StoreError: A file is foreign or of another version.
        """
        for entry in self.entries(self._names_between(from_index, to_index), visit):
            last = entry.index if to_index is None else to_index
            if not entry.index or from_index <= entry.index <= last:
                yield entry

    def close(self) -> None:
        """Nothing is open between two calls."""

    def _names_between(self, from_index: int, to_index: int | None) -> list[str]:
        """The files that may hold entries of this range."""
        bases = [base_index_of(name) or 0 for name in self.names]
        chosen = []
        for place, name in enumerate(self.names):
            ends_before = place + 1 < len(bases) and bases[place + 1] <= from_index
            begins_after = to_index is not None and bases[place] > to_index
            if not ends_before and not begins_after:
                chosen.append(name)
        return chosen

    def entries(self, names: list[str], visit: Visit | None = None) -> Iterator[Entry | Damage]:
        """
        The entries of these files in order, and in place of one that is damaged, its damage.

        Raises:
            StoreError: A file is foreign or of another version.
        """
        names = [name for name in names if (self.journal / name).exists()]
        done, total = 0, sum((self.journal / name).stat().st_size for name in names)
        for name in names:
            scan = self._scan_only(name)
            for segment in scan.segments:
                yield from _entries_of(segment, scan.damage)
            done += scan.bytes_read
            if visit is not None:
                visit(done, total)

    def _scan_all(self, progress: Progress | None) -> LogScan:
        """Scan the log; once more if a running node dropped a segment meanwhile."""
        disk = _ReadingDisk()
        try:
            return scan_log(self.journal, disk, claim=self._claim, progress=progress)
        except (FileNotFoundError, SegmentsMissingError):
            # The first index is noted before a file goes.
            self._claim, self.ballot_problem = _read_claim(self.journal.parent / "ballot")
            return scan_log(self.journal, disk, claim=self._claim, progress=progress)

    def _scan_only(self, name: str) -> LogScan:
        return scan_log(self.journal, _ReadingDisk(), claim=self._claim, only=name)

    def _look_again(self, scan: LogScan) -> tuple[LogScan, bool]:
        """Give an end that looks wrong the time to be written; tell whether it moves."""
        seen = _wrong_places(scan)
        for _ in range(LOOKS_MAX):
            if not seen:
                return scan, False
            time.sleep(SECONDS_BETWEEN_LOOKS)
            scan = self._scan_only(scan.segments[-1].path.name)
            now = _wrong_places(scan)
            if now == seen:
                return scan, False
            seen = now
        return scan, bool(seen)


class _ReadingDisk(RealDisk):
    """The disk, opened for reading only."""

    __slots__ = ()

    def open(self, path: Path, *, create: bool = False, writable: bool = True) -> RealFile:
        return super().open(path, create=False, writable=False)


def _wrong_places(scan: LogScan) -> tuple[tuple[str, int], ...]:
    """What is wrong in the last segment, where a running node writes."""
    if not scan.segments:
        return ()
    last = scan.segments[-1].path.name
    places = [(each.reason, each.byte) for each in scan.damage if each.segment == last]
    if scan.tail.state != "clean":
        places.append((scan.tail.state, scan.tail.start))
    return tuple(places)


def _entries_of(segment: Segment, damage: list[Damage]) -> Iterator[Entry | Damage]:
    damaged = {each.index: each for each in damage}
    if 0 in damaged:
        yield damaged[0]
    with segment.path.open("rb", buffering=0) as file:
        for index in range(segment.base_index, segment.last_index + 1):
            if index in damaged:
                yield damaged[index]
                continue
            start, size = segment.place(index)
            file.seek(start)
            try:
                yield parse_entry(file.read(size))
            except CorruptEntryError as error:
                yield Damage(segment.path.name, start, index, error.reason)
    for index, each in damaged.items():
        if index > segment.last_index:
            yield each


def _read_claim(path: Path) -> tuple[LogClaim, str]:
    """What the node's ballot says of the log; and what is wrong with the ballot."""
    ballot_file = BallotFile(path, _ReadingDisk())
    try:
        ballot = ballot_file.load()
    except BallotLostError as error:
        return NO_CLAIM, str(error)
    finally:
        ballot_file.close()
    return (NO_CLAIM if ballot is None else ballot.claim), ""

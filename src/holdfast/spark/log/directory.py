"""
A log read from files: the data directory of a node, running or stopped, or a copy of it.

Nothing is written and no lock is taken. A running node writes at the end of the last segment; what
looks wrong there is looked at again before it is believed, and an end that is still being written
is simply where the log ends. Which bytes are damaged is decided by `journal.scan` alone.

Files cannot tell what the cluster has committed: the last entries of a member that was cut off from
the others may be replaced when it comes back. Read a running cluster by its URL.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from holdfast.broker.lasting.checkpoint import decode_queue_names
from holdfast.environment.disk import RealDisk, RealFile
from holdfast.errors import (
    BallotLostError,
    CorruptEntryError,
    RecordNotFoundError,
    SegmentsMissingError,
    StoreError,
)
from holdfast.journal.ballot import NO_CLAIM, Ballot, BallotFile, LogClaim
from holdfast.journal.checkpoint import CheckpointStore
from holdfast.journal.entry import HEADER_BYTES, entry_bytes, parse_header
from holdfast.journal.found_log import LogScan
from holdfast.journal.scan import scan_log
from holdfast.journal.segment import SEGMENT_HEADER_BYTES, base_index_of, segment_name
from holdfast.spark.log.entry_block import EntryBlock, cut_entries, problem, skip_entries
from holdfast.spark.log.source import BLOCK_BYTES, DamagedRange, LogPosition

LOOKS_MAX: Final = 4
SECONDS_BETWEEN_LOOKS: Final = 0.05


@dataclass(frozen=True)
class LogDirectory:
    """
    The log in a data directory, or in its `journal` folder alone.

    `cluster_id` is wanted for message ids where the directory has no ballot, as in a bare copy.
    """

    path: str
    cluster_id: str = ""
    is_partial: bool = False
    """Read what there is, also if files are missing at the beginning: for who looks for that."""

    @property
    def journal(self) -> Path:
        """Where the segment files are."""
        inner = Path(self.path) / "journal"
        return inner if inner.is_dir() else Path(self.path)

    def bases(self) -> list[int]:
        """
        The first index of each segment file, ascending.

        Raises:
            StoreError: There is no such directory, or no log in it.
        """
        try:
            names = [each.name for each in self.journal.iterdir()]
        except OSError as error:
            raise StoreError(f"{self.path} cannot be read: {error.strerror}") from error
        found = sorted(base for name in names if (base := base_index_of(name)) is not None)
        if not found and not (Path(self.path) / "ballot").exists():
            raise StoreError(f"{self.path} holds no log: there is no segment file in it")
        return found

    def position(self) -> LogPosition:
        """
        How far the files go.

        Raises:
            StoreError: There is no log, or a file is of an unknown version.
            SegmentsMissingError: Files that were not cleaned away are gone.
        """
        bases = self.bases()
        # After the files were listed: the ballot is raised before one of them goes.
        ballot = self._ballot()
        if not self.is_partial:
            _require_beginning(self.path, bases, ballot)
        cluster = self.cluster_id or (ballot.cluster_id.hex() if ballot is not None else "")
        if not bases:
            return LogPosition(first_index=1, last_index=0, cluster_id=cluster)
        claim = ballot.claim if ballot is not None else NO_CLAIM
        last, timestamp = self._end(bases[-1], claim)
        return LogPosition(
            first_index=bases[0],
            last_index=last,
            cluster_id=cluster,
            bases=tuple(bases),
            last_timestamp=timestamp,
        )

    def blocks(self, first_index: int, last_index: int) -> Iterator[EntryBlock | DamagedRange]:
        """
        Give these entries, verified.

        Raises:
            RecordNotFoundError: They were dropped meanwhile, or never there.
            SegmentsMissingError: Their files are gone and were not cleaned away.
        """
        bases = self.bases()
        if bases and first_index < bases[0] and not self.is_partial:
            _require_beginning(self.path, bases, self._ballot())
        if first_index <= last_index and (not bases or first_index < bases[0]):
            first = bases[0] if bases else 1
            raise RecordNotFoundError(
                f"entries {first_index:,} to {min(first, last_index + 1) - 1:,} are no longer in"
                f" {self.path}, which begins with entry {first:,}: a named hold keeps the log for"
                f" its reader"
            )
        for place, base in enumerate(bases):
            following = bases[place + 1] if place + 1 < len(bases) else last_index + 1
            low, high = max(first_index, base), min(last_index, following - 1)
            if low <= high:
                yield from _SegmentReading(self.journal / segment_name(base), base).blocks(
                    low, high
                )

    def queue_names(self) -> dict[int, str]:
        """The names that the newest readable checkpoint tells."""
        checkpoints = CheckpointStore(Path(self.path), _ReadingDisk())
        for checkpoint in checkpoints.readable():
            try:
                return decode_queue_names(checkpoint.body)
            except StoreError:
                continue
        return {}

    def reach(self, from_index: int, bytes_max: int) -> int:
        """The last index such that entries from `from_index` on are about `bytes_max` together."""
        last = self.position().last_index
        total = 0
        reached = from_index - 1
        for block in self.blocks(from_index, last):
            if isinstance(block, DamagedRange):
                reached = block.last_index
                continue
            sizes = (block.ends - block.starts).cumsum() + total
            fitting = int((sizes <= bytes_max).sum())
            if fitting < len(block):
                reached = block.first_index + fitting - 1
                break
            reached = block.last_index
            total = int(sizes[-1])
        return min(max(reached, from_index), last)

    def _end(self, base: int, claim: LogClaim) -> tuple[int, int]:
        """Give the last index and its time, looking at the last segment alone."""
        path = self.journal / segment_name(base)
        for _ in range(LOOKS_MAX):
            index, timestamp, is_clean = _good_end(path, base)
            if is_clean:
                return index, timestamp
            scan = _scan_segment(path, claim)
            if not any(damage.index for damage in scan.damage):
                return index, timestamp  # torn, or being written: the log ends before it
            time.sleep(SECONDS_BETWEEN_LOOKS)
            if _scan_segment(path, claim).damage == scan.damage:
                return scan.last_index, scan.last_timestamp
        return index, timestamp

    def _ballot(self) -> Ballot | None:
        file = BallotFile(Path(self.path) / "ballot", _ReadingDisk())
        try:
            return file.load()
        except (BallotLostError, OSError):
            return None
        finally:
            file.close()


def _require_beginning(path: str, bases: list[int], ballot: Ballot | None) -> None:
    """
    Make sure that the log reaches back as far as its node had kept it.

    Without a ballot, as in a bare copy of the journal, nobody can know.

    Raises:
        SegmentsMissingError: It does not.
    """
    if ballot is None:
        return
    kept = ballot.claim.first_index
    if not bases and ballot.claim.floor >= max(kept, 1):
        raise SegmentsMissingError(
            f"{path}: no file of the log is left, but its node had stored entries up to"
            f" {ballot.claim.floor:,}; read another replica, or the archive"
        )
    if bases and 0 < kept < bases[0]:
        raise SegmentsMissingError(
            f"{path} begins with entry {bases[0]:,}, but its node had kept the log from entry"
            f" {kept:,} on: the files of entries {kept:,} to {bases[0] - 1:,} are missing; restore"
            f" them, or read another replica or the archive"
        )


class _SegmentReading:
    """One pass through a segment file."""

    def __init__(self, path: Path, base: int) -> None:
        self.path = path
        self.offset = SEGMENT_HEADER_BYTES
        self.index = base
        self._is_sure = False
        """An entry was verified here: what was passed over before had the lengths that it said."""

    def blocks(self, first: int, last: int) -> Iterator[EntryBlock | DamagedRange]:
        """Give entries `first` to `last`; what cannot be read as damage."""
        try:
            file = os.open(self.path, os.O_RDONLY)
        except FileNotFoundError as error:
            raise RecordNotFoundError(
                f"{self.path.name} was dropped while the log was read: a named hold keeps the"
                f" log for its reader"
            ) from error
        wanted = BLOCK_BYTES
        try:
            while self.index <= last:
                data = os.pread(file, wanted, self.offset)
                index, start = skip_entries(data, self.index, first)
                block = cut_entries(data, index, offset=start, through_index=last)
                self.index, self.offset = index + len(block), self.offset + block.end
                if len(block):
                    self._is_sure = True
                    yield block.between(first, last)
                if block.end:
                    wanted = BLOCK_BYTES
                    continue
                more = _entry_size(data, wanted) if len(data) == wanted else 0
                if more:
                    wanted = more
                    continue
                if not self._is_sure and self._was_led_astray():
                    continue
                damaged = self._damaged(data, last)
                if damaged.last_index >= first:
                    yield damaged
        finally:
            os.close(file)

    def _was_led_astray(self) -> bool:
        """Go to where an entry is, if the damaged length of one passed over led somewhere else."""
        self._is_sure = True
        scan = _scan_segment(self.path, NO_CLAIM)
        segment = scan.segments[0]
        is_damaged = self.index in {damage.index for damage in scan.damage}
        if is_damaged or not segment.base_index <= self.index <= segment.last_index:
            return False
        offset, self.offset = self.offset, segment.place(self.index)[0]
        return offset != self.offset

    def _damaged(self, data: bytes, last: int) -> DamagedRange:
        """Describe the damage at the present place, and go to where the log goes on."""
        found = problem(data, 0, self.index)
        reason = found.reason if found is not None else "the file ends before the entry does"
        if found is not None and not any(data[:HEADER_BYTES]):
            reason = "the entry is missing"
        error = CorruptEntryError(
            reason, segment=self.path.name, byte=self.offset, index=self.index
        )
        first = self.index
        self.index, self.offset = self._next_good(data, last)
        return DamagedRange(first, self.index - 1, error)

    def _next_good(self, data: bytes, last: int) -> tuple[int, int]:
        try:
            fields = parse_header(data)
        except CorruptEntryError:
            pass
        else:
            if fields.entry_index == self.index:
                return self.index + 1, self.offset + entry_bytes(fields.body_length)
        scan = _scan_segment(self.path, NO_CLAIM)
        damaged = {damage.index for damage in scan.damage}
        segment = scan.segments[0]
        for index in range(self.index + 1, min(segment.last_index, last) + 1):
            if index not in damaged:
                return index, segment.place(index)[0]
        return last + 1, self.offset


def _entry_size(data: bytes, wanted: int) -> int:
    """Give how large the entry is that begins here, if it is larger than what was read."""
    try:
        size = entry_bytes(parse_header(data).body_length)
    except CorruptEntryError:
        return 0
    return size if size > wanted else 0


def _good_end(path: Path, base: int) -> tuple[int, int, bool]:
    """Give the last good index, its time, and whether nothing but zeros is behind it."""
    timestamp = 0
    index = base - 1
    offset = SEGMENT_HEADER_BYTES
    size = path.stat().st_size
    wanted = BLOCK_BYTES
    with path.open("rb", buffering=0) as file:
        while offset < size:
            data = os.pread(file.fileno(), wanted, offset)
            block = cut_entries(data, index + 1)
            if not len(block):
                more = _entry_size(data, wanted) if len(data) == wanted else 0
                if not more:
                    return index, timestamp, not any(data[:HEADER_BYTES])
                wanted = more
                continue
            wanted = BLOCK_BYTES
            index = block.last_index
            timestamp = int(block.field("timestamp")[-1])
            offset += block.end
    return index, timestamp, True


def _scan_segment(path: Path, claim: LogClaim) -> LogScan:
    return scan_log(path.parent, _ReadingDisk(), claim=claim, only=path.name)


class _ReadingDisk(RealDisk):
    """The disk, opened for reading only."""

    __slots__ = ()

    def open(self, path: Path, *, create: bool = False, writable: bool = True) -> RealFile:
        return super().open(path, create=False, writable=False)

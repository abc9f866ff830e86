"""
Give one mirror's log what it has lost and another mirror has whole, before its bytes go to all.

The same entry stands at the same byte of the same file in every mirror: where an entry goes depends
on the log's content alone. So an entry that is whole in one mirror can be written at its place in
another one, whatever stands there: also where a whole run of entries has gone, headers and all.

Invariants:
    Nothing whole is written over: not by other bytes of the same entry, not by another entry.
    What is left damaged afterwards is whole in no mirror.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import structlog

from holdfast.environment.disk import Disk
from holdfast.errors import CorruptEntryError, StoreError
from holdfast.journal.ballot import LogClaim
from holdfast.journal.checkpoint import checkpoint_name, whole_checkpoints
from holdfast.journal.entry import (
    HEADER_BYTES,
    Entry,
    entry_bytes,
    parse_entry,
    parse_header,
    verify_chain,
)
from holdfast.journal.found_log import LogScan
from holdfast.journal.reading import is_entry
from holdfast.journal.scan import scan_log
from holdfast.journal.segment import (
    SEGMENT_HEADER_BYTES,
    Segment,
    base_index_of,
    decode_segment_header,
    segment_name,
)

log = structlog.get_logger("holdfast.server")

_PIECE_BYTES = 1 << 20


@dataclass(slots=True)
class JudgedLog:
    """One mirror's log, as it was found."""

    directory: Path
    disk: Disk
    scan: LogScan
    problem: StoreError | None = None

    @property
    def worth(self) -> tuple[int, int]:
        """The longest, and of those the one with the least damage."""
        return (-1, 0) if self.problem else (self.scan.last_index, -len(self.scan.damage))


def restore_files(judged: JudgedLog, others: Sequence[JudgedLog], first_index: int) -> int:
    """
    Bring back segment files that this log lacks and another has; gives how many.

    For a log that is damaged, or cannot be read as it is: one that is only behind lacks nothing.

    Args:
        first_index: The first entry that is to be there.
    """
    own = _segment_names(judged)
    count = 0
    for other in others:
        for name in sorted(_segment_names(other) - own):
            base = base_index_of(name)
            if base is not None and base >= first_index:
                source = other.directory / "journal" / name
                _copy(other.disk, source, judged, judged.directory / "journal" / name)
                own.add(name)
                count += 1
                log.error("a file is brought back by another mirror's copy", segment=name)
    return count


def mend_log(best: JudgedLog, others: Sequence[JudgedLog]) -> int:
    """
    Write every entry again that this log has not whole and another one has; gives how many.

    Raises:
        OSError: A disk refused.
    """
    if not best.scan.damage:
        return 0
    damaged = {segment.path.name for segment in _damaged_segments(best.scan)}
    count = 0
    for other in others:
        for segment in _readable_segments(other):
            if segment.path.name in damaged:
                count += _mend_segment(best, other, segment)
    return count


def rescued(source: tuple[Path, Disk], target: tuple[Path, Disk]) -> list[tuple[int, bytes]]:
    """
    What a copy of a segment that is about to be written over has whole, and the first one has not.

    The other copy was left behind: its entries count only where they join what stands before and
    after them in the first one, by their chain.

    Returns:
        Where in the file, and the bytes, of each entry; none if the file is no segment.
    """
    path, disk = source
    if base_index_of(path.name) is None or path.parent.name != "journal":
        return []
    try:
        scan = scan_log(path.parent, disk, only=path.name)
    except (StoreError, OSError):
        return []
    if not scan.damage:
        return []
    there, other = target
    found: list[tuple[int, bytes]] = []
    for segment in scan.segments:
        for run in _runs(segment, {it.index for it in scan.damage}):
            found += _joining(segment, disk, run, there, other)
    return found


def _runs(segment: Segment, damaged: set[int]) -> Iterator[tuple[int, int]]:
    """The first and the last entry of each run of damaged ones."""
    first = 0
    for index in range(segment.base_index, segment.last_index + 2):
        is_bad = index in damaged and index <= segment.last_index
        if is_bad and not first:
            first = index
        elif not is_bad and first:
            yield first, index - 1
            first = 0


def _joining(
    segment: Segment, disk: Disk, run: tuple[int, int], there: Path, other: Disk
) -> list[tuple[int, bytes]]:
    """The entries of a run as the other copy has them; none if they do not join at both ends."""
    first, last = run
    start, _ = segment.place(first)
    chain = segment.header.previous_chain
    if first > segment.base_index:
        before = _entry_at(disk, segment.path, *segment.place(first - 1))
        if before is None:
            return []
        chain = before.chain
    found: list[tuple[int, bytes]] = []
    for index in range(first, last + 1):
        entry = _entry_at(other, there, start, 0)
        if entry is None or entry.index != index or not verify_chain(entry, chain):
            return []
        found.append((start, entry.raw))
        start, chain = start + len(entry.raw), entry.chain
    if last == segment.last_index:
        # What comes after it is in another file, or nothing is: the header must have said it.
        return found if _stated_chain(disk, segment, last) == chain else []
    after = _entry_at(disk, segment.path, start, 0)
    is_next = after is not None and after.index == last + 1 and verify_chain(after, chain)
    return found if is_next else []


def _stated_chain(disk: Disk, segment: Segment, last: int) -> bytes | None:
    """The chain value after a segment's last entry, as the next segment or its header says it."""
    path = segment.path.with_name(segment_name(last + 1))
    try:
        block = read_bytes(disk, path, 0, SEGMENT_HEADER_BYTES)
        header = None if block is None else decode_segment_header(block)
    except StoreError:
        header = None
    if header is not None:
        return header.previous_chain
    block = read_bytes(disk, segment.path, segment.place(last)[0], HEADER_BYTES)
    try:
        fields = parse_header(block or b"")
    except CorruptEntryError:
        return None
    return fields.chain if fields.entry_index == last else None


def _entry_at(disk: Disk, path: Path, start: int, size: int) -> Entry | None:
    """The sound entry that stands there; its header says how long it is if `size` is 0."""
    try:
        if not size:
            size = entry_bytes(
                parse_header(read_bytes(disk, path, start, HEADER_BYTES) or b"").body_length
            )
        return parse_entry(read_bytes(disk, path, start, size) or b"")
    except CorruptEntryError:
        return None


def mend_checkpoints(best: JudgedLog, others: Sequence[JudgedLog]) -> int:
    """
    Bring back checkpoints that are whole in another mirror and not here; gives how many.

    A log that was cleaned cannot be read without one.
    """
    own = whole_checkpoints(best.directory, best.disk)
    count = 0
    for other in others:
        for index in sorted(whole_checkpoints(other.directory, other.disk) - own):
            name = checkpoint_name(index)
            best.disk.make_directory(best.directory / "checkpoints")
            here = best.directory / "checkpoints" / name
            _copy(other.disk, other.directory / "checkpoints" / name, best, here)
            own.add(index)
            count += 1
            log.error("a checkpoint is brought back by another mirror's copy", checkpoint=name)
    return count


def judge(place: tuple[Path, Disk], claim: LogClaim) -> JudgedLog:
    """Read a mirror's log; why it cannot be read is told by `problem`."""
    directory, disk = place
    try:
        return JudgedLog(directory, disk, scan_log(directory / "journal", disk, claim=claim))
    except StoreError as error:
        return JudgedLog(directory, disk, LogScan(), error)
    except OSError as error:
        return JudgedLog(directory, disk, LogScan(), StoreError(f"{directory}: {error}"))


def read_bytes(disk: Disk, path: Path, start: int, size: int) -> bytes | None:
    """Read a part of a file; None if it cannot be read."""
    try:
        file = disk.open(path, writable=False)
        try:
            return file.read(size, start)
        finally:
            file.close()
    except OSError:
        return None


def _segment_names(judged: JudgedLog) -> set[str]:
    try:
        names = judged.disk.list_directory(judged.directory / "journal")
    except OSError:
        return set()
    return {name for name in names if base_index_of(name) is not None}


def _damaged_segments(scan: LogScan) -> Iterator[Segment]:
    names = {it.segment for it in scan.damage}
    return (it for it in scan.segments if it.path.name in names)


def _readable_segments(judged: JudgedLog) -> Iterator[Segment]:
    """Where the entries of a log are, file by file, also of one that is not whole."""
    if judged.problem is None:
        yield from judged.scan.segments
        return
    for name in sorted(_segment_names(judged)):
        try:
            scan = scan_log(judged.directory / "journal", judged.disk, only=name)
        except (StoreError, OSError):
            continue
        yield from scan.segments


def _mend_segment(best: JudgedLog, other: JudgedLog, there: Segment) -> int:
    """Write the entries of one file again, and its header."""
    here = best.directory / "journal" / there.path.name
    count = 0
    file = best.disk.open(here)
    try:
        header = read_bytes(other.disk, there.path, 0, SEGMENT_HEADER_BYTES)
        own = read_bytes(best.disk, here, 0, SEGMENT_HEADER_BYTES)
        if header is not None and _is_header(header) and not _is_header(own):
            file.write(header, 0)
        for index in range(there.base_index, there.last_index + 1):
            start, size = there.place(index)
            is_good = is_entry(index)
            mine = read_bytes(best.disk, here, start, size)
            if mine is not None and is_good(mine):
                continue
            raw = read_bytes(other.disk, there.path, start, size)
            if raw is None or not is_good(raw):
                continue
            file.write(raw, start)
            count += 1
            log.error("an entry is mended by another mirror's copy", entry=index, segment=here.name)
        file.sync()
    finally:
        file.close()
    return count


def _is_header(block: bytes | None) -> bool:
    try:
        return block is not None and decode_segment_header(block) is not None
    except StoreError:
        return False


def _copy(source: Disk, path: Path, judged: JudgedLog, copy: Path) -> None:
    """Copy a file, durably; under its name it is whole at once."""
    disk, draft = judged.disk, judged.directory / f"{copy.name}.restored"
    reading = source.open(path, writable=False)
    try:
        writing = disk.open(draft, create=True)
        try:
            size = reading.size()
            writing.truncate(size)
            for offset in range(0, size, _PIECE_BYTES):
                writing.write(reading.read(min(_PIECE_BYTES, size - offset), offset), offset)
            writing.sync()
        finally:
            writing.close()
    finally:
        reading.close()
    disk.rename(draft, copy)
    disk.sync_directory(copy.parent)
    disk.sync_directory(judged.directory)

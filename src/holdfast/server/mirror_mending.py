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
from holdfast.errors import StoreError
from holdfast.journal.ballot import LogClaim
from holdfast.journal.checkpoint import checkpoint_name, whole_checkpoints
from holdfast.journal.found_log import LogScan
from holdfast.journal.reading import is_entry
from holdfast.journal.rescue import read_bytes
from holdfast.journal.scan import scan_log
from holdfast.journal.segment import (
    SEGMENT_HEADER_BYTES,
    Segment,
    base_index_of,
    decode_segment_header,
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

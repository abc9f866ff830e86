"""
Bring the files of a log to a good state after a start, once `scan` has said how they are.

A torn end is cut and a copy of its bytes kept; the place after the last entry is all zeros again;
entries that may never have reached the disk are written again.

Invariants:
    Writes only behind the last good entry, and the same bytes again in their own place.
    A crash during recovery leaves a log that the next recovery judges in the same way.
    What is left is a prefix of the log that holds everything ever reported stored, with every
    place where that is not so listed in `damage`.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from pathlib import Path
from typing import Final

from holdfast.environment.disk import Disk, DiskFile, NoRoomError, fill_zeros, is_no_room
from holdfast.errors import CorruptEntryError, JournalFailedError
from holdfast.journal.entry import FLAG_ZEROS, HEADER_BYTES, entry_bytes, parse_header
from holdfast.journal.found_log import LogScan
from holdfast.journal.housekeeper import put_aside
from holdfast.journal.jobs import RUN_BYTES_MAX
from holdfast.journal.segment import Segment
from holdfast.journal.traces import read_what_is_readable

CUT_BYTES_MAX: Final = RUN_BYTES_MAX // 2
"""The most bytes that a cut makes zero between two syncs."""

KEPT_BYTES_DIRECTORY: Final = "cut-off"
"""Where they are kept if `lost+found` is the file system's own."""

logger = logging.getLogger("holdfast.journal")


def finish_recovery(
    scan: LogScan,
    disk: Disk,
    *,
    durable_floor: int,
    resolve_unknown_tail: bool,
    lost_and_found: Path,
) -> None:
    """
    Bring the files to the state that `scan` describes, durably.

    A torn tail is cut, an unknown one only with `resolve_unknown_tail`; a copy of the bytes goes
    to `lost_and_found`. What may never have reached the disk is written again: after a failed
    sync the cache shows bytes that the disk does not have.

    Raises:
        JournalFailedError: The disk refused.
    """
    if not scan.segments:
        return
    try:
        _mend_what_is_known(scan, disk)
        segment = scan.segments[-1]
        file = disk.open(segment.path)
        try:
            _cut_tail(scan, disk, file, durable_floor, resolve_unknown_tail, lost_and_found)
            if file.size() < segment.header.capacity:
                fill_zeros(file, file.size(), segment.header.capacity)
                file.sync()
            _write_again(segment, file, durable_floor)
            _zero_again(scan, segment, file)
        finally:
            file.close()
        if len(scan.segments) > 1 and not segment.offsets and scan.tail.state != "unknown":
            # Made for an entry that never came; the next one may belong before it.
            scan.left_over.append(put_aside(disk, segment.path))
            disk.sync_directory(segment.path.parent)
            scan.segments.pop()
        # What the last process removed, and was killed before it synced, must not come back.
        disk.sync_directory(segment.path.parent)
    except OSError as error:
        raise JournalFailedError(f"recovery could not write: {error}") from error


def keep_bytes(
    disk: Disk, directory: Path, segment: Segment, file: DiskFile, start: int, end: int
) -> Path:
    """
    Copy a part of a segment to a new file in `directory`, durably; return its path.

    A power cut may leave a sector that cannot be read before it is written again: see `scan`. A
    data directory may be the top of a file system, and that may have a folder of this name, which
    only its own tools may write to. Then the copy goes to one beside it.

    Raises:
        NoRoomError: There is no room for the copy.
    """
    data = read_what_is_readable(file, start, end)
    name = f"{segment.path.stem}-{start}"
    try:
        return _keep(disk, directory, name, data)
    except PermissionError:
        return _keep(disk, directory.with_name(KEPT_BYTES_DIRECTORY), name, data)


def _keep(disk: Disk, directory: Path, name: str, data: bytes) -> Path:
    disk.make_directory(directory)
    number = 0
    while disk.exists(path := directory / f"{name}-{number}.bytes"):
        number += 1
    copy = disk.open(path, create=True)
    try:
        try:
            copy.write(data, 0)
            copy.sync()
        finally:
            copy.close()
        disk.sync_directory(directory)
    except OSError as error:
        if not is_no_room(error):
            raise
        # Nothing rests on this copy, so it does not matter which of its syncs failed.
        with suppress(OSError):  # What is left of it is in nobody's way.
            disk.unlink(path)
        raise NoRoomError(error.errno, error.strerror) from error
    return path


def zero_backwards(file: DiskFile, start: int, end: int) -> None:
    """
    Make a part of a segment zero, from its end, each step durable before the next.

    So a crash leaves whole entries and then a torn end no larger than one run, which the next
    recovery tells from damage. As in a run, an entry with zeros of its own is the last of its step:
    anywhere else, half of it gone would look like rot.
    """
    for first in reversed(_steps(file, start, end)):
        while end > first:
            low = max(first, end - CUT_BYTES_MAX)
            fill_zeros(file, low, end)
            file.sync()
            end = low


def _steps(file: DiskFile, start: int, end: int) -> list[int]:
    """Return where the steps begin in which a part of a segment can be made zero."""
    steps = [start]
    place = start
    is_closed = False
    while place < end:
        try:
            fields = parse_header(file.read(HEADER_BYTES, place))
        except (OSError, CorruptEntryError):
            break  # no entries, or no whole ones: what is left is torn or unknown as it is
        after = place + entry_bytes(fields.body_length)
        if place > steps[-1] and (is_closed or after - steps[-1] > CUT_BYTES_MAX):
            steps.append(place)
        is_closed = bool(fields.flags & FLAG_ZEROS)
        place = after
    return steps


def _cut_tail(
    scan: LogScan,
    disk: Disk,
    file: DiskFile,
    durable_floor: int,
    resolve_unknown_tail: bool,
    lost_and_found: Path,
) -> None:
    tail = scan.tail
    is_cut = tail.state == "torn" or (
        tail.state == "unknown" and resolve_unknown_tail and tail.through > durable_floor
    )
    if is_cut:
        segment = scan.segments[-1]
        try:
            tail.kept = keep_bytes(disk, lost_and_found, segment, file, tail.start, tail.end)
        except NoRoomError:
            # A node that ended on a full disk must be able to start on it. What is torn was never
            # confirmed; of what may have been, nothing goes without a copy.
            if tail.state != "torn":
                raise
            logger.warning("no room to keep the torn end of the log: %s", tail.reason)
        zero_backwards(file, tail.start, tail.end)
        tail.state, tail.through = "torn", 0


def _mend_what_is_known(scan: LogScan, disk: Disk) -> None:
    """Write headers and zeros again whose right content follows from the rest of the log."""
    damaged = {damage.index for damage in scan.damage}
    for segment in scan.headers_worked_out:
        # Only if the first entry's chain value has confirmed what was worked out.
        if segment.offsets and segment.base_index not in damaged:
            _overwrite(disk, segment, segment.header.encode(), 0)
            _forget(scan, segment, 0)
    for segment, end in scan.stray_bytes:
        _overwrite(disk, segment, bytes(end - segment.end), segment.end)
        _forget(scan, segment, segment.end)


def _overwrite(disk: Disk, segment: Segment, data: bytes, offset: int) -> None:
    file = disk.open(segment.path)
    try:
        file.write_durable([data], offset)
    finally:
        file.close()


def _forget(scan: LogScan, segment: Segment, byte: int) -> None:
    place = (segment.path.name, byte, 0)
    kept = [it for it in scan.damage if (it.segment, it.byte, it.index) != place]
    logger.warning("segment %s was mended at byte %d", segment.path.name, byte)
    scan.damage = kept


def _write_again(segment: Segment, file: DiskFile, durable_floor: int) -> None:
    if segment.last_index <= durable_floor or not segment.offsets:
        return
    start = segment.place(max(durable_floor + 1, segment.base_index))[0]
    while start < segment.end:
        data = file.read(min(RUN_BYTES_MAX, segment.end - start), start)
        file.write_durable([data], start)
        start += len(data)


def _zero_again(scan: LogScan, segment: Segment, file: DiskFile) -> None:
    """
    Make the zeros behind the log's end durable, as far as a cut that was broken off had come.

    The process that wrote them may have been killed before its sync, or have ended because that
    failed. The log's writer syncs only what it writes itself, so without this an entry that was
    cut would be back after a power cut, behind newer ones that end with a page.
    """
    start = max(segment.end, scan.tail.end)
    fill_zeros(file, start, min(start + CUT_BYTES_MAX, segment.header.capacity))
    file.sync()

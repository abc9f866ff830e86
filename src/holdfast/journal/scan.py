"""
Read the whole log, verify everything, and tell a torn write from damage.

The region after the last entry was full of zeros before it was written, and the writer syncs
after every run (see `jobs`). From these two facts:

* A bad entry with a good one in a later run was durable once: it is *damaged*. It is never cut,
  its place stays known, and a peer can repair it.
* Bad bytes at the end are *torn* if they show a sector of zeros where the entry has none: the
  write never finished, so nobody was told.
* Otherwise the end is *unknown*: torn or rotten. A cluster asks the others.
* At or below the ballot's durable floor nothing is torn.

What stands behind a lost header counts only where it is proven (see `continuation`): a sender may
have put into a message what looks like entries.

Writes nothing: also the way to verify a store that is not running.
"""

from __future__ import annotations

from bisect import bisect_left
from pathlib import Path

from holdfast.environment.disk import Disk
from holdfast.errors import SegmentsMissingError, StoreError
from holdfast.journal.ballot import NO_CLAIM, LogClaim
from holdfast.journal.found_log import LogScan, Progress
from holdfast.journal.housekeeper import SPARE_PREFIX
from holdfast.journal.scanner import Following, LogScanner
from holdfast.journal.segment import (
    SEGMENT_HEADER_BYTES,
    base_index_of,
    decode_segment_header,
)
from holdfast.journal.traces import read_what_is_readable


def scan_log(
    directory: Path,
    disk: Disk,
    *,
    claim: LogClaim = NO_CLAIM,
    progress: Progress | None = None,
    only: str = "",
) -> LogScan:
    """
    Read and verify every segment in `directory`, or `only` the one of this name; change nothing.

    Raises:
        SegmentsMissingError: Files are missing at the log's beginning, by the ballot's `claim`.
        StoreError: A file is missing, foreign or of an unknown version; the sentence names it.
    """
    names = [name for name in disk.list_directory(directory) if not name.startswith(SPARE_PREFIX)]
    bases: list[int] = []
    for name in names:
        base = base_index_of(name)
        if base is None:
            raise StoreError(f"{directory / name} is no segment of a journal; move it away")
        bases.append(base)
    scan = LogScan()
    if not only:
        count = _left_over_count(bases, claim)
        scan.left_over = [directory / name for name in names[:count]]
        del names[:count], bases[:count]
        _require_beginning(directory, bases, claim)
    # One file is open at a time: a log may have more of them than a process may open.
    sizes = [_size_of(disk, directory / name) for name in names if not only or name == only]
    scanner = LogScanner(scan, directory, claim)
    for place, name in enumerate(names):
        if only and name != only:
            continue
        following: Following | None = None
        if place + 1 < len(bases):
            chain = _stated_chain(disk, directory / names[place + 1])
            following = Following(bases[place + 1], chain, not only)
            if only:
                # What stands before another segment was durable before that one was made.
                scanner.claim_through(following.base - 1)
        file = disk.open(directory / name, writable=False)
        try:
            data = read_what_is_readable(file, 0, file.size())
        finally:
            file.close()
        scanner.add_segment(bases[place], data, following)
        scan.bytes_read += len(data)
        if progress is not None:
            progress(scan.bytes_read, sum(sizes))
    scanner.finish()
    return scan


def _size_of(disk: Disk, path: Path) -> int:
    file = disk.open(path, writable=False)
    try:
        return file.size()
    finally:
        file.close()


def _require_beginning(directory: Path, bases: list[int], claim: LogClaim) -> None:
    """Raise unless the log reaches back as far as it was kept."""
    if bases and claim.first_index < bases[0]:
        if not claim.first_index:
            return  # a ballot of an earlier version does not know
        raise SegmentsMissingError(
            f"{directory} begins with entry {bases[0]:,}, but this node had kept the log from entry"
            f" {claim.first_index:,} on: the files of entries {claim.first_index:,} to"
            f" {bases[0] - 1:,} are missing; restore them, or empty the whole data directory of a"
            f" node that has peers, so that it rejoins as a new one"
        )


def _left_over_count(bases: list[int], claim: LogClaim) -> int:
    """
    How many of the oldest files were to be removed when the last process ended.

    It was durable by then that the log begins later. In a ballot of an earlier version the floor
    may be lower still: then the log was about to be begun anew, and those files are the log.
    """
    is_begun = claim.floor >= max(claim.first_index - 1, 1)
    return bisect_left(bases, claim.first_index) if is_begun else 0


def _stated_chain(disk: Disk, path: Path) -> bytes:
    """Return the chain value that a segment states for what stands before it, empty if lost."""
    try:
        file = disk.open(path, writable=False)
    except FileNotFoundError:
        return b""  # dropped while a tool reads
    try:
        header = decode_segment_header(file.read(SEGMENT_HEADER_BYTES, 0))
    except (OSError, StoreError):
        return b""  # told when it is this segment's turn
    finally:
        file.close()
    return b"" if header is None else header.previous_chain

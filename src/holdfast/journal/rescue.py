"""
What one copy of a segment has whole where another one is damaged.

The other copy was left behind, so what it has counts only where it joins: an entry is another one's
successor by its chain value, and what stands behind the run that was lost says what it follows on.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from holdfast.environment.disk import Disk
from holdfast.errors import CorruptEntryError, StoreError
from holdfast.journal.entry import (
    HEADER_BYTES,
    Entry,
    entry_bytes,
    parse_entry,
    parse_header,
    verify_chain,
)
from holdfast.journal.scan import scan_log
from holdfast.journal.segment import (
    SEGMENT_HEADER_BYTES,
    Segment,
    base_index_of,
    decode_segment_header,
    segment_name,
)


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

"""
What one copy of a segment has whole where another one is damaged.

The other copy was left behind, so what it has counts only where it went on as the first one did: by
their chain values entries follow on one another, and what stands behind the run that was lost says
what it follows on.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from holdfast.environment.disk import Disk, read_part
from holdfast.errors import CorruptEntryError, StoreError
from holdfast.journal.entry import (
    HEADER_BYTES,
    Entry,
    parse_entry,
    parse_header,
    verify_chain,
)
from holdfast.journal.found_log import LogScan
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
    try:
        whole = _whole_entries(scan_log(there.parent, other, only=there.name), other)
    except (StoreError, OSError):
        return []
    found: list[tuple[int, bytes]] = []
    for segment in scan.segments:
        for run in _runs(segment, {it.index for it in scan.damage}):
            found += _joining(segment, disk, run, whole)
    return found


def _whole_entries(scan: LogScan, disk: Disk) -> dict[int, tuple[int, Entry]]:
    """Where each sound entry of a copy stands, and the entry."""
    found = {}
    for segment in scan.segments:
        for index in range(segment.base_index, segment.last_index + 1):
            start, size = segment.place(index)
            entry = _entry_at(disk, segment.path, start, size)
            if entry is not None and entry.index == index:
                found[index] = start, entry
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
    segment: Segment, disk: Disk, run: tuple[int, int], whole: dict[int, tuple[int, Entry]]
) -> list[tuple[int, bytes]]:
    """
    The entries of a run as the other copy has them, if that went on as the first one did.

    From the front as long as each follows on the one before it, from the back as long as each is
    what the one behind it follows on: what is damaged in both copies does not take its neighbours.
    """
    first, last = run
    if not _goes_on_alike(segment, disk, last, whole):
        return []
    joined: set[int] = set()
    chain = _chain_before(segment, disk, first)
    for index in range(first, last + 1):
        if chain is None or index not in whole or not verify_chain(whole[index][1], chain):
            break
        joined.add(index)
        chain = whole[index][1].chain
    if any(it + 1 in whole and not _is_followed(segment, disk, it, last, whole) for it in joined):
        joined.clear()  # What is whole behind them does not follow on them.
    for index in range(last, first - 1, -1):
        if index not in whole or not _is_followed(segment, disk, index, last, whole):
            break
        joined.add(index)
    return [(whole[index][0], whole[index][1].raw) for index in sorted(joined)]


def _chain_before(segment: Segment, disk: Disk, first: int) -> bytes | None:
    if first == segment.base_index:
        return segment.header.previous_chain
    before = _entry_at(disk, segment.path, *segment.place(first - 1))
    return None if before is None else before.chain


def _goes_on_alike(
    segment: Segment, disk: Disk, last: int, whole: dict[int, tuple[int, Entry]]
) -> bool:
    """
    Whether the other copy has at the end of a run, or behind it, what this one goes on with.

    The first entry behind it that both have whole tells: all before is in its chain.
    """
    if last in whole and _joins_behind(segment, disk, last, whole[last][1]):
        return True
    for index in range(last + 1, segment.last_index + 1):
        after = _entry_at(disk, segment.path, *segment.place(index)) if index in whole else None
        if after is not None:
            return after.raw == whole[index][1].raw
    return False


def _is_followed(
    segment: Segment, disk: Disk, index: int, last: int, whole: dict[int, tuple[int, Entry]]
) -> bool:
    """Whether what stands behind an entry follows on it."""
    if index == last:
        return _joins_behind(segment, disk, last, whole[index][1])
    behind = whole.get(index + 1)
    return behind is not None and verify_chain(behind[1], whole[index][1].chain)


def _joins_behind(segment: Segment, disk: Disk, last: int, entry: Entry) -> bool:
    """Whether what stands behind a run, here or in the next file, follows on this entry."""
    if last == segment.last_index:
        return _stated_chain(disk, segment, last) == entry.chain
    after = _entry_at(disk, segment.path, *segment.place(last + 1))
    return after is not None and after.index == last + 1 and verify_chain(after, entry.chain)


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
    """The sound entry that stands there."""
    try:
        return parse_entry(read_bytes(disk, path, start, size) or b"")
    except CorruptEntryError:
        return None


def read_bytes(disk: Disk, path: Path, start: int, size: int) -> bytes | None:
    """Read a part of a file; None if it cannot be read."""
    try:
        return read_part(disk, path, size, start)
    except OSError:
        return None

"""
What the bytes of a segment still show: headers where no entry stands, sectors never written.

Of each finding only what the bytes themselves prove is said; what follows from it, scanner.py says.
Nothing is read that was not given, but by `read_what_is_readable`; nothing is written.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from holdfast.environment.disk import SECTOR_BYTES, DiskFile
from holdfast.errors import CorruptEntryError, StoreError
from holdfast.journal.continuation import Found, headers_in
from holdfast.journal.entry import (
    FLAG_ZERO_END,
    FLAG_ZEROS,
    HEADER_BYTES,
    MAGIC,
    VERSION,
    HeaderFields,
    parse_header,
)
from holdfast.journal.segment import (
    SEGMENT_HEADER_BYTES,
    SegmentHeader,
    base_index_of,
    decode_segment_header,
)

_PAGE_BYTES: Final = 4096
_UNREADABLE_PAGE: Final = b"\xff" * _PAGE_BYTES
_PREFIX: Final = MAGIC + VERSION.to_bytes(2, "little")
# How a header begins, also where one of its first bytes rotted.
_HEADER_START: Final = re.compile(
    b"|".join(
        re.escape(_PREFIX[:at]) + b"." + re.escape(_PREFIX[at + 1 :]) for at in range(len(_PREFIX))
    ),
    re.DOTALL,
)
_ZERO_SECTOR: Final = bytes(SECTOR_BYTES)
_PIECE_BYTES: Final = 64 * 1024
_ZERO_PIECE: Final = bytes(_PIECE_BYTES)


def decode_segment_block(path: Path, data: bytes) -> SegmentHeader | None:
    """
    Return the header of the segment file `path`, None if the block is damaged.

    Raises:
        StoreError: It is of an unknown version, or the file has another segment's name.
    """
    try:
        header = decode_segment_header(data[:SEGMENT_HEADER_BYTES])
    except StoreError as error:
        raise StoreError(f"{path} cannot be read: {error}") from None
    if header is not None and base_index_of(path.name) != header.base_index:
        raise StoreError(
            f"{path} holds the segment that begins with entry {header.base_index:,}:"
            f" it was renamed or copied over"
        )
    return header


def first_header(data: bytes, base: int) -> HeaderFields | None:
    """Return the header of the first entry, if it is good; nothing else can stand there."""
    try:
        fields = parse_header(data, SEGMENT_HEADER_BYTES)
    except CorruptEntryError:
        return None
    return fields if fields.entry_index == base else None


def find_header(
    data: bytes, start: int, end: int, before: int, terms: tuple[int, int]
) -> Found | None:
    """
    Return place and fields of the first good header from `start` on, whatever its body is like.

    Its index must be one that could stand there, given that `before + 1` began at `start`, and its
    term within `terms`.
    """
    for place, fields in headers_in(data, start, end):
        is_possible = before < fields.entry_index <= before + 1 + (place - start) // HEADER_BYTES
        if is_possible and terms[0] <= fields.term <= terms[1]:
            return place, fields
    return None


def headers_possible(data: bytes, start: int, end: int) -> int:
    """Return how many entries may begin from `start` on, where the first one certainly does."""
    count = 0
    place = start - start % _PAGE_BYTES
    while place < end:
        low, high = max(place, start), min(place + _PAGE_BYTES, end)
        page = data[place : place + _PAGE_BYTES]
        if page == _UNREADABLE_PAGE[: len(page)]:
            count += -(-(high - low) // HEADER_BYTES)
        else:
            is_first = low == start
            places = _HEADER_START.finditer(data, low + HEADER_BYTES * is_first, high)
            count += is_first + sum(found.start() % 8 == 0 for found in places)
        place += _PAGE_BYTES
    return count


def shows_torn(data: bytes, offset: int, header: HeaderFields | None) -> bool:
    """Tell whether a sector of the entry at `offset` was certainly never written."""
    sector = (offset // SECTOR_BYTES + 1) * SECTOR_BYTES
    if header is None:
        # The magic is never zero, nor is the chain value at the header's end.
        header_end = offset + HEADER_BYTES
        if _is_zero(data, offset, sector):
            return True
        return sector < header_end and _is_zero(data, sector, header_end)
    flags, length = header.flags, header.body_length
    end = offset + HEADER_BYTES + length
    while sector < end:
        stop = min(sector + SECTOR_BYTES, end)
        if _is_zero(data, sector, stop):
            if stop - sector == SECTOR_BYTES:
                if not flags & FLAG_ZEROS:
                    return True
            elif stop - sector >= 8 and not flags & FLAG_ZERO_END:
                return True
            elif stop < sector + SECTOR_BYTES:
                # Zeros may be this entry's own end, but no header begins with them.
                after = sector + SECTOR_BYTES
                return _is_zero(data, sector, after) and used_end(data) > after
        sector += SECTOR_BYTES
    return False


def _is_zero(data: bytes, start: int, end: int) -> bool:
    return data[start:end] == _ZERO_SECTOR[: end - start]


def used_end(data: bytes) -> int:
    """Return the byte after the last one that is not zero, rounded up to 8."""
    # By pieces: one by one the 64 MiB of a fresh segment took a third of a node's start.
    end = len(data)
    while end >= _PIECE_BYTES and data[end - _PIECE_BYTES : end] == _ZERO_PIECE:
        end -= _PIECE_BYTES
    start = max(end - _PIECE_BYTES, 0)
    return (start + len(data[start:end].rstrip(b"\0")) + 7) & ~7


def read_what_is_readable(file: DiskFile, start: int, end: int) -> bytes:
    """Read a part; pages that the disk cannot read come as 0xFF, which no checksum accepts."""
    try:
        return file.read(end - start, start)
    except OSError:
        pass
    pages = []
    while start < end:
        stop = min((start // _PAGE_BYTES + 1) * _PAGE_BYTES, end)
        try:
            pages.append(file.read(stop - start, start))
        except OSError:
            pages.append(_UNREADABLE_PAGE[: stop - start])
        start = stop
    return b"".join(pages)

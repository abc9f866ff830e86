"""
One file of the log: what stands in its header block, and where its entries are.

A segment file is full of zeros before its first entry is written, and keeps its size. Which entry
goes where depends on the log's content alone, and nothing in the file is local to a node, so a
sealed segment is the same byte for byte on every node.

Invariants:
    Entry base_index + i starts at byte offsets[i]; the next one starts where it ends.
    first_records never decreases. An entry without records has the number of the next record.

`Segment` belongs to the loop thread; the writer thread uses only its header and path.
"""

from __future__ import annotations

import re
import struct
from array import array
from bisect import bisect_right
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from typing import Final, NamedTuple

from google_crc32c import value as crc32c

from holdfast.environment.disk import Disk
from holdfast.errors import StoreError
from holdfast.journal.settings import MiB

SEGMENT_HEADER_BYTES: Final = 4096
SEGMENT_MAGIC: Final = b"HFSG"
SEGMENT_VERSION: Final = 1

_CAPACITY_MAX: Final = 8 * 1024 * MiB
"""No segment has more: it is a full one, or holds a single entry, whose body length is a u32."""

_HEADER: Final = struct.Struct("<4sHHIIQQQQ16s")
_NAME: Final = re.compile(r"([0-9]{20})\.segment")


def file_digest(disk: Disk, path: Path) -> bytes:
    """
    Return the BLAKE2b-256 of a segment's file. Reads it all: call it off the loop.

    Raises:
        OSError: The file is gone or cannot be read.
    """
    digest = blake2b(digest_size=32)
    file = disk.open(path, writable=False)
    try:
        size = file.size()
        for offset in range(0, size, MiB):
            digest.update(file.read(min(MiB, size - offset), offset))
    finally:
        file.close()
    return digest.digest()


def segment_name(base_index: int) -> str:
    """Return the file name of the segment whose first entry is `base_index`."""
    return f"{base_index:020d}.segment"


def base_index_of(name: str) -> int | None:
    """Return the first index a file name speaks of, None if it is not a segment's name."""
    match = _NAME.fullmatch(name)
    return int(match.group(1)) if match else None


@dataclass(frozen=True, slots=True)
class SegmentHeader:
    """
    What a segment says of itself: the log just before it, and how large the file is.

    `previous_term` and `previous_chain` are those of entry `base_index - 1`, so a log whose older
    segments were dropped can still be compared and continued.
    """

    base_index: int
    base_record: int
    previous_term: int
    previous_chain: bytes
    capacity: int

    def encode(self) -> bytes:
        """Return the header block of 4 KiB."""
        block = bytearray(SEGMENT_HEADER_BYTES)
        _HEADER.pack_into(
            block,
            0,
            SEGMENT_MAGIC,
            SEGMENT_VERSION,
            0,
            0,
            SEGMENT_HEADER_BYTES,
            self.base_index,
            self.base_record,
            self.previous_term,
            self.capacity,
            self.previous_chain,
        )
        block[8:12] = crc32c(bytes(block)).to_bytes(4, "little")
        return bytes(block)


def decode_segment_header(block: bytes) -> SegmentHeader | None:
    """
    Return what the header block says, None if it is damaged or says what cannot be.

    Raises:
        StoreError: The block is whole, but of a format this program does not know.
    """
    if len(block) != SEGMENT_HEADER_BYTES:
        return None
    magic, version, _, checksum, _, *place, capacity, chain = _HEADER.unpack_from(block)
    if crc32c(block[:8] + bytes(4) + block[12:]) != checksum:
        return None
    if magic != SEGMENT_MAGIC or version != SEGMENT_VERSION:
        raise StoreError(
            f"it has format {magic!r} version {version}, this program knows"
            f" {SEGMENT_MAGIC!r} version {SEGMENT_VERSION}; start it with the program that wrote it"
        )
    if capacity > _CAPACITY_MAX:
        return None
    base_index, base_record, previous_term = place
    return SegmentHeader(base_index, base_record, previous_term, chain, capacity)


@dataclass(frozen=True, slots=True)
class SegmentStatistics:
    """One segment, for people and for programs that plan cleaning."""

    base_index: int
    last_index: int
    bytes: int
    sealed: bool
    path: Path
    content_bytes: int = 0
    """The bytes of its entries; the rest of a sealed segment is empty."""


class EntryPlace(NamedTuple):
    """Where an entry is; size 0 if its bounds are lost."""

    path: Path
    byte: int
    size: int


class Segment:
    """Where the entries of one segment are. `end` is the byte after the last of them."""

    __slots__ = ("_sealed", "end", "first_records", "header", "offsets", "path")

    def __init__(self, directory: Path, header: SegmentHeader) -> None:
        self.path = directory / segment_name(header.base_index)
        self.header = header
        self.offsets: array[int] = array("Q")
        self.first_records: array[int] = array("Q")
        self.end = SEGMENT_HEADER_BYTES
        self._sealed: SegmentStatistics | None = None

    @property
    def base_index(self) -> int:
        """The index of the first entry."""
        return self.header.base_index

    @property
    def last_index(self) -> int:
        """The index of the last entry; one below `base_index` if there is none."""
        return self.header.base_index + len(self.offsets) - 1

    def add(self, first_record: int, size: int) -> None:
        """Note that the next entry takes the next `size` bytes."""
        self.offsets.append(self.end)
        self.first_records.append(first_record)
        self.end += size
        self._sealed = None

    def end_at(self, end: int) -> None:
        """Let the last entry end elsewhere: it was mended."""
        self.end = end
        self._sealed = None

    def fits(self, size: int) -> bool:
        """Tell whether an entry of `size` bytes still belongs into this segment."""
        return self.end + size <= self.header.capacity

    def place(self, index: int) -> tuple[int, int]:
        """Return (first byte, size) of the entry with this index."""
        position = index - self.header.base_index
        start = self.offsets[position]
        following = position + 1
        end = self.offsets[following] if following < len(self.offsets) else self.end
        return start, end - start

    def span(self, index: int, bytes_max: int, through: int) -> tuple[int, int, int]:
        """
        Return (first byte, size, last index) of entries from `index` on, to be read in one go.

        At most `bytes_max` together and none after `through`, but at least one.
        """
        position = index - self.header.base_index
        start = self.offsets[position]
        # Entry i fits if the one after it begins no later than start + bytes_max.
        stop = bisect_right(self.offsets, start + bytes_max, position + 1) - 1
        if self.end <= start + bytes_max:
            stop = len(self.offsets)
        stop = max(min(stop, through - self.header.base_index + 1), position + 1)
        end = self.offsets[stop] if stop < len(self.offsets) else self.end
        return start, end - start, self.header.base_index + stop - 1

    def index_of_record(self, number: int) -> int:
        """Return the index of the entry that holds the record; it must be in this segment."""
        return self.header.base_index + bisect_right(self.first_records, number) - 1

    def cut_after(self, index: int) -> None:
        """Forget the entries after `index`."""
        self._sealed = None
        kept = index - self.header.base_index + 1
        if kept < len(self.offsets):
            self.end = self.offsets[kept]
            del self.offsets[kept:]
            del self.first_records[kept:]

    def statistics(self, sealed_through: int, *, is_last: bool) -> SegmentStatistics:
        """
        Return what there is to say of it; `sealed_through` is the last sealed entry.

        Of one that nothing is added to any more the same value again: a log of a terabyte has
        16,000 of them.
        """
        if self._sealed is not None and not is_last:
            return self._sealed
        found = SegmentStatistics(
            self.base_index,
            self.last_index,
            self.end if is_last else self.header.capacity,
            self.last_index <= sealed_through,
            self.path,
            self.end - SEGMENT_HEADER_BYTES,
        )
        if found.sealed and not is_last:
            self._sealed = found
        return found

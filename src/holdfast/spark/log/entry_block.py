"""
A run of whole log entries in one buffer, with their headers as arrays.

The columns are cut from such blocks. Both checksums of every entry are verified here, once, so that
what stands behind can trust the bytes; the chain is the audit's business.

Invariants:
    Entry i of a block has index first_index + i; all of it is inside the buffer.
    A block ends before the first entry that is cut short or damaged.

Pure: no disk, no clock.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt
from google_crc32c import value as crc32c

from holdfast.errors import CorruptEntryError, TruncatedEntryError
from holdfast.journal.entry import HEADER, HEADER_BYTES, MAGIC, VERSION, parse_entry

Integers = npt.NDArray[np.int64]

_ZERO_CHECKSUM: Final = b"\0\0\0\0"
_PREFIX: Final = MAGIC + VERSION.to_bytes(2, "little")
_INDEX_MAX: Final = 2**63


class EntryBlock:
    """Entries `first_index` and following, in `buffer`; positions are bytes of the buffer."""

    __slots__ = ("_headers", "body_starts", "buffer", "end", "first_index", "starts")

    def __init__(
        self,
        buffer: bytes,
        first_index: int,
        starts: list[int] | Integers,
        end: int,
        headers: bytes,
    ) -> None:
        self.buffer = buffer
        self.first_index = first_index
        self.starts: Integers = np.array(starts, dtype=np.int64)
        self.end = end
        """The byte after the last entry."""
        self.body_starts: Integers = self.starts + HEADER_BYTES
        self._headers = np.frombuffer(headers, dtype=HEADER_TYPE)

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def last_index(self) -> int:
        """The index of the last entry; one below `first_index` if there is none."""
        return self.first_index + len(self.starts) - 1

    @property
    def indexes(self) -> Integers:
        """The index of each entry."""
        return np.arange(self.first_index, self.last_index + 1, dtype=np.int64)

    def field(self, name: str) -> Integers:
        """One field of all headers, by the name it has in `HEADER_TYPE`."""
        return self._headers[name].astype(np.int64)

    @property
    def chains(self) -> bytes:
        """The chain values of all entries, 16 bytes each, one after another."""
        return self._headers["chain"].tobytes()

    @property
    def body_ends(self) -> Integers:
        """The byte after each body."""
        return self.body_starts + self.field("body_length")

    @property
    def ends(self) -> Integers:
        """The byte after each entry."""
        return np.append(self.starts[1:], self.end)

    def between(self, first_index: int, last_index: int) -> EntryBlock:
        """The entries of this range that the block has; shares the buffer."""
        low = max(first_index - self.first_index, 0)
        high = max(min(last_index - self.first_index + 1, len(self)), low)
        if low == 0 and high == len(self):
            return self
        end = int(self.starts[high]) if high < len(self) else self.end
        headers = self._headers[low:high].tobytes()
        return EntryBlock(self.buffer, self.first_index + low, self.starts[low:high], end, headers)

    def raw(self, position: int) -> bytes:
        """Entry number `position` of this block, exactly as on disk."""
        return self.buffer[self.starts[position] : self.ends[position]]


HEADER_TYPE: Final = np.dtype(
    [
        ("magic", "S4"),
        ("version", "<u2"),
        ("kind", "u1"),
        ("flags", "u1"),
        ("header_checksum", "<u4"),
        ("body_checksum", "<u4"),
        ("index", "<u8"),
        ("term", "<u8"),
        ("timestamp", "<u8"),
        ("first_record", "<u8"),
        ("record_count", "<u4"),
        ("body_length", "<u4"),
        ("chain", "V16"),
    ]
)
"""The layout of `journal.entry.HEADER`, for arrays."""
assert HEADER_TYPE.itemsize == HEADER_BYTES == HEADER.size


def cut_entries(
    buffer: bytes, first_index: int, *, offset: int = 0, through_index: int | None = None
) -> EntryBlock:
    """
    Give the good entries that stand at `offset` one after another, as far as the buffer goes.

    Stops, without an error, at the first that is cut short, damaged or not the next one; `problem`
    says which of these it was.
    """
    starts: list[int] = []
    headers: list[bytes] = []
    index = first_index
    last = through_index if through_index is not None else _INDEX_MAX
    size = len(buffer)
    unpack = HEADER.unpack
    checksum = crc32c
    while index <= last and offset + HEADER_BYTES <= size:
        body = offset + HEADER_BYTES
        header = buffer[offset:body]
        fields = unpack(header)
        body_end = body + fields[11]
        end = (body_end + 7) & ~7
        if (
            end > size
            or fields[6] != index
            or checksum(header[:8] + _ZERO_CHECKSUM + header[12:]) != fields[4]
            or checksum(buffer[body:body_end]) != fields[5]
            or header[:6] != _PREFIX
        ):
            break
        starts.append(offset)
        headers.append(header)
        index += 1
        offset = end
    return EntryBlock(buffer, first_index, starts, offset, b"".join(headers))


def skip_entries(buffer: bytes, first_index: int, until_index: int) -> tuple[int, int]:
    """
    Pass over entries at the start of the buffer without looking into them.

    Returns:
        The index and the place of the first entry not passed: `until_index`, or the last that
        begins inside the buffer. Its header is not verified yet.
    """
    offset, index = 0, first_index
    size = len(buffer)
    read = HEADER.unpack_from
    while index < until_index and offset + HEADER_BYTES <= size:
        fields = read(buffer, offset)
        if fields[0] != MAGIC or fields[6] != index:
            break
        end = offset + ((HEADER_BYTES + fields[11] + 7) & ~7)
        if end > size:
            break
        offset = end
        index += 1
    return index, offset


def problem(buffer: bytes, offset: int, index: int) -> CorruptEntryError | None:
    """
    Say why entry `index` cannot be cut at `offset`; None if the buffer only ends too early.

    `byte` of the error is `offset`.
    """
    try:
        entry = parse_entry(buffer, offset)
    except TruncatedEntryError:
        return None
    except CorruptEntryError as error:
        return CorruptEntryError(error.reason, byte=offset, index=index)
    if entry.index == index:
        return None
    reason = f"entry {entry.index:,} stands where {index:,} belongs"
    return CorruptEntryError(reason, byte=offset, index=index)

"""
How records stand inside an entry's body: a header of 8 bytes, then the payload, one after another.

The entry's checksum covers them, so they carry none of their own. What the types mean is the
business of `model.records`; the journal only needs to count and to find them.

Pure: no disk, no clock.
"""

from __future__ import annotations

import struct
from array import array
from typing import TYPE_CHECKING, Final

from holdfast.errors import CorruptRecordError

if TYPE_CHECKING:
    from collections.abc import Iterator

RECORD_HEADER: Final = struct.Struct("<BHBI")
"""Type, flags, reserved (zero), length of the payload. Before level 2 of the format the upper half
of the flags was reserved and zero: the same bytes."""
RECORD_HEADER_BYTES: Final = RECORD_HEADER.size
_LENGTH: Final = struct.Struct("<4xI")


def iterate_records(body: bytes | memoryview) -> Iterator[tuple[int, int, int, int]]:
    """
    Yield (type, flags, start, end) of each record; the payload is `body[start:end]`.

    Raises:
        CorruptRecordError: The framing makes no sense; the sentence names the byte in the body.
    """
    unpack = RECORD_HEADER.unpack_from
    total = len(body)
    offset = 0
    while offset < total:
        start = offset + RECORD_HEADER_BYTES
        if start > total:
            raise CorruptRecordError(f"a record header is cut short at byte {offset:,} of the body")
        kind, flags, reserved, length = unpack(body, offset)
        end = start + length
        if reserved:
            raise CorruptRecordError(f"reserved bits are set at byte {offset:,} of the body")
        if end > total:
            raise CorruptRecordError(
                f"the record at byte {offset:,} wants {length:,} bytes,"
                f" the body has {total - start:,} left"
            )
        yield kind, flags, start, end
        offset = end


class RecordPlaces:
    """
    Where the records of one entry's body begin, found out as far as somebody asked.

    Each record is walked over once, however often it is asked for: a slow queue has one message
    here and one there. Four bytes a record.
    """

    __slots__ = ("_next", "_offsets")

    def __init__(self) -> None:
        self._offsets = array("I")
        self._next = 0

    def __len__(self) -> int:
        """How many records were walked over."""
        return len(self._offsets)

    def find(self, body: bytes | memoryview, place: int) -> tuple[int, int, int, int]:
        """
        Return (type, flags, start, end) of the record at `place`, counted from 0.

        Raises:
            CorruptRecordError: There is no such record, or the framing makes no sense.
        """
        offsets = self._offsets
        if place >= len(offsets):
            self._walk(body, place)
        offset = offsets[place]
        kind, flags, _, length = RECORD_HEADER.unpack_from(body, offset)
        start = offset + RECORD_HEADER_BYTES
        return kind, flags, start, start + length

    def _walk(self, body: bytes | memoryview, place: int) -> None:
        append = self._offsets.append
        unpack = _LENGTH.unpack_from
        total = len(body)
        offset = self._next
        for _ in range(place + 1 - len(self._offsets)):
            end = offset + RECORD_HEADER_BYTES
            if end <= total:
                end += unpack(body, offset)[0]
            if end > total:
                raise CorruptRecordError(f"there is no whole record at byte {offset:,} of the body")
            append(offset)
            self._next = offset = end

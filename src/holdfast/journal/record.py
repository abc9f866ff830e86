"""
How records stand inside an entry's body: a header of 8 bytes, then the payload, one after another.

The entry's checksum covers them, so they carry none of their own. What the types mean is the
business of `model.records`; the journal only needs to count and to find them.

Pure: no disk, no clock.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

from holdfast.errors import CorruptRecordError

if TYPE_CHECKING:
    from collections.abc import Iterator

RECORD_HEADER: Final = struct.Struct("<BBHI")
"""Type, flags, reserved (zero), length of the payload."""
RECORD_HEADER_BYTES: Final = RECORD_HEADER.size


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

"""
The entry: one batch of records, as it stands on disk, on the wire and in the archive.

Little endian, 72 bytes of header, then the body, then zeros up to a multiple of 8. There are two
checksums on purpose: with a good header and a bad body we still know which entry is damaged.
CRC32C finds rot; the chain (BLAKE2b-128 of the previous chain, index, term and the body's
BLAKE2b-128) says in 16 bytes whether two logs are the same up to here.

Invariants:
    The same arguments give the same bytes on every node.
    A body flagged as free of 512 consecutive zeros can never cover a sector with zeros only, so
    such a sector proves that the write was torn (the segment was full of zeros before).

Pure: no disk, no clock. Spark parses the log with this module too.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from hashlib import blake2b
from typing import Final, NamedTuple

from google_crc32c import extend
from google_crc32c import value as crc32c

from holdfast.errors import CorruptEntryError, TruncatedEntryError

MAGIC: Final = b"HFE1"
VERSION: Final = 1
HEADER: Final = struct.Struct("<4sHBBIIQQQQII16s")
HEADER_BYTES: Final = HEADER.size
CHAIN_BYTES: Final = 16
FIRST_CHAIN: Final = bytes(CHAIN_BYTES)
"""The chain before entry 1."""

KIND_RECORDS: Final = 0
KIND_NOOP: Final = 1
KIND_CONFIG: Final = 2

FLAG_ZEROS: Final = 1
"""The body has 512 zero bytes in a row somewhere."""
FLAG_ZERO_END: Final = 2
"""The last 8 bytes of the body are zeros, or the body is shorter than that."""

_COPIED_BYTES_MAX: Final = 256 * 1024
_ZERO_SECTOR: Final = bytes(512)
_ZERO_END: Final = bytes(8)
_PADDING: Final = tuple(bytes(count) for count in (0, 7, 6, 5, 4, 3, 2, 1))
_CHAIN_INPUT: Final = struct.Struct("<16sQQ16s")
_PREFIX: Final = MAGIC + VERSION.to_bytes(2, "little")


_Unpacked = tuple[bytes, int, int, int, int, int, int, int, int, int, int, int, bytes]


class HeaderFields(NamedTuple):
    """The header unpacked, in the order of the layout."""

    magic: bytes
    version: int
    kind: int
    flags: int
    checksum: int
    body_checksum: int
    entry_index: int
    term: int
    timestamp: int
    first_record: int
    record_count: int
    body_length: int
    chain: bytes


class Entry:
    """
    One entry of the log. Never changed once built.

    `raw` is exactly what is on disk, padding included; it may be written and sent as it is.
    """

    __slots__ = (
        "body_hash",
        "body_length",
        "chain",
        "first_record",
        "index",
        "kind",
        "raw",
        "record_count",
        "term",
        "timestamp",
    )

    def __init__(
        self,
        index: int,
        term: int,
        kind: int,
        timestamp: int,
        first_record: int,
        record_count: int,
        chain: bytes,
        raw: bytes,
        body_length: int,
    ) -> None:
        self.index = index
        self.term = term
        self.kind = kind
        self.timestamp = timestamp
        self.first_record = first_record
        self.record_count = record_count
        self.chain = chain
        self.raw = raw
        self.body_length = body_length
        self.body_hash = b""
        """The BLAKE2b-128 of the body if it was worked out already, else empty."""

    @property
    def body(self) -> memoryview:
        """The records' bytes, not copied."""
        return memoryview(self.raw)[HEADER_BYTES : HEADER_BYTES + self.body_length]

    @property
    def bytes_in_log(self) -> int:
        """What it takes of the log, header and padding included."""
        return len(self.raw)

    @property
    def flags(self) -> int:
        """The flag bits of the header."""
        return self.raw[7]

    @property
    def next_record(self) -> int:
        """The number of the first record after this entry."""
        return self.first_record + self.record_count

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Entry) and self.raw == other.raw

    def __hash__(self) -> int:
        return hash(self.chain)

    def __repr__(self) -> str:
        return (
            f"Entry(index={self.index}, term={self.term}, kind={self.kind},"
            f" records={self.first_record}+{self.record_count}, body={self.body_length} bytes)"
        )


def entry_bytes(body_length: int) -> int:
    """Return how many bytes an entry with such a body takes, header and padding included."""
    return (HEADER_BYTES + body_length + 7) & ~7


def chain_after(previous_chain: bytes, index: int, term: int, body: bytes) -> bytes:
    """Return the chain value of an entry with this body that follows `previous_chain`."""
    body_hash = blake2b(body, digest_size=16).digest()
    linked = _CHAIN_INPUT.pack(previous_chain, index, term, body_hash)
    return blake2b(linked, digest_size=16).digest()


def chain_of(previous_chain: bytes, index: int, term: int, body_hash: bytes) -> bytes:
    """Return the same from the BLAKE2b-128 of the body."""
    linked = _CHAIN_INPUT.pack(previous_chain, index, term, body_hash)
    return blake2b(linked, digest_size=16).digest()


def seal_entry(
    *,
    index: int,
    term: int,
    kind: int,
    timestamp: int,
    first_record: int,
    record_count: int,
    parts: list[bytes],
    previous_chain: bytes,
) -> Entry:
    """
    Build the entry whose body is `parts` joined.

    `first_record` is the next record's number also when `record_count` is 0. `timestamp` is in
    microseconds; the caller keeps it strictly increasing.
    """
    body = b"".join(parts)
    length = len(body)
    flags = FLAG_ZEROS if body.find(_ZERO_SECTOR) >= 0 else 0
    if length < 8 or body.endswith(_ZERO_END):
        flags |= FLAG_ZERO_END
    chain = chain_after(previous_chain, index, term, body)
    header = HEADER.pack(
        MAGIC,
        VERSION,
        kind,
        flags,
        0,
        crc32c(body),
        index,
        term,
        timestamp,
        first_record,
        record_count,
        length,
        chain,
    )
    checksum = crc32c(header).to_bytes(4, "little")
    raw = b"".join((header[:8], checksum, header[12:], body, _PADDING[length & 7]))
    return Entry(index, term, kind, timestamp, first_record, record_count, chain, raw, length)


def encode_header(*fields: int | bytes) -> bytes:
    """
    Give the header with its checksum.

    `fields` are those of the layout but for what is the same in all headers: kind, flags, the
    body's checksum, index, term, timestamp, first record, record count, length, chain.
    """
    kind, flags, *others = fields
    header: bytes = HEADER.pack(MAGIC, VERSION, kind, flags, 0, *others)
    checksum: int = crc32c(header)
    return header[:8] + checksum.to_bytes(4, "little") + header[12:]


def parse_header(buffer: bytes | bytearray | memoryview, offset: int = 0) -> HeaderFields:
    """
    Return the fields of the header at `offset`, its checksum verified.

    Raises:
        TruncatedEntryError: The bytes end before the header does.
        CorruptEntryError: This is not a good header; `.reason` says why.
    """
    return HeaderFields._make(_unpack_header(buffer, offset))


def parse_entry(buffer: bytes | bytearray | memoryview, offset: int = 0) -> Entry:
    """
    Return the entry at `offset` of `buffer`, both checksums and the padding verified.

    `byte` of an error is `offset`; `index` is given where the header is good.

    Raises:
        TruncatedEntryError: The bytes end before the entry does.
        CorruptEntryError: A checksum is wrong; `.reason` says which.
    """
    header = _unpack_header(buffer, offset)
    _, _, kind, _, _, body_checksum, index, term, timestamp, record, count, length, chain = header
    size = (HEADER_BYTES + length + 7) & ~7
    raw = bytes(buffer[offset : offset + size])  # no copy if it is all of a bytes object
    if len(raw) != size:
        raise TruncatedEntryError("the body is cut short", byte=offset, index=index)
    checksum = crc32c(raw[HEADER_BYTES : HEADER_BYTES + min(length, _COPIED_BYTES_MAX)])
    if length > _COPIED_BYTES_MAX:
        checksum = _checksum_on(checksum, raw, HEADER_BYTES + length)
    if checksum != body_checksum:
        raise CorruptEntryError("the body checksum is wrong", byte=offset, index=index)
    if not raw.endswith(_PADDING[length & 7]):
        raise CorruptEntryError("the padding is not zero", byte=offset, index=index)
    return Entry(index, term, kind, timestamp, record, count, chain, raw, length)


def _unpack_header(buffer: bytes | bytearray | memoryview, offset: int) -> _Unpacked:
    """Return what `parse_header` does, as a plain tuple: to name its fields costs 300 ns."""
    header = bytes(buffer[offset : offset + HEADER_BYTES])
    if len(header) != HEADER_BYTES:
        raise TruncatedEntryError("the header is cut short", byte=offset)
    fields: _Unpacked = HEADER.unpack(header)
    checksum, version = fields[4], fields[1]
    if crc32c(header[:8] + b"\0\0\0\0" + header[12:]) != checksum:
        reason = "the header checksum is wrong" if header[:4] == MAGIC else "there is no entry"
        raise CorruptEntryError(reason, byte=offset)
    if header[:6] != _PREFIX:
        reason = f"format {header[:4]!r} version {version} is not known to this program"
        raise CorruptEntryError(reason, byte=offset)
    return fields


def _checksum_on(checksum: int, raw: bytes, end: int) -> int:
    """Go on with a body's CRC32C behind its first piece: no second copy of a large body is made."""
    for place in range(HEADER_BYTES + _COPIED_BYTES_MAX, end, _COPIED_BYTES_MAX):
        checksum = extend(checksum, raw[place : min(end, place + _COPIED_BYTES_MAX)])
    return checksum


def verify_chain(entry: Entry, previous_chain: bytes) -> bool:
    """Tell whether `entry` continues the log that ends with `previous_chain`."""
    body_hash = entry.body_hash or hash_body(entry)
    return chain_of(previous_chain, entry.index, entry.term, body_hash) == entry.chain


def hash_body(entry: Entry) -> bytes:
    """Return the BLAKE2b-128 of an entry's body, and keep it with the entry."""
    length = entry.body_length
    is_small = length <= _COPIED_BYTES_MAX
    body = entry.raw[HEADER_BYTES : HEADER_BYTES + length] if is_small else entry.body
    entry.body_hash = blake2b(body, digest_size=16).digest()
    return entry.body_hash


def bytes_of(entries: Iterable[Entry]) -> int:
    """How many bytes these entries have together, as they are stored."""
    return sum([len(it.raw) for it in entries])

"""
The body of one large entry, taken in pieces: joined, checked and hashed as they come.

To join and hash 60 MB at once takes a quarter of a second, in which the loop hears nobody. So a
large batch is sealed, and a large entry received, piece by piece, each well under a millisecond;
between two of them the others have their turn. What comes out is the same, byte by byte.

Invariants:
    Pieces that, joined, are the same give the same entry as `seal_entry` and `parse_entry`.
    Once sealed or taken whole, nothing is added any more.

Pure: no disk, no clock.
"""

from __future__ import annotations

from hashlib import blake2b
from io import BytesIO
from typing import Any, Final

from google_crc32c import extend

from holdfast.errors import CorruptEntryError
from holdfast.journal.entry import (
    FLAG_ZERO_END,
    FLAG_ZEROS,
    HEADER_BYTES,
    Entry,
    HeaderFields,
    chain_of,
    encode_header,
    seal_entry,
)

PIECE_BYTES: Final = 64 * 1024
"""What whoever can choose adds at once: a tenth of a millisecond."""

_SECTOR: Final = bytes(512)
_END: Final = bytes(8)


class BodyDigest:
    """Both checksums of a body that is not kept."""

    __slots__ = ("_hash", "checksum", "length")

    def __init__(self) -> None:
        self._hash = blake2b(digest_size=16)
        self.checksum = 0
        """CRC32C of what was added."""
        self.length = 0
        """Bytes added so far."""

    def add(self, piece: bytes) -> None:
        """Take what follows; the time it takes is in proportion to its length."""
        self.checksum = extend(self.checksum, piece)
        self._hash.update(piece)
        self.length += len(piece)

    def body_hash(self) -> bytes:
        """Give the BLAKE2b-128 of what was added."""
        return self._hash.digest()


class EntryBody:
    """Gathers the body of one entry."""

    __slots__ = ("_buffer", "_digest", "_end", "_has_zeros")

    def __init__(self, bytes_expected: int) -> None:
        """
        Begin with nothing; more than was expected costs a copy of what is there.

        Memory that nobody wrote into yet is not there yet either, so too much does no harm.
        """
        self._buffer = BytesIO(bytes(HEADER_BYTES + bytes_expected + len(_END)))
        self._buffer.seek(HEADER_BYTES)  # The header is known last.
        self._digest = BodyDigest()
        self._has_zeros = False
        self._end = b""
        """The last bytes, where zeros may go on in the next piece."""

    @property
    def length(self) -> int:
        """Bytes taken so far."""
        return self._digest.length

    def add(self, piece: bytes) -> None:
        """Take what follows; the time it takes is in proportion to its length."""
        self._buffer.write(piece)
        self._digest.add(piece)
        most = len(_SECTOR) - 1
        if not self._has_zeros:
            seam = self._end + piece[:most]
            self._has_zeros = seam.find(_SECTOR) >= 0 or piece.find(_SECTOR) >= 0
        self._end = piece[-most:] if len(piece) >= most else (self._end + piece)[-most:]

    def seal(
        self,
        *,
        index: int,
        term: int,
        kind: int,
        timestamp: int,
        first_record: int,
        record_count: int,
        previous_chain: bytes,
    ) -> Entry:
        """Build the entry with this body, as `seal_entry` does; the body is not copied again."""
        flags = FLAG_ZEROS if self._has_zeros else 0
        if self.length < len(_END) or self._end.endswith(_END):
            flags |= FLAG_ZERO_END
        body_hash = self._digest.body_hash()
        chain = chain_of(previous_chain, index, term, body_hash)
        length = self.length
        header = encode_header(
            kind,
            flags,
            self._digest.checksum,
            index,
            term,
            timestamp,
            first_record,
            record_count,
            length,
            chain,
        )
        raw = self._whole(header, bytes(-length & 7))
        entry = Entry(index, term, kind, timestamp, first_record, record_count, chain, raw, length)
        entry.body_hash = body_hash
        return entry

    def take_whole(self, header: bytes, fields: HeaderFields, padding: bytes) -> Entry:
        """
        Build the entry that was received, its checksum and padding verified.

        Args:
            header: Its header, of which `fields` are the verified content.

        Raises:
            CorruptEntryError: The checksum or the padding is wrong; `.reason` says which.
        """
        index, length = fields.entry_index, fields.body_length
        assert self.length == length, "all of the body was added"
        if self._digest.checksum != fields.body_checksum:
            raise CorruptEntryError("the body checksum is wrong", index=index)
        if padding != bytes(-length & 7):
            raise CorruptEntryError("the padding is not zero", index=index)
        raw = self._whole(header, padding)
        entry = Entry(
            index,
            fields.term,
            fields.kind,
            fields.timestamp,
            fields.first_record,
            fields.record_count,
            fields.chain,
            raw,
            length,
        )
        entry.body_hash = self._digest.body_hash()
        return entry

    def _whole(self, header: bytes, padding: bytes) -> bytes:
        buffer = self._buffer
        buffer.write(padding)
        buffer.truncate()
        buffer.seek(0)
        buffer.write(header)
        return buffer.getvalue()  # Shared with the buffer, not copied, as long as nobody writes.


def seal_body(parts: list[bytes] | EntryBody, **fields: Any) -> Entry:
    """
    Build the entry of a body that was gathered in pieces, or of parts that are joined at once.

    Args:
        fields: As `seal_entry` takes them, without `parts`.
    """
    if isinstance(parts, EntryBody):
        return parts.seal(**fields)
    return seal_entry(parts=parts, **fields)

"""
What stands in a small file of a shared directory: one page that is whole or says nothing.

A page has 4 KiB: a mark, a version, a checksum over all of it, and a JSON object that people can
read with `cat`. Each kind of page has its own mark, so that no file is taken for another.

Invariants:
    A page that was torn, has rotted or was never written is told from one that was written.
    Of two pages that are written in turn at least one is whole, whenever the writing ends.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from typing import Any, Final

from google_crc32c import value as crc32c

from holdfast.errors import StoreError

PAGE_BYTES: Final = 4096
VERSION: Final = 1

_HEAD: Final = struct.Struct("<4sHHII")

Fields = dict[str, Any]


@dataclass(frozen=True, slots=True)
class PageKind:
    """What a page is of: its mark of four bytes, and what people call it."""

    mark: bytes
    name: str

    def encode(self, fields: Fields) -> bytes:
        """Return the page that says this."""
        body = json.dumps(fields, sort_keys=True, separators=(",", ":")).encode()
        assert len(body) <= PAGE_BYTES - _HEAD.size, self.name
        head = _HEAD.pack(self.mark, VERSION, 0, 0, len(body))
        page = (head + body).ljust(PAGE_BYTES, b"\0")
        checksum: int = crc32c(page)
        return page[:8] + checksum.to_bytes(4, "little") + page[12:]

    def decode(self, page: bytes) -> Fields | None:
        """
        Return what a page says, None if it is torn, has rotted or is of another kind.

        Raises:
            StoreError: It is whole, but of a version that this program does not know.
        """
        if len(page) != PAGE_BYTES:
            return None
        mark, version, _, checksum, length = _HEAD.unpack_from(page)
        if mark != self.mark or crc32c(page[:8] + bytes(4) + page[12:]) != checksum:
            return None
        if version != VERSION:
            raise StoreError(
                f"this {self.name} has version {version}, and this program knows {VERSION}: start"
                " it with the version that wrote it"
            )
        fields: Fields = json.loads(page[_HEAD.size : _HEAD.size + length])
        return fields


STORE: Final = PageKind(b"HFST", "store file")
HOST: Final = PageKind(b"HFHO", "host file")
CLAIM: Final = PageKind(b"HFCL", "claim")
CURRENT: Final = PageKind(b"HFCU", "line of `current`")
BEAT: Final = PageKind(b"HFBE", "beat")
SEGMENT: Final = PageKind(b"HFSS", "segment of a shared directory")
BROKER: Final = PageKind(b"HFBR", "line of a broker")


def is_blank(data: bytes) -> bool:
    """Whether nothing was ever written here."""
    return not data.strip(b"\0")

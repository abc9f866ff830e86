"""
What a data file's bytes come to, as its manifest says it.

A digest finds what rotted, was cut off or lies under another's name. Against whoever means harm it
is no proof, and need not be one: the chain of the log proves what a row says (`log/proof.py`). So
it is CRC32C, as of each page of Parquet and each object of a store: over twenty times as fast here
as the BLAKE2b-128 of archives written before, and of those each file is compared by its own kind.
"""

from __future__ import annotations

from hashlib import blake2b
from typing import Final, Literal, TypeAlias

import pyarrow as pa
from google_crc32c import extend

DigestKind: TypeAlias = Literal["crc32c", "blake2b"]
NEW: Final[DigestKind] = "crc32c"
"""The kind that a file is written with."""

_CRC32C_PREFIX: Final = "crc32c:"


def kind_of(text: str) -> DigestKind:
    """Tell the kind of a digest in a manifest; BLAKE2b-128 stands there as 32 hex digits alone."""
    return "crc32c" if text.startswith(_CRC32C_PREFIX) else "blake2b"


class FileDigest:
    """Size and digest of bytes that are given part by part."""

    def __init__(self, kind: DigestKind = NEW) -> None:
        self.size = 0
        self._crc = 0
        self._hash = blake2b(digest_size=16) if kind == "blake2b" else None

    def update(self, data: bytes | pa.Buffer) -> None:
        """Take the next bytes."""
        self.size += len(data)
        if self._hash is None:
            self._crc = extend(self._crc, data)
        else:
            self._hash.update(data)

    @property
    def text(self) -> str:
        """As a manifest says it."""
        return f"{_CRC32C_PREFIX}{self._crc:08x}" if self._hash is None else self._hash.hexdigest()

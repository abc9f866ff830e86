"""
What PEM files hold, as far as it has to be known before OpenSSL is given them.

OpenSSL says of a certificate that has run out only what it says to each client that is refused. So
the blocks are looked at here: their kinds, and of certificates and revocations the names and times.

Invariants:
    Nothing is believed or refused because of what stands here: OpenSSL reads otherwise.

Pure but for `read_pem`.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

CERTIFICATE: Final = "CERTIFICATE"
REVOCATIONS: Final = "X509 CRL"

_BLOCK: Final = re.compile(
    rb"^-----BEGIN ([A-Z0-9 ]{1,40})-----\s*?$(.*?)^-----END \1-----",
    re.DOTALL | re.ASCII | re.MULTILINE,
)
_ALIASES: Final = {"X509 CERTIFICATE": CERTIFICATE, "TRUSTED CERTIFICATE": CERTIFICATE}
_SEQUENCE, _VERSION, _INTEGER, _UTC_TIME, _TIME = 0x30, 0xA0, 0x02, 0x17, 0x18
_TIMES: Final = {_UTC_TIME: "%y%m%d%H%M%SZ", _TIME: "%Y%m%d%H%M%SZ"}
_COMMON_NAME: Final = b"\x55\x04\x03"
"""2.5.4.3"""
_BYTES_MAX: Final = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Dated:
    """A certificate, or a list of revocations: whose it is, and for how long."""

    content: bytes
    issuer: bytes
    subject: bytes
    """Of a list of revocations its issuer once more."""

    begins: datetime
    ends: datetime | None
    """None: it does not say."""

    @property
    def named(self) -> str:
        """The common name of whose it is; empty: it has none that can be read."""
        return _common_name(self.subject)


def read_pem(path: Path) -> list[tuple[str, bytes]]:
    """
    Give the kind and the content of each block of a file; what makes no sense is left out.

    Raises:
        OSError: It cannot be read.
    """
    with path.open("rb") as file:
        text = file.read(_BYTES_MAX)
    found = []
    for block in _BLOCK.finditer(text):
        kind = block[1].decode("ascii")
        try:
            content = base64.b64decode(b"".join(block[2].split()), validate=True)
        except binascii.Error:
            continue  # A key under a password has lines of its own.
        found.append((_ALIASES.get(kind, kind), content))
    return found


def certificates_of(blocks: list[tuple[str, bytes]]) -> list[Dated]:
    """Give the certificates among them that can be read."""
    return list(_readable(blocks, CERTIFICATE))


def revocations_of(blocks: list[tuple[str, bytes]]) -> list[Dated]:
    """Give the lists of revocations among them that can be read."""
    return list(_readable(blocks, REVOCATIONS))


def _readable(blocks: list[tuple[str, bytes]], wanted: str) -> Iterator[Dated]:
    read = _certificate if wanted == CERTIFICATE else _revocations
    for kind, content in blocks:
        if kind == wanted:
            try:
                yield read(content)
            except (ValueError, IndexError):
                continue  # OpenSSL says what is wrong with it.


def _certificate(content: bytes) -> Dated:
    """RFC 5280, 4.1."""
    fields = _fields(_fields(content, _SEQUENCE)[0][1])
    if fields[0][0] == _VERSION:
        del fields[0]
    _, _, issuer, validity, subject = fields[:5]
    begins, ends = (_time(*it) for it in _fields(validity[1]))
    return Dated(content, issuer[1], subject[1], begins, ends)


def _revocations(content: bytes) -> Dated:
    """RFC 5280, 5.1."""
    fields = _fields(_fields(content, _SEQUENCE)[0][1])
    if fields[0][0] == _INTEGER:
        del fields[0]
    _, issuer, begins, *rest = fields
    ends = _time(*rest[0]) if rest and rest[0][0] in _TIMES else None
    return Dated(content, issuer[1], issuer[1], _time(*begins), ends)


def _common_name(name: bytes) -> str:
    """RFC 5280, 4.1.2.4: the last of that kind, as the most particular one stands last."""
    found = ""
    try:
        for _, parts in _fields(name):
            for _, pair in _fields(parts):
                (_, kind), (_, value) = _fields(pair)[:2]
                if kind == _COMMON_NAME:
                    found = value.decode("utf-8", "replace")
    except (ValueError, IndexError):
        return ""
    return found


def _time(kind: int, text: bytes) -> datetime:
    return datetime.strptime(text.decode("ascii"), _TIMES[kind]).replace(tzinfo=UTC)


def _fields(content: bytes, outer: int | None = None) -> list[tuple[int, bytes]]:
    """Take DER apart, one level deep; `outer` is stepped into first."""
    found, at = [], 0
    while at < len(content):
        kind, size, at = content[at], content[at + 1], at + 2
        if size & 0x80:
            count = size & 0x7F
            size, at = int.from_bytes(content[at : at + count], "big"), at + count
        if at + size > len(content):
            raise ValueError("it ends too early")
        found.append((kind, content[at : at + size]))
        at += size
    if outer is None:
        return found
    if not found or found[0][0] != outer:
        raise ValueError("it is none")
    return _fields(found[0][1])

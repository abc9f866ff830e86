"""Records of users and grants to bytes and back; their bytes are those of the documented format."""

from __future__ import annotations

import struct

import pytest

from holdfast.errors import CorruptRecordError
from holdfast.journal.record import RECORD_HEADER
from holdfast.model.access_records import AuditRecord, GrantRecord, UserRecord
from holdfast.store.record_codec import decode_records, encode_records
from holdfast.testing.every_record import told_by


def framed(kind: int, payload: bytes) -> bytes:
    """A record of this type."""
    return RECORD_HEADER.pack(kind, 0, 0, len(payload)) + payload


U64 = struct.Struct("<Q").pack

PAIRS = [
    (
        UserRecord("zoë", '{"roles":["a"]}', 3),
        framed(37, U64(3) + b"\4\0zo\xc3\xab" + b'{"roles":["a"]}'),
    ),
    (UserRecord("ann", "", 4), framed(37, U64(4) + b"\3\0ann")),
    (GrantRecord("a", "queue://b.>", 5), framed(38, b"\5\1\0a" + b"queue://b.>")),
    (GrantRecord("a", "b", 0), framed(38, b"\0\1\0ab")),
    (
        AuditRecord(7, "ann", "::1", "put", "bén", "done"),
        framed(39, U64(7) + b"\3\0\3\0\3\0\4\0\4\0" + b"ann::1putb\xc3\xa9ndone"),
    ),
    (AuditRecord(7, "", "", "", "", ""), framed(39, U64(7) + bytes(10))),
]


@pytest.mark.parametrize(("record", "written"), PAIRS)
def test_bytes_are_as_documented_and_give_the_record_again(record, written: bytes) -> None:
    """A log of this version is read for ever."""
    assert b"".join(encode_records([record])) == written
    (found,) = decode_records(written)
    assert told_by(found) == told_by(record)


@pytest.mark.parametrize(
    ("kind", "payload", "why"),
    [
        (37, U64(3), "unpack"),
        (37, U64(3) + b"\5\0ann", "its name is cut off"),
        (37, U64(3) + b"\0\0{}", "it has no name"),
        (37, U64(3) + b"\3\0ann[1]", "no object in JSON"),
        (37, U64(3) + b"\3\0\xff\xff\xff", "decode"),
        (38, b"\1", "unpack"),
        (38, b"\1\0\0b", "no role or no pattern"),
        (38, b"\1\1\0a", "no role or no pattern"),
        (38, b"\x08\1\0ab", "rights 0x08, which are not known"),
        (39, U64(7), "unpack"),
        (39, U64(7) + b"\1\0" + bytes(8), "do not fill it"),
        (39, U64(7) + bytes(10) + b"x", "do not fill it"),
    ],
)
def test_what_makes_no_sense_is_told(kind: int, payload: bytes, why: str) -> None:
    """A right that a later version means must never be passed over as none."""
    with pytest.raises(CorruptRecordError, match=why):
        list(decode_records(framed(kind, payload)))

"""
What the records of users, grants and of who changed them have behind their heads.

Layout of a user: revision (u64), length of the name (u16), name, values. Of a grant: rights (u8: 1
read, 2 write, 4 admin), length of the role (u16), role, pattern. Of who did what: when in
milliseconds (u64), lengths of who, source, action, object and outcome (u16 each), these five.

Invariants:
    decode(encode(record)) gives the same record.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any, Final

from holdfast.model.access_records import AccessRecord, AuditRecord, GrantRecord, UserRecord
from holdfast.store.policy_codec import is_json_object

USER: Final = 37
GRANT: Final = 38
AUDIT: Final = 39

NAMES: Final = {USER: "user", GRANT: "grant", AUDIT: "audit"}

RIGHTS_ALL: Final = 7

_USER: Final = struct.Struct("<QH")
_GRANT: Final = struct.Struct("<BH")
_AUDIT: Final = struct.Struct("<QHHHHH")


def _encode_user(record: UserRecord) -> bytes:
    name = record.name.encode()
    return _USER.pack(record.revision, len(name)) + name + record.values.encode()


def _decode_user(payload: bytes) -> UserRecord:
    revision, length = _USER.unpack_from(payload)
    name, values = _cut(payload, _USER.size, length)
    if not name:
        raise ValueError("it has no name")
    if values and not is_json_object(values):
        raise ValueError("its values are no object in JSON")
    return UserRecord(name, values, revision)


def _encode_grant(record: GrantRecord) -> bytes:
    role = record.role.encode()
    return _GRANT.pack(record.rights, len(role)) + role + record.pattern.encode()


def _decode_grant(payload: bytes) -> GrantRecord:
    rights, length = _GRANT.unpack_from(payload)
    role, pattern = _cut(payload, _GRANT.size, length)
    if not role or not pattern:
        raise ValueError("it has no role or no pattern")
    if rights & ~RIGHTS_ALL:
        raise ValueError(f"it has rights {rights:#04x}, which are not known to this version")
    return GrantRecord(role, pattern, rights)


def _cut(payload: bytes, start: int, length: int) -> tuple[str, str]:
    if start + length > len(payload):
        raise ValueError("its name is cut off")
    return payload[start : start + length].decode(), payload[start + length :].decode()


def _encode_audit(record: AuditRecord) -> bytes:
    said = (record.who, record.source, record.action, record.object, record.outcome)
    texts = [text.encode() for text in said]
    return _AUDIT.pack(record.at_ms, *map(len, texts)) + b"".join(texts)


def _decode_audit(payload: bytes) -> AuditRecord:
    at_ms, *lengths = _AUDIT.unpack_from(payload)
    if _AUDIT.size + sum(lengths) != len(payload):
        raise ValueError("its texts do not fill it")
    texts, place = [], _AUDIT.size
    for length in lengths:
        texts.append(payload[place : place + length].decode())
        place += length
    return AuditRecord(at_ms, *texts)


ENCODERS: Final[dict[type[AccessRecord], tuple[int, Callable[[Any], bytes]]]] = {
    UserRecord: (USER, _encode_user),
    GrantRecord: (GRANT, _encode_grant),
    AuditRecord: (AUDIT, _encode_audit),
}
"""By kind of record: its type in the log, and what makes its payload."""

DECODERS: Final[dict[int, Callable[[bytes], AccessRecord]]] = {
    USER: _decode_user,
    GRANT: _decode_grant,
    AUDIT: _decode_audit,
}
"""They raise ValueError, struct.error or UnicodeDecodeError where a payload makes no sense."""

"""
Users and grants as bytes of a checkpoint and back.

Layout: how many users and grants there are (u32 each). A user: revision (u64), lengths of name
(u16) and values (u32), home (u64), name, values. A grant: rights (u8), lengths of role and pattern
(u16 each), home (u64), role, pattern.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any, Final

from holdfast.broker.lasting.access import AccessKey, KeptRecord, LastingAccess, key_of
from holdfast.model.access_records import GrantRecord, UserRecord

_COUNTS: Final = struct.Struct("<II")
_USER: Final = struct.Struct("<QHIQ")
_GRANT: Final = struct.Struct("<BHHQ")


def encode_access(access: LastingAccess, *, canonical: bool) -> Iterator[bytes]:
    """
    Give what stands of them in a checkpoint, as they are now, one by one.

    Users and grants may change meanwhile: records do not, and which there are is known from now on.
    `canonical` sorts them, so that equal ones give equal bytes.
    """
    head = _COUNTS.pack(len(access.users), len(access.grants))
    records: list[KeptRecord] = [*access.users.values(), *access.grants.values()]
    return _encode(head, access.records() if canonical else records, dict(access.homes))


def _encode(head: bytes, records: list[KeptRecord], homes: dict[AccessKey, int]) -> Iterator[bytes]:
    yield head
    for record in records:
        home = homes[key_of(record)]
        if isinstance(record, UserRecord):
            name, values = record.name.encode(), record.values.encode()
            yield _USER.pack(record.revision, len(name), len(values), home) + name + values
        else:
            role, pattern = record.role.encode(), record.pattern.encode()
            yield _GRANT.pack(record.rights, len(role), len(pattern), home) + role + pattern


def decode_access(
    access: LastingAccess,
    take: Callable[[struct.Struct], tuple[Any, ...]],
    text: Callable[[int], str],
) -> None:
    """
    Put what stands there into `access`; `take` and `text` go on in the bytes.

    Raises:
        ValueError, struct.error, UnicodeDecodeError: It makes no sense.
    """
    user_count, grant_count = take(_COUNTS)
    for _ in range(user_count):
        revision, name_length, values_length, home = take(_USER)
        name = text(name_length)
        access.put(UserRecord(name, text(values_length), revision), home)
    for _ in range(grant_count):
        rights, role_length, pattern_length, home = take(_GRANT)
        role = text(role_length)
        access.put(GrantRecord(role, text(pattern_length), rights), home)

"""
Message groups: messages of one queue that say the same name go to one consumer, in their order.

What the broker goes by is a checksum of the name, a fact of each message, so nobody has to look
into its headers again. Two names may have the same: their messages then go to one consumer, too.
"""

from __future__ import annotations

from typing import Final

from google_crc32c import value as crc32c

BUCKETS: Final = 4096
"""Groups are in so many, by their checksums, where no policy says otherwise."""

BUCKETS_MAX: Final = 65_536

_INSTEAD_OF_NONE: Final = 1
"""0 says that a message is in no group."""


def group_hash(name: str) -> int:
    """Give the checksum of a group's name; 0 of no name, which is no group."""
    if not name:
        return 0
    checksum: int = crc32c(name.encode())
    return checksum or _INSTEAD_OF_NONE

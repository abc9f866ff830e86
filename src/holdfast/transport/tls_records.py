"""
How many records of TLS have come: what has nothing for anybody in it is counted by that.

A record may ask for new keys and bring nothing. Each takes ten microseconds, and a read has room
for two thousand of them: a stop of the loop, again and again. OpenSSL does not say how many there
were, but where each ends is written in clear.

Pure.
"""

from __future__ import annotations

from typing import Final

EMPTY_RECORDS_MAX: Final = 64
"""
So many records without anything for anybody may come, and one more for each MiB that is read; then
the connection ends. This bounds what is answered to them, too.
"""

_HEAD_BYTES: Final = 5


class RecordCount:
    """Follows the records of one direction of one connection, from its first byte on."""

    __slots__ = ("_head", "_left")

    def __init__(self) -> None:
        self._head = b""
        """What has come of a head that is cut in two."""
        self._left = 0
        """How many bytes of the last record are still to come."""

    def take(self, data: memoryview, count_max: int) -> tuple[int, int]:
        """
        Follow these bytes, which come after those before, until so many records have begun.

        Returns:
            How many have, and how many bytes were followed: all, or up to where the next begins.
        """
        size, found = len(data), 0
        at = self._left
        if self._head:
            missing = _HEAD_BYTES - len(self._head)
            self._head += bytes(data[:missing])
            if size < missing:
                return 0, size
            found, at = 1, missing + int.from_bytes(self._head[3:5], "big")
            self._head = b""
        while at + _HEAD_BYTES <= size:
            if found >= count_max:
                self._left = 0
                return found, at
            found += 1
            at += _HEAD_BYTES + (data[at + 3] << 8 | data[at + 4])
        if at <= size:
            self._head, self._left = bytes(data[at:]), 0
        else:
            self._left = at - size
        return found, size

"""
What clients' frames take that have not come whole, and who is closed when that is too much.

A frame may have a body of many megabytes, which is kept until its last byte is there; how long
that takes is up to the client. So all such frames together have a limit. Past it the connection
with the largest is closed with an ERROR: those with small frames, most, never notice.

Owned by the loop.
"""

from __future__ import annotations

from holdfast.server.connection import ClientConnection

TOO_MUCH_UNFINISHED = "too-much-unfinished"


class UnfinishedFrames:
    """Counts the bytes of unfinished frames, by connection and together."""

    __slots__ = ("_bytes_max", "bytes", "sizes")

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self.sizes: dict[ClientConnection, int] = {}
        """How much of its last frame is there, of each connection that has begun one."""
        self.bytes = 0
        """What all of them take now."""

    def note(self, connection: ClientConnection, size: int) -> None:
        """Take note of how much of a connection's last frame is there; 0 if none is unfinished."""
        before = self.sizes.pop(connection, 0)
        if size:
            self.sizes[connection] = size
        self.bytes += size - before

    def clear(self) -> None:
        """Forget all: nobody is connected any more."""
        self.sizes.clear()
        self.bytes = 0

    def take_largest(self) -> tuple[ClientConnection, str] | None:
        """Give the connection to close, with the sentence that says why, while it is too much."""
        if self.bytes <= self._bytes_max:
            return None
        largest = max(self.sizes, key=self.sizes.__getitem__)
        why = (
            f"unfinished frames take {self.bytes:,} bytes, at most {self._bytes_max:,}; the one of"
            f" this connection is the largest, with {self.sizes[largest]:,} so far; send it again"
        )
        self.note(largest, 0)
        return largest, why

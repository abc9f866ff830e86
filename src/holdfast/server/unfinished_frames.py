"""
What clients' frames take that have not come whole, and who is closed when that is too much.

A frame may have a body of many megabytes, which is kept until its last byte is there; how long
that takes is up to the client. So all such frames together have a limit. Past it a connection is
closed with an ERROR, the largest of the user whose frames take the most (`greediest`): those with
small frames, most, never notice, and who has many small ones closes nobody else's large one.

Owned by the loop.
"""

from __future__ import annotations

from collections.abc import Callable

from holdfast.server.connection import ClientConnection
from holdfast.server.greediest import greediest

TOO_MUCH_UNFINISHED = "too-much-unfinished"


class UnfinishedFrames:
    """Counts the bytes of unfinished frames, by connection and together."""

    __slots__ = ("_bytes_max", "_whose", "bytes", "sizes")

    def __init__(
        self, bytes_max: int, whose: Callable[[ClientConnection], str | None] = lambda _: None
    ) -> None:
        """Count for a node; `whose` gives the user of a connection, None where there are none."""
        self._bytes_max = bytes_max
        self._whose = whose
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
        largest, size = next(greediest(self.sizes, self._whose))
        user = self._whose(largest)
        of = "" if user is None else " of the user who holds the most"
        why = (
            f"unfinished frames take {self.bytes:,} bytes, at most {self._bytes_max:,}; the one of"
            f" this connection is the largest{of}, with {size:,} so far; send it again"
        )
        self.note(largest, 0)
        return largest, why

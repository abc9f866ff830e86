"""
How much is read from one client at once, and before it is served: its share of what all may bring.

What came and is not served yet is in memory, of each client up to its share twice: it is read in
pieces of a share, and not on once it has brought more. A fixed share for each would let many
clients fill the memory together, and to stop reading from all of them would stop those whose
acknowledgements make room. So the share shrinks where there are many.

Invariants:
    The buffer is everybody's: what is in it is copied before anybody else is read.

Owned by the loop.
"""

from __future__ import annotations

from typing import Final

from holdfast.server.settings import ServerSettings

SHARE_BYTES_MIN: Final = 4096
"""Less would cost more in calls than it saves in memory."""


class Reading:
    """The shares of the clients of one node, and the buffer that all of them are read into."""

    __slots__ = ("_bytes_max", "_buffer", "_total_bytes_max", "room", "share_bytes")

    def __init__(self, settings: ServerSettings) -> None:
        self._bytes_max = settings.incoming_bytes_max
        self._total_bytes_max = settings.incoming_total_bytes_max
        self._buffer = memoryview(bytearray(self._bytes_max))
        self.room = self._buffer
        """Where the next read goes."""
        self.share_bytes = self._bytes_max

    def share(self, count: int) -> None:
        """Let so many clients share what there is."""
        fair = self._total_bytes_max // max(count, 1)
        self.share_bytes = min(self._bytes_max, max(fair, SHARE_BYTES_MIN))
        self.room = self._buffer[: self.share_bytes]

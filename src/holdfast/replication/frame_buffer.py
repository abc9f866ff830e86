"""
Bytes from a link, cut into frames.

Big frames come in many pieces: the pieces are collected and joined once, when the last has come, so
the cost stays linear. Pure: bytes in, frames out.

Invariants:
    A frame is given out once, whole, in order.
    No frame longer than `bytes_max` is ever waited for.
"""

from __future__ import annotations

from holdfast.errors import RemoteProtocolError
from holdfast.replication.message_codec import FRAME_HEADER

HEADER_BYTES = FRAME_HEADER.size

Frame = tuple[int, bytes, int, int]
"""(type, buffer, start, end): the payload is `buffer[start:end]`."""


class FrameBuffer:
    """Collects what was received until it makes whole frames."""

    __slots__ = ("_held", "_needed", "_pieces", "bytes_max")

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self._pieces: list[bytes] = []
        self._held = 0
        self._needed = HEADER_BYTES

    @property
    def held_bytes(self) -> int:
        """What came of a frame that is not whole yet."""
        return self._held

    def feed(self, data: bytes) -> list[Frame]:
        """
        Take received bytes; return the frames that are complete now.

        Raises:
            RemoteProtocolError: A frame is empty or longer than allowed.
        """
        if self._pieces:
            self._pieces.append(data)
            self._held += len(data)
            if self._held < self._needed:
                return []
            data = b"".join(self._pieces)
            self._pieces.clear()
        frames: list[Frame] = []
        size = len(data)
        start = 0
        needed = HEADER_BYTES
        while size - start >= HEADER_BYTES:
            length, kind = FRAME_HEADER.unpack_from(data, start)
            if not 0 < length <= self.bytes_max:
                raise RemoteProtocolError(
                    f"a frame of {length:,} bytes; at most {self.bytes_max:,} are allowed"
                )
            needed = HEADER_BYTES - 1 + length
            if size - start < needed:
                break
            frames.append((kind, data, start + HEADER_BYTES, start + needed))
            start += needed
            needed = HEADER_BYTES
        if start < size:
            self._pieces.append(data[start:] if start else data)
        self._held = size - start
        self._needed = needed
        return frames

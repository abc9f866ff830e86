"""
Bytes from a link, cut into frames.

Big frames come in many pieces: the pieces are collected and joined once, when the last has come, so
the cost stays linear. One large entry is not even joined then: see large_append.py. Pure: bytes in,
frames out.

Invariants:
    A frame is given out once, whole, in order.
    No frame longer than `bytes_max` is ever waited for, and none but those that carry entries if it
    is longer than the buffer allowed at first: it would be taken apart in one go.
"""

from __future__ import annotations

from holdfast.errors import RemoteProtocolError
from holdfast.replication.large_append import LARGE_BYTES, PREFIX_BYTES, LargeAppend
from holdfast.replication.message_codec import APPEND_REQUEST, FRAME_HEADER, REPAIR_RESPONSE

HEADER_BYTES = FRAME_HEADER.size

_WITH_ENTRIES = (APPEND_REQUEST, REPAIR_RESPONSE)
"""What may be as long as an entry; all else is a few numbers, or was said in the handshake too."""

Frame = tuple[int, bytes | LargeAppend, int, int]
"""(type, buffer, start, end): the payload is `buffer[start:end]`, or is taken apart already."""


class FrameBuffer:
    """Collects what was received until it makes whole frames."""

    __slots__ = ("_held", "_large", "_needed", "_pieces", "_plain_bytes_max", "bytes_max")

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        """Of a frame that carries entries; may be raised. What carries none stays as long."""
        self._plain_bytes_max = bytes_max
        self._pieces: list[bytes] = []
        self._large: LargeAppend | None = None
        self._held = 0
        self._needed = HEADER_BYTES

    @property
    def held_bytes(self) -> int:
        """What came of a frame that is not whole yet."""
        return self._held

    @property
    def held_kind(self) -> int:
        """Of what kind the frame is that is not whole yet; 0 if that is not known."""
        if self._large is not None:
            return APPEND_REQUEST
        if not self._pieces or len(self._pieces[0]) < HEADER_BYTES:
            return 0
        kind: int = FRAME_HEADER.unpack_from(self._pieces[0])[1]
        return kind

    def feed(self, data: bytes) -> list[Frame]:
        """
        Take received bytes; return the frames that are complete now.

        Raises:
            RemoteProtocolError: A frame is empty or longer than allowed.
        """
        frames: list[Frame] = []
        large = self._large
        if large is not None:
            taken = large.left
            large.take(data[:taken])
            self._held += min(len(data), taken)
            if large.left:
                return []
            self._large = None
            self._held = 0
            frames.append((APPEND_REQUEST, large, 0, 0))
            data = data[taken:]
        elif self._pieces:
            self._pieces.append(data)
            self._held += len(data)
            if self._held < self._needed:
                return []
            data = b"".join(self._pieces)
            self._pieces.clear()
        return self._cut(data, frames)

    def _cut(self, data: bytes, frames: list[Frame]) -> list[Frame]:
        """Add the frames that `data` begins with, and hold what is over."""
        size = len(data)
        start = 0
        needed = HEADER_BYTES
        while size - start >= HEADER_BYTES:
            length, kind = FRAME_HEADER.unpack_from(data, start)
            most = self.bytes_max if kind in _WITH_ENTRIES else self._plain_bytes_max
            if not 0 < length <= most:
                raise RemoteProtocolError(
                    f"a frame of type {kind} with {length:,} bytes; at most {most:,} are allowed"
                )
            needed = HEADER_BYTES - 1 + length
            if size - start < needed:
                break
            frames.append((kind, data, start + HEADER_BYTES, start + needed))
            start += needed
            needed = HEADER_BYTES
        self._held = size - start
        self._needed = needed
        if self._held:
            rest = data[start:] if start else data
            if needed <= LARGE_BYTES or not self._begin_large(rest):
                self._pieces.append(rest)
        return frames

    def _begin_large(self, rest: bytes) -> bool:
        """Begin with a large entry if this is one; else see to it that all of the frame comes."""
        if len(rest) < PREFIX_BYTES:
            self._needed = PREFIX_BYTES  # It is looked at again as soon as it can be told.
            return False
        self._large = LargeAppend.begin(rest)
        return self._large is not None

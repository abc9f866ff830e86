"""
The frames of the topic message that is being written, for all subscribers that want the same bytes.

A message goes to its subscribers one after the other, so those of one message are all that help.
Kept with each message they would be there as long as it waits for anybody: a slow subscriber beside
a thousand others, each with an id of its own, would keep a thousand copies of all it does not read.

Owned by the context of all sessions of one node.
"""

from __future__ import annotations

from typing import Final

from holdfast.broker.serving.message import TransientMessage

FRAMES_COUNT_MAX: Final = 64
"""So many different ones are kept; small messages only are shared (`stomp_delivery`)."""


class SharedFrames:
    """What was written of one message, by what makes it different from what others want."""

    __slots__ = ("_frames", "_message")

    def __init__(self) -> None:
        self._message: TransientMessage | None = None
        self._frames: dict[bytes, bytes] = {}

    def find(self, message: TransientMessage, key: bytes) -> bytes | None:
        """Give the frame, if it was kept."""
        return self._frames.get(key) if message is self._message else None

    def keep(self, message: TransientMessage, key: bytes, frame: bytes) -> None:
        """Keep a frame until another message is written, or too many are kept."""
        if message is not self._message or len(self._frames) >= FRAMES_COUNT_MAX:
            self._frames = {}
            self._message = message
        self._frames[key] = frame

    def clear(self) -> None:
        """Keep nothing."""
        self._message = None
        self._frames = {}

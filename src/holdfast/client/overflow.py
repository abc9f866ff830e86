"""
What was delivered, was not taken and finds no room in memory: files that end with the process.

While a receipt is awaited the socket has to be read: an application that waits for its receipt
would otherwise wait for its own unread messages. What comes with it beyond `received_bytes_max`
lies here until it is taken. The files have no name, are readable by nobody else, and each is given
back as soon as everything in it has been taken.

Invariants:
    What is kept in memory of a message here does not depend on its size.

Owned by the session of one connection; its calls block for as long as a file takes.
"""

from __future__ import annotations

import logging
import marshal
import os
import tempfile
from typing import BinaryIO, cast

from holdfast.model.limits import MiB
from holdfast.protocols.stomp.frames import Frame

logger = logging.getLogger("holdfast.client")

FILE_BYTES = 16 * MiB
"""A file of this size is continued by another one, so that one slow reader keeps no more."""


class OverflowFile:
    """One file, written from its start to its end."""

    __slots__ = ("_file", "count", "size_bytes")

    def __init__(self) -> None:
        self._file = cast("BinaryIO", tempfile.TemporaryFile(buffering=0))  # noqa: SIM115 - kept
        self.count = 0
        """Frames in it that were not taken yet."""

        self.size_bytes = 0

    def append(self, data: bytes) -> int:
        """Write at the end, and give the place. OSError leaves what is there as it was."""
        place = self.size_bytes
        view = memoryview(data)
        while view:
            view = view[os.pwrite(self._file.fileno(), view, place + len(data) - len(view)) :]
        self.size_bytes += len(data)
        self.count += 1
        return place

    def read(self, place: int, size_bytes: int) -> bytes:
        """What was written at a place."""
        data = bytearray()
        while len(data) < size_bytes:
            part = os.pread(self._file.fileno(), size_bytes - len(data), place + len(data))
            if not part:
                raise OSError("a temporary file is shorter than what was written to it")
            data += part
        return bytes(data)

    def close(self) -> None:
        """Give it back to the system."""
        self._file.close()


class Overflowed:
    """Where a frame lies."""

    __slots__ = ("file", "place", "size_bytes")

    def __init__(self, file: OverflowFile, place: int, size_bytes: int) -> None:
        self.file = file
        self.place = place
        self.size_bytes = size_bytes


class Overflow:
    """The frames of one connection that find no room in memory."""

    def __init__(self) -> None:
        self.is_usable = True
        """False once a file could not be written: from then on the socket is not read instead."""

        self.count = 0
        self._last: OverflowFile | None = None

    def put(self, frame: Frame) -> Overflowed | None:
        """Keep a frame; None if no file can be written."""
        if not self.is_usable:
            return None
        data = marshal.dumps((frame.headers, frame.body))
        try:
            if self._last is None or self._last.size_bytes >= FILE_BYTES:
                self._last = OverflowFile()
            place = self._last.append(data)
        except OSError as error:
            self.is_usable = False
            logger.warning(
                "messages beyond received_bytes_max cannot be put into a file: %s", error
            )
            return None
        self.count += 1
        return Overflowed(self._last, place, len(data))

    def take(self, kept: Overflowed) -> Frame:
        """A frame that was put, which is kept no longer; OSError leaves it where it is."""
        data = kept.file.read(kept.place, kept.size_bytes)
        self.drop(kept)
        headers, body = marshal.loads(data)  # noqa: S302 - what this very process has written
        return Frame("MESSAGE", headers, body)

    def drop(self, kept: Overflowed) -> None:
        """A frame is kept no longer."""
        file = kept.file
        file.count -= 1
        self.count -= 1
        if not file.count:
            file.close()
            if file is self._last:
                self._last = None

"""
The work behind `holdfast send`: where bodies come from, at which pace, and what became of them.

Standard input is read by a thread in large pieces: a pipe that is slow must not stop heart-beats,
and one that is fast shall not wait for a hop per line.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import sys
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, BinaryIO

from holdfast.cli.message_patience import FIRST_SECONDS_DEFAULT, Patience
from holdfast.cli.message_progress import Tally, connected, progress_shown
from holdfast.client import Confirmation
from holdfast.errors import ConfigError
from holdfast.model.limits import KiB

PIECE_BYTES = 256 * KiB
STDIN = Path("-")


class Bodies:
    """Where bodies come from: a text, files or standard input; whole or line by line."""

    def __init__(
        self, body: str | None, files: list[Path], *, is_by_line: bool, count: int | None
    ) -> None:
        problems = [f"--file {path}: no such file" for path in files if not _is_readable(path)]
        if problems:
            raise ConfigError(problems)
        self._body = body
        self._files = files or [STDIN]
        self._is_by_line = is_by_line
        self._count = count

    @property
    def total(self) -> int | None:
        """How many there will be, if that is known beforehand."""
        if self._is_by_line:
            return None
        return (self._count or 1) * (1 if self._body is not None else len(self._files))

    async def read(self) -> AsyncIterator[bytes]:
        """
        One body after the other.

        Raises:
            OSError: A file cannot be read.
        """
        if self._is_by_line:
            left = self._count if self._count is not None else -1
            async for line in self._lines():
                if left == 0:
                    return
                left -= 1
                yield line
            return
        if self._body is not None:
            bodies = [self._body.encode()]
        else:
            bodies = [await _read_whole(path) for path in self._files]
        for _ in range(self._count or 1):
            for body in bodies:
                yield body

    async def _lines(self) -> AsyncIterator[bytes]:
        for path in self._files:
            stream = sys.stdin.buffer if path == STDIN else await asyncio.to_thread(path.open, "rb")
            rest = b""
            while piece := await read_piece(stream):
                *lines, rest = (rest + piece).split(b"\n")
                for line in lines:
                    yield line.removesuffix(b"\r")
            if rest:
                yield rest
            if path != STDIN:
                stream.close()


async def read_piece(stream: BinaryIO) -> bytes:
    """
    What can be read now, or wait for something; nothing at the end.

    In a thread of its own, which Ctrl-C leaves behind: asyncio would wait for its own threads, and
    nobody can end a read from a terminal. Cancelling may lose what the thread then reads.
    """
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[bytes] = loop.create_future()

    def settle(piece: bytes, error: OSError | None) -> None:
        if outcome.done():
            return
        if error is None:
            outcome.set_result(piece)
        else:
            outcome.set_exception(error)

    def read() -> None:
        piece, failure = b"", None
        try:
            piece = _read_piece(stream)
        except OSError as error:
            failure = error
        with contextlib.suppress(RuntimeError):  # the loop may have ended meanwhile
            loop.call_soon_threadsafe(settle, piece, failure)

    threading.Thread(target=read, name="holdfast-input", daemon=True).start()
    return await outcome


def _is_readable(path: Path) -> bool:
    return path == STDIN or path.is_file() or path.is_fifo()


async def _read_whole(path: Path) -> bytes:
    if path != STDIN:
        return await asyncio.to_thread(path.read_bytes)
    pieces = []
    while piece := await read_piece(sys.stdin.buffer):
        pieces.append(piece)
    return b"".join(pieces)


def _read_piece(stream: BinaryIO) -> bytes:
    try:
        # Not through the stream's buffer: its lock would be held when the interpreter ends.
        return os.read(stream.fileno(), PIECE_BYTES)
    except io.UnsupportedOperation:
        return stream.read(PIECE_BYTES)


class Sending:
    """One `holdfast send`."""

    def __init__(
        self,
        destination: str,
        bodies: Bodies,
        *,
        headers: dict[str, str],
        properties: dict[str, Any],
        is_persistent: bool,
        window: int,
        rate: float | None,
        seconds_max: float | None,
        is_quiet: bool,
    ) -> None:
        self._destination = destination
        self._bodies = bodies
        self._headers = headers
        self._properties = properties
        self._is_persistent = is_persistent
        self._window = window
        self._rate = rate
        self._seconds_max = seconds_max
        self._is_quiet = is_quiet
        self._paced_from = 0.0
        self.tally = Tally()

    async def run(self, uri: str, login: str | None, passcode: str | None) -> None:
        """
        Send everything and wait for the last confirmation.

        Raises:
            HoldfastError: The broker refused a message, or none answers in time.
            OSError: A file cannot be read.
        """
        patience = Patience(
            uri,
            first_seconds=self._seconds_max or FIRST_SECONDS_DEFAULT,
            later_seconds=self._seconds_max,
        )

        def settled(confirmation: Confirmation) -> None:
            patience.answered()
            if not confirmation.cancelled() and confirmation.exception() is None:
                self.tally.count += 1

        async with (
            connected(uri, login, passcode, patience, is_quiet=self._is_quiet) as connection,
            progress_shown(
                "sending", self._bodies.total, lambda: self.tally.count, is_quiet=self._is_quiet
            ),
        ):
            producer = connection.producer(self._destination, window=self._window)
            self.tally.start()
            try:
                sent = 0
                async for body in self._bodies.read():
                    await self._pace(sent)
                    confirmation = await producer.send(
                        body,
                        headers=self._headers,
                        persistent=self._is_persistent,
                        **self._properties,
                    )
                    patience.asked()
                    confirmation.add_done_callback(settled)
                    sent += 1
                await producer.flush()
            finally:
                self.tally.stop()

    async def _pace(self, sent: int) -> None:
        if self._rate is not None:
            loop = asyncio.get_running_loop()
            if sent == 0:
                self._paced_from = loop.time()
            due = self._paced_from + sent / self._rate
            if due > loop.time():
                await asyncio.sleep(due - loop.time())

    def summary(self) -> dict[str, object]:
        """What became of it, for programs."""
        return {
            "destination": self._destination,
            "confirmed": self.tally.count,
            "seconds": round(self.tally.seconds, 3),
            "rate": round(self.tally.rate, 1),
        }

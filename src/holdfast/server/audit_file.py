"""
The file of who did what: a line of JSON for each, written by a thread of its own.

Whoever rotates it renames it: the next line goes into a new file of the same name, without a
signal. It rotates itself when it is large, so it never fills a disk.

Invariants:
    Nobody waits for the disk to note something.
    What could not be noted is counted, and the count is noted once that is possible.
    It and those before it take no more than `FILE_BYTES_MAX` times `FILES_KEPT` bytes, and a line
    or so.

`note` and `close` are the loop's, all else the thread's own.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, Final

import structlog

from holdfast.environment.clock import Clock
from holdfast.errors import ConfigError
from holdfast.model.limits import MiB

log = structlog.get_logger("holdfast.server")

FILE_BYTES_MAX: Final = 64 * MiB
FILES_KEPT: Final = 5
"""The one that is written, and `.1` to `.4` behind it, the newest first."""

WAITING_COUNT_MAX: Final = 10_000
"""Lines that wait for the disk."""

AT_ONCE_MAX: Final = 500
REFUSALS_PER_SECOND_MAX: Final = 50
"""A stranger who is refused all the time would rotate away what others did."""

CLOSE_SECONDS_MAX: Final = 2.0
_COMPLAINT_SECONDS: Final = 60.0
_MODE: Final = 0o600

_Noted = tuple[int, Mapping[str, Any]]


class AuditFile:
    """The file of one node."""

    def __init__(self, path: Path, clock: Clock) -> None:
        """
        Open it, and begin to write.

        Raises:
            ConfigError: It cannot be written.
        """
        self._path = path
        self._clock = clock
        self._queue: SimpleQueue[_Noted | None] = SimpleQueue()
        self._lost_count = 0
        self._second = 0
        self._refused_count = 0
        self._left_out_count = 0
        self._complained_at = -_COMPLAINT_SECONDS
        self._descriptor = -1
        try:
            self._open()
        except OSError as error:
            raise ConfigError(
                [f"audit_file: {path} cannot be written: {error.strerror}"]
            ) from error
        self._thread = Thread(target=self._run, name="holdfast-audit", daemon=True)
        self._thread.start()

    def note(self, fields: Mapping[str, str], *, is_refusal: bool = False) -> None:
        """Write one line, in its time; of refusals so many in a second, and how many more."""
        now = self._clock.wall_microseconds()
        if now // 1_000_000 != self._second:
            self._second, self._refused_count = now // 1_000_000, 0
            if self._left_out_count:
                count, self._left_out_count = self._left_out_count, 0
                self._put(now, {"action": "refusals left out", "outcome": str(count)})
        if is_refusal:
            self._refused_count += 1
            if self._refused_count > REFUSALS_PER_SECOND_MAX:
                self._left_out_count += 1
                return
        self._put(now, fields)

    def close(self) -> None:
        """Write what waits, unless the disk hangs."""
        self._queue.put(None)
        self._thread.join(CLOSE_SECONDS_MAX)

    def _put(self, now: int, fields: Mapping[str, str]) -> None:
        if self._queue.qsize() >= WAITING_COUNT_MAX:
            self._lost_count += 1
        else:
            self._queue.put((now, fields))

    def _run(self) -> None:
        while True:
            noted = list(self._taken())
            lines = [_line(*each) for each in noted if each is not None]
            if lines:
                self._write(lines)
            if None in noted:
                os.close(self._descriptor)
                return

    def _taken(self) -> Iterator[_Noted | None]:
        """Wait for something to be noted, and give it with what else there is."""
        yield self._queue.get()
        with suppress(Empty):
            for _ in range(AT_ONCE_MAX - 1):
                yield self._queue.get_nowait()

    def _write(self, lines: list[bytes]) -> None:
        lost = self._lost_count
        if lost:
            fields = {"action": "lines lost", "outcome": str(lost)}
            lines.append(_line(self._clock.wall_microseconds(), fields))
        try:
            self._reopen()
            data = memoryview(b"".join(lines))
            while data:
                data = data[os.write(self._descriptor, data) :]
        except OSError as error:
            self._lost_count += len(lines) - bool(lost)
            self._complain(error)
        else:
            self._lost_count -= lost

    def _reopen(self) -> None:
        """Go on in a new file where this one was renamed, removed, or is large."""
        own = os.fstat(self._descriptor)
        if own.st_size >= FILE_BYTES_MAX:
            for number in range(FILES_KEPT - 1, 0, -1):
                older = self._path if number == 1 else self._numbered(number - 1)
                with suppress(FileNotFoundError):
                    older.replace(self._numbered(number))
        with suppress(FileNotFoundError):
            there = self._path.stat()
            if (there.st_dev, there.st_ino) == (own.st_dev, own.st_ino):
                return
        before = self._descriptor
        self._open()
        os.close(before)

    def _open(self) -> None:
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC
        self._descriptor = os.open(self._path, flags, _MODE)

    def _numbered(self, number: int) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}")

    def _complain(self, error: OSError) -> None:
        now = self._clock.monotonic()
        if now - self._complained_at >= _COMPLAINT_SECONDS:
            self._complained_at = now
            log.error("the audit file cannot be written", path=str(self._path), reason=str(error))


def _line(at_microseconds: int, fields: Mapping[str, Any]) -> bytes:
    at = datetime.fromtimestamp(at_microseconds / 1_000_000, UTC)
    time = at.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    # A name may have whatever its stranger likes: a terminal obeys more than ASCII's controls.
    return f"{json.dumps({'time': time, **fields})}\n".encode("ascii")

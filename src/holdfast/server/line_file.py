"""
A file of lines that never fills a disk: it makes room for itself, or somebody renames it.

Whoever rotates it renames it: the next line goes into a new file of the same name, without a
signal. It rotates itself when it is large.

Invariants:
    It and those before it take no more than `FILE_BYTES_MAX` times `FILES_KEPT` bytes, and what is
    written in one go.
    What could not be written is counted, and the count is written once that is possible.

Owned by one thread, which waits for the disk.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import structlog

from holdfast.errors import ConfigError
from holdfast.model.limits import MiB

log = structlog.get_logger("holdfast.server")

FILE_BYTES_MAX: Final = 64 * MiB
FILES_KEPT: Final = 5
"""The one that is written, and `.1` to `.4` behind it, the newest first."""

_COMPLAINT_SECONDS: Final = 60.0
_MODE: Final = 0o600


class LineFile:
    """The file, and those that were it before."""

    def __init__(
        self, path: Path, clock: Callable[[], float], line_of_lost: Callable[[int], bytes]
    ) -> None:
        """
        Open it.

        Args:
            path: Where it is.
            clock: Seconds that never go back, by which it complains of the disk once in a while.
            line_of_lost: Gives the line that says how many lines were lost.

        Raises:
            ConfigError: It cannot be written.
        """
        self._path = path
        self._clock = clock
        self._line_of_lost = line_of_lost
        self._lost_count = 0
        self._complained_at = -_COMPLAINT_SECONDS
        self._descriptor = -1
        try:
            self._open()
        except OSError as error:
            raise ConfigError(
                [f"audit_file: {path} cannot be written: {error.strerror}"]
            ) from error

    def write(self, lines: Sequence[bytes], dropped_count: int = 0) -> None:
        """Write lines, and how many were lost before; so many of them never came to it."""
        self._lost_count += dropped_count
        lost = self._lost_count
        if not lines:
            return
        data = memoryview(b"".join([*lines, self._line_of_lost(lost)] if lost else lines))
        try:
            self._reopen()
            while data:
                data = data[os.write(self._descriptor, data) :]
        except OSError as error:
            self._lost_count += len(lines)
            self._complain(error)
        else:
            self._lost_count = 0

    def close(self) -> None:
        """Write nothing more."""
        os.close(self._descriptor)

    def _reopen(self) -> None:
        """Go on in a new file where this one was renamed, removed, or is large."""
        own = os.fstat(self._descriptor)
        if own.st_size >= FILE_BYTES_MAX:
            for number in range(FILES_KEPT - 1, 0, -1):
                older = self._path if number == 1 else self._numbered(number - 1)
                with suppress(FileNotFoundError):
                    older.replace(self._numbered(number))
        with suppress(FileNotFoundError):
            if os.path.samestat(self._path.stat(), own):
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
        now = self._clock()
        if now - self._complained_at >= _COMPLAINT_SECONDS:
            self._complained_at = now
            log.error("the audit file cannot be written", path=str(self._path), reason=str(error))

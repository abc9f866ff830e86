"""
Room for what must go on while the file system of a SQLite database is full.

A sign of life or an acknowledgement takes little, but what was written ahead has to be moved into
the database's file at some time, and needs as much room again. So some is set aside in a file, by
who holds the lease, and given up when the database is refused room: then acknowledgements go on,
which make room, and the lease can be kept, and taken.

A file system may be out of files as well as of bytes, and a database that is opened needs two
beside it, FILE-wal and FILE-shm: so two are set aside, of which one has the room.
"""

from __future__ import annotations

import errno
import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from holdfast.environment.disk import is_no_room
from holdfast.model.limits import KiB, MiB

RESERVE_BYTES_MAX: Final = 24 * MiB
RESERVE_SHARE: Final = 0.1
"""So much of a file system is set aside, and at most the above."""
PROBE_BYTES: Final = 64 * KiB
"""Where not even so much is left there is no room: FILE-shm grows by half of it."""


class SqliteRoom:
    """The room beside one database's file."""

    def __init__(self, path: Path) -> None:
        """Take where the database is; nothing is looked at yet."""
        self._folder = path.parent
        self._path = path
        self.reserve = path.with_name(f"{path.name}-reserve")
        """Where room is set aside."""
        self._second = path.with_name(f"{path.name}-reserve2")
        self._is_low = False
        self._is_made = False
        """It was made by us: a file system may not tell how much room a file has, or keep none."""

    def reserve_bytes(self) -> int:
        """How much is to be set aside there."""
        found = os.statvfs(self._folder)
        return min(RESERVE_BYTES_MAX, int(RESERVE_SHARE * found.f_blocks * found.f_frsize))

    def look(self) -> str:
        """
        Set room aside if there is plenty; say why nothing more is to be published, or nothing.

        Raises:
            OSError: The file system cannot be looked at.
        """
        found = os.statvfs(self._folder)
        reserve = self.reserve_bytes()
        free = found.f_bavail * found.f_frsize
        is_there = self._is_whole(reserve)
        # What was given up is for acknowledgements and signs of life still, not for more messages.
        least = reserve if is_there else reserve + reserve // 2
        # Not back and forth with each page.
        least += reserve // 2 if self._is_low else 0
        self._is_low = free < least
        if self._is_low:
            return f"the file system of {self._path} has less than {least:,} bytes left"
        if free >= 3 * reserve and not is_there:
            self._set_aside(reserve)
        elif is_there and not self._second.exists():
            self._keep_second()
        return ""

    @property
    def is_set_aside(self) -> bool:
        """Whether there is any room that is set aside."""
        return self.reserve.exists()

    def _is_whole(self, size: int) -> bool:
        """Whether it is there with all its room: a copy of it may be a hole of the same size."""
        try:
            found = self.reserve.stat()
        except FileNotFoundError:
            return False
        return found.st_size >= size and (self._is_made or found.st_blocks * 512 >= size)

    def is_out(self) -> bool:
        """Whether the file system takes not even a little more, as it is just now."""
        why = self._probe()
        return why is not None and is_no_room(why)

    def why_not_opened(self) -> OSError | None:
        """
        What keeps the database, or a file beside it, from being opened; None if that is not seen.

        None of them is opened for that: to close one lets go of all locks that this process has.
        """
        why = self._probe()
        if why is not None:
            return why
        for end in ("", "-wal", "-shm"):
            path = self._path.with_name(f"{self._path.name}{end}")
            is_denied = not os.access(path, os.R_OK | os.W_OK, effective_ids=True)
            if is_denied and os.access(path, os.F_OK):
                return PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return None

    def _probe(self) -> OSError | None:
        """What the file system has against one more small file there."""
        probe = self._path.with_name(f"{self._path.name}-probe")
        try:
            file = os.open(probe, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(file, 0, PROBE_BYTES)
            finally:
                os.close(file)
                probe.unlink(missing_ok=True)
        except OSError as error:
            return OSError(error.errno, error.strerror, str(self._folder))
        return None

    def _set_aside(self, size: int) -> None:
        try:
            file = os.open(self.reserve, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(file, 0, size)
            finally:
                os.close(file)
        except OSError:
            self.give_up()  # A part of it is no use to anybody.
        else:
            self._is_made = True
            self._keep_second()

    def _keep_second(self) -> None:
        """Set one more file aside; where that is refused the next look tries it again."""
        with suppress(OSError):
            os.close(os.open(self._second, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))

    def give_up(self) -> bool:
        """Let the database have what was set aside; whether there was any room."""
        with suppress(OSError):
            self._second.unlink()
        try:
            self.reserve.unlink()
        except OSError:
            return False
        self._is_made = False
        return True

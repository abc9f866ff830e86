"""
Room for what must go on while the file system of a SQLite database is full.

A sign of life or an acknowledgement takes little, but what was written ahead has to be moved into
the database's file at some time, and needs as much room again. So some is set aside in a file, by
who holds the lease, and given up when the database is refused room: then acknowledgements go on,
which make room, and the lease can be kept, and taken.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from holdfast.model.limits import MiB

RESERVE_BYTES_MAX: Final = 24 * MiB
RESERVE_SHARE: Final = 0.1
"""So much of a file system is set aside, and at most the above."""


class SqliteRoom:
    """The room beside one database's file."""

    def __init__(self, path: Path) -> None:
        """Take where the database is; nothing is looked at yet."""
        self._folder = path.parent
        self._path = path
        self._reserve = path.with_name(f"{path.name}-reserve")
        self._is_low = False

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
        # Not back and forth with each page.
        self._is_low = free < (reserve + reserve // 2 if self._is_low else reserve)
        if self._is_low:
            return f"the file system of {self._path} has less than {reserve:,} bytes left"
        if free >= 3 * reserve and not self._reserve.exists():
            self._set_aside(reserve)
        return ""

    def _set_aside(self, size: int) -> None:
        try:
            file = os.open(self._reserve, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                os.posix_fallocate(file, 0, size)
            finally:
                os.close(file)
        except OSError:
            self.give_up()  # A part of it would never be made whole.

    def give_up(self) -> None:
        """Let the database have what was set aside."""
        with suppress(OSError):
            self._reserve.unlink(missing_ok=True)

"""
SQLite: a file that is only read, where it lies, and nothing is changed beside it either.

While a broker has it open it is read as by another process, through FILE-shm. Where no FILE-shm is
nobody has it open, and SQLite would make one, and a FILE-wal, and move what is in FILE-wal into the
database: where it may not, as in a snapshot or a backup, it opens nothing, and where it may, a copy
is another one after each look. So a file at rest is read without locks, and each answer counts only
if all is as it was once it was given.

Not for a process that serves the same file: SQLite's locks are let go of with any close of it.

Source: sqlite.org, "Write-Ahead Logging", "Read-Only Databases"; "Uniform Resource Identifiers".
"""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from holdfast.errors import StoreError
from holdfast.sql.session import Surroundings
from holdfast.sql.sqlite import SqliteSession
from holdfast.sql.sqlite_file import file_at, real_path

if TYPE_CHECKING:
    from holdfast.sql.url import StoreUrl


class _Stat(NamedTuple):
    """A file as it is, as far as that is told without reading it."""

    device: int
    number: int
    size: int
    changed_at: int


class Rest(NamedTuple):
    """Files that nobody has open, as they lie there."""

    database: _Stat | None
    wal: _Stat | None


def rest_of(path: Path) -> Rest | None:
    """
    Give how a database lies there; None where somebody may have it open.

    Raises:
        OSError: It cannot be seen.
    """
    if _stat(path, "-shm") is not None:
        return None
    return Rest(_stat(path), _stat(path, "-wal"))


def _stat(path: Path, end: str = "") -> _Stat | None:
    try:
        found = path.with_name(f"{path.name}{end}").stat()
    except FileNotFoundError:
        return None
    return _Stat(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


class SqliteLook(SqliteSession):
    """One connection that reads."""

    is_in_file = False  # It makes nothing, and says itself what changed under it.
    is_serving = False

    def __init__(self, connection: sqlite3.Connection, path: str, rest: Rest | None) -> None:
        """Take a connection that was made while the files lay there like this."""
        super().__init__(connection, path)
        self._rest = rest

    @classmethod
    def look_around(cls, url: StoreUrl) -> Surroundings:
        """It changes nothing, wherever it is."""
        del url
        return Surroundings()

    @classmethod
    def _opened(cls, url: StoreUrl, seconds: float) -> SqliteSession:
        real = real_path(url.database)
        if not os.access(real, os.R_OK, effective_ids=True) and real.exists():
            raise StoreError(f"{url} may not be read by this user: let it read the file")
        rest = rest_of(real)
        name = f"{real.as_uri()}?mode=ro"
        has_wal = rest is not None and rest.wal is not None and rest.wal.size > 0
        if rest is not None:
            name += "&vfs=unix-none" if has_wal else "&immutable=1"
        session = cls(cls._connection_to(url, name, seconds), url.database, rest)
        try:
            if has_wal:
                # Then SQLite keeps for itself what it would have in FILE-shm.
                session._connection.execute("PRAGMA locking_mode = EXCLUSIVE")
            session._connection.execute("SELECT 1 FROM sqlite_master").fetchall()
        except BaseException as error:
            session._note(error)
            session.close()
            raise
        return session

    def require_there(self) -> None:
        """See that what was read is what lay there all the time."""
        if self._has_changed():
            error = sqlite3.OperationalError("it was opened or changed while it was looked at")
            error.sqlite_errorcode = sqlite3.SQLITE_BUSY
            raise error

    def _has_changed(self) -> bool:
        if self._rest is None:
            return file_at(self._path) != self._file
        try:
            return rest_of(self._real) != self._rest
        except OSError:
            return True

    def _note(self, error: BaseException) -> None:
        """What was read of a file that changes meanwhile is no damage."""
        if isinstance(error, sqlite3.Error) and self._has_changed():
            error.sqlite_errorcode = sqlite3.SQLITE_BUSY

    def unsafe_settings(self) -> list[str]:
        """What it would lose by its settings is for who writes it."""
        return []

    def low_room(self) -> str:
        """Set nothing aside."""
        return ""

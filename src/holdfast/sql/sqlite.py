"""
SQLite: a file on this machine, several processes.

Every commit is synced (WAL with synchronous=FULL), and one process writes at a time: BEGIN
IMMEDIATE waits for the others, bounded by the busy timeout. A process that was stopped while it
wrote holds the others up until it goes on or is killed; that is SQLite's own lock, and safe.

Source: sqlite.org, "Write-Ahead Logging", "Result and Error Codes".
"""

from __future__ import annotations

import errno
import logging
import sqlite3
import time
from collections.abc import Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final

from sqlalchemy.dialects import sqlite

from holdfast.environment.disk import is_no_room
from holdfast.errors import StoreError, UnreachableError
from holdfast.model.limits import KiB
from holdfast.sql import statements
from holdfast.sql.faults import Fault
from holdfast.sql.session import HASTE_SECONDS, Session, Surroundings, Values
from holdfast.sql.sqlite_file import (
    FoundFile,
    file_at,
    look_at,
    make_ours,
    real_path,
    require_one_way,
    why_refused_anew,
)
from holdfast.sql.sqlite_host import around
from holdfast.sql.sqlite_room import SqliteRoom

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.environment.remote_server import Host
    from holdfast.sql.parts import Part
    from holdfast.sql.url import StoreUrl

logger = logging.getLogger("holdfast.sql")

PAGE_BYTES: Final = 16_384
WAL_PAGES_MAX: Final = 1000
"""So many pages are written ahead before they are moved into the database's file; fewer where less
room than that is set aside for it."""

RESERVED_FOR_BYTES: Final = 64 * KiB
"""Of an entry: what is larger must not use up the room for signs of life and acknowledgements."""

_INSERT: Final = (
    "INSERT INTO holdfast_entries (idx, part, term, first_record, record_count, bytes, stored_at,"
    " raw) VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
)
_RETRY_SECONDS: Final = 0.01
_CODES: Final = {
    sqlite3.SQLITE_BUSY: Fault.BUSY,
    sqlite3.SQLITE_LOCKED: Fault.BUSY,
    sqlite3.SQLITE_PROTOCOL: Fault.BUSY,
    sqlite3.SQLITE_FULL: Fault.FULL,
    sqlite3.SQLITE_TOOBIG: Fault.FULL,
    sqlite3.SQLITE_NOMEM: Fault.LOST,
    # Of any file that it needs, and whatever the reason: the file system is asked for that.
    sqlite3.SQLITE_CANTOPEN: Fault.LOST,
    sqlite3.SQLITE_PERM: Fault.UNWRITABLE,
    sqlite3.SQLITE_READONLY: Fault.UNWRITABLE,
    # Of a sync that failed nobody knows what is on the disk, and the next one may say nothing.
    sqlite3.SQLITE_IOERR: Fault.FAILING,
    sqlite3.SQLITE_CORRUPT: Fault.DAMAGED,
    sqlite3.SQLITE_NOTADB: Fault.DAMAGED,
    sqlite3.SQLITE_CONSTRAINT: Fault.DUPLICATE,
}
_EXTENDED_CODES: Final = {
    # FILE-shm has nothing that is not in FILE-wal: it is made anew with the next connection.
    sqlite3.SQLITE_IOERR_SHMOPEN: Fault.LOST,
    sqlite3.SQLITE_IOERR_SHMSIZE: Fault.LOST,
    sqlite3.SQLITE_IOERR_SHMMAP: Fault.LOST,
    sqlite3.SQLITE_IOERR_NOMEM: Fault.LOST,
}
_MAY_WANT_ROOM: Final = frozenset(
    {
        sqlite3.SQLITE_IOERR_SHMOPEN,
        sqlite3.SQLITE_IOERR_SHMSIZE,
        sqlite3.SQLITE_IOERR_SHMMAP,
        sqlite3.SQLITE_IOERR_WRITE,  # Past a quota; past the end of the disk SQLite says FULL.
    }
)
"""What SQLite calls an error of the disk may be that there was no room on it."""
_FORBIDS: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS})


class SqliteSession(Session):
    """One connection to a file."""

    dialect = sqlite.dialect(paramstyle="named")
    errors = (sqlite3.Error,)
    view_creation = "CREATE VIEW IF NOT EXISTS"
    kind = f"SQLite {sqlite3.sqlite_version}"

    is_in_file: ClassVar[bool] = True
    is_serving: ClassVar[bool] = True
    """Whether it is a broker's: it may give up the room that is set aside for brokers, where there
    is none, and this machine has the file from then on."""

    def __init__(self, connection: sqlite3.Connection, path: str) -> None:
        """Take a connection to the file that is at this path now."""
        self._connection = connection
        self._path = path
        self._real = real_path(path)
        self.file = self._file = file_at(path)
        self._wal: FoundFile | None = None
        """What was written to is in it until it is moved into the database."""
        self._room = SqliteRoom(Path(path))
        self._is_large = False
        """Whether what is written now is nothing that room is set aside for."""

    @classmethod
    def file_of(cls, url: StoreUrl) -> FoundFile | None:
        try:
            return file_at(url.database)
        except NotADirectoryError:
            return None

    @classmethod
    def look_around(cls, url: StoreUrl) -> Surroundings:
        return around(url.database, may_note=cls.is_serving)

    @classmethod
    def connect(cls, url: StoreUrl, host: Host | None, seconds: float) -> SqliteSession:
        """
        Open the file, and make it if its directory is there and it was not used before.

        Raises:
            sqlite3.Error: It cannot be opened or set up.
            UnreachableError: Another file came in its place meanwhile.
            StoreError: There is no folder for it, or its file can be reached in two folders.
        """
        assert host is None, "a file has no host"
        cls._require_place(url)
        try:
            return cls._opened(url, seconds)
        except sqlite3.Error as error:
            if SqliteSession.fault(error) is not Fault.FULL:
                raise
        # It had no room for the files beside it, and what was set aside was given up.
        return cls._opened(url, seconds)

    @staticmethod
    def _require_place(url: StoreUrl) -> None:
        folder = Path(url.database).parent
        if not folder.is_dir():
            raise StoreError(
                f"{folder}, where {url} is to be kept, is no directory: make it, or see whether it"
                f" is mounted"
            )
        if Path(url.database).is_dir():
            raise StoreError(f"{url} is a directory, and not a database's file: name a file in it")
        require_one_way(url.database)

    @classmethod
    def _opened(cls, url: StoreUrl, seconds: float) -> SqliteSession:
        before = file_at(url.database)
        if before is None and not url.is_begun:
            make_ours(url.database)
        # What was used before is not made anew where something else is mounted over its folder.
        name = Path(url.database).absolute().as_uri() + ("?mode=rw" if url.is_begun else "")
        session = cls(cls._connection_to(url, name, seconds), url.database)
        connection = session._connection
        try:
            if before not in {None, session._file}:
                raise session._elsewhere()
            connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
            session._use_wal(seconds)
            connection.execute("PRAGMA synchronous = FULL")
            connection.execute("PRAGMA fullfsync = ON")
            pages = min(WAL_PAGES_MAX, max(session._room.reserve_bytes() // 2 // PAGE_BYTES, 1))
            connection.execute(f"PRAGMA wal_autocheckpoint = {pages}")
        except BaseException as error:
            session._note(error)
            session.close()
            raise
        return session

    @classmethod
    def _connection_to(cls, url: StoreUrl, name: str, seconds: float) -> sqlite3.Connection:
        """Have SQLite open what it knows by this URI; an error tells why it could not."""
        # The driver's thread opens it, uses it and closes it; a test may do so from another one.
        try:
            return sqlite3.connect(
                name, timeout=seconds, isolation_level=None, check_same_thread=False, uri=True
            )
        except sqlite3.Error as error:
            cls._explain(error, SqliteRoom(Path(url.database)))
            raise

    def _use_wal(self, seconds: float) -> None:
        """Two that do so at once may find the file locked without being made to wait."""
        until = time.monotonic() + seconds
        while True:
            try:
                self._connection.execute("PRAGMA journal_mode = WAL")
            except sqlite3.OperationalError as error:
                if self.fault(error) is not Fault.BUSY or time.monotonic() >= until:
                    raise
                time.sleep(_RETRY_SECONDS)
            else:
                return

    def require_there(self) -> None:
        """
        See that the file is still the one of its name.

        A file that was removed while it is open goes on taking writes that nobody will ever read,
        beside the one that others open by that name; or it is back in a moment, as one over whose
        folder something was mounted. It is looked at after each write, before that is told of as
        stored. The same is so of FILE-wal, which SQLite leaves where it is while anybody has it
        open: who removes it alone reaches the file by another mount, or is a person.
        """
        found, name_count = look_at(self._path)
        if found != self._file:
            raise self._elsewhere()
        self._tell_names(name_count)
        wal = file_at(f"{self._real}-wal")
        self._wal = self._wal or wal
        if wal != self._wal:
            if file_at(self._path) != self._file or file_at(f"{self._real}-wal") == self._wal:
                raise self._elsewhere()
            raise StoreError(
                f"{self._real}-wal was removed or replaced while it was in use, so nothing is"
                f" stored in it: another process opened the database by another mount, or somebody"
                f" removed that file"
            )

    def _elsewhere(self) -> UnreachableError:
        return UnreachableError(
            f"{self._path} is not the file any more that was opened, so nothing is stored in it:"
            f" something is mounted over its folder, or it was removed or replaced; stop all"
            f" brokers before a database is moved or brought back"
        )

    def _is_there(self) -> bool:
        """Whether what is beside the file of its name is beside this one."""
        try:
            return file_at(self._path) == self._file
        except OSError:
            return False

    def _tell_names(self, count: int) -> None:
        """Say now what only the next connection would meet, and say when it is over."""
        was, self.warning = self.warning, why_refused_anew(self._path, count)
        if self.warning and not was:
            logger.error(self.warning)
        elif was and not self.warning:
            logger.info("%s has one name again", self._path)

    def low_room(self) -> str:
        """Look at the file system, and set room aside in it."""
        with suppress(OSError):
            return self._room.look() if self._is_there() else ""
        return ""

    def bound(self, seconds: float) -> None:
        """Wait for other processes for so long; the disk itself cannot be bounded."""
        self._connection.execute(f"PRAGMA busy_timeout = {max(1, int(seconds * 1000))}")

    def write(self, statement: str, values: Values | None = None) -> int:
        try:
            return self._connection.execute(self.text(statement), dict(values or {})).rowcount
        except sqlite3.Error as error:
            self._note(error)
            raise

    def _note(self, error: BaseException) -> None:
        """Where there is no room say so, and let the next attempt have what was set aside."""
        if isinstance(error, sqlite3.Error) and self._is_there():
            self._explain(error, self._room, is_large=self._is_large)

    @classmethod
    def _explain(cls, error: sqlite3.Error, room: SqliteRoom, *, is_large: bool = False) -> None:
        """As `_note`; SQLite calls by one name whatever keeps it from opening a file."""
        code = getattr(error, "sqlite_errorcode", None)
        if code in _MAY_WANT_ROOM and room.is_out():
            error.sqlite_errorcode = sqlite3.SQLITE_FULL
        elif code is not None and code & 0xFF == sqlite3.SQLITE_CANTOPEN:
            cls._explain_unopened(error, room)
        if cls.fault(error) is not Fault.FULL or is_large:
            return
        if cls.is_serving:
            room.give_up()
        elif room.is_set_aside:
            error.args = (f"{error}; {room.reserve} is set aside for its broker",)

    @classmethod
    def _explain_unopened(cls, error: sqlite3.Error, room: SqliteRoom) -> None:
        why = room.why_not_opened()
        if why is None:
            return
        error.args = (f"{error} ({why.filename}: {why.strerror})",)
        if is_no_room(why):
            error.sqlite_errorcode = sqlite3.SQLITE_FULL
        elif why.errno in _FORBIDS:
            error.sqlite_errorcode = sqlite3.SQLITE_PERM

    def rows(self, statement: str, values: Values | None = None) -> list[tuple[Any, ...]]:
        try:
            return self._connection.execute(self.text(statement), dict(values or {})).fetchall()
        except sqlite3.Error as error:
            self._note(error)  # To read is to write as well, where FILE-shm is to be made.
            raise

    @contextmanager
    def transaction(self) -> Iterator[None]:
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            yield
            self._connection.execute("COMMIT")
        except BaseException as error:
            with suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")
            self._note(error)
            raise

    @contextmanager
    def hasty(self) -> Iterator[None]:
        self.bound(HASTE_SECONDS)
        self._is_large = True  # However little it is: it is only shown, and nobody waits for it.
        try:
            with self.transaction():
                yield
        finally:
            self._is_large = False

    def append(self, fence: Values, parts: Sequence[Part]) -> bool:
        self._is_large = sum(len(it.raw) for it in parts) > RESERVED_FOR_BYTES
        try:
            with self.transaction():
                is_held = self.write(statements.ADVANCE, fence) == 1
                if is_held:
                    self._connection.executemany(_INSERT, parts)
        finally:
            self._is_large = False
        return is_held

    def unsafe_settings(self) -> list[str]:
        """Look at what was set: a file system may not bear it."""
        unsafe = []
        (mode,) = self.rows("PRAGMA journal_mode")[0]
        if mode != "wal":
            unsafe.append(f"journal_mode is {mode}, and must be wal")
        (level,) = self.rows("PRAGMA synchronous")[0]
        if level < 2:
            unsafe.append(f"synchronous is {level}, and must be FULL (2)")
        return unsafe

    @staticmethod
    def fault(error: Exception) -> Fault:
        code = getattr(error, "sqlite_errorcode", None)
        if code is None:
            return Fault.UNKNOWN
        said = str(error)
        if said.startswith("no such table"):
            return Fault.NO_TABLE
        if "no such column" in said or "has no column" in said:
            return Fault.NO_COLUMN
        return _EXTENDED_CODES.get(code) or _CODES.get(code & 0xFF, Fault.UNKNOWN)

    def lay_out(self, creations: Sequence[str]) -> None:
        with self.transaction():
            for creation in creations:
                self.write(creation)

    def check(self) -> None:
        """Let SQLite look over its pages: what its own checks find is not gone on with."""
        (said,) = self.rows("PRAGMA quick_check(1)")[0]
        if said != "ok":
            error = sqlite3.DatabaseError(said)
            error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
            raise error

    def close(self) -> None:
        with suppress(sqlite3.Error):
            self._connection.close()


class SqliteVisit(SqliteSession):
    """A connection of an operator's command: what is there for brokers is not its own."""

    is_serving = False

"""SQLite's session where its disk is full: what its codes mean, and who gets what is set aside."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import AppendRefusedError, StoreError, UnreachableError
from holdfast.sql.faults import Fault
from holdfast.sql.opening import open_sql_log
from holdfast.sql.session import Values
from holdfast.sql.sqlite import SqliteSession
from holdfast.sql.sqlite_room import SqliteRoom
from holdfast.sql.url import SQLITE, StoreUrl


def failed(code: int) -> sqlite3.OperationalError:
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = code
    return error


def opened(path: Path) -> SqliteSession:
    return SqliteSession.connect(StoreUrl(SQLITE, (), str(path)), None, 1.0)


@pytest.fixture
def reserve(tmp_path: Path) -> Path:
    """A database with room set aside beside it."""
    with closing(opened(tmp_path / "x.db")) as session:
        session.write("CREATE TABLE x (y)")
        assert session.low_room() == ""
    return tmp_path / "x.db-reserve"


class Failing:
    """A connection of which each statement that starts so fails, as long as it is to."""

    def __init__(self, connection: sqlite3.Connection, start: str, code: int) -> None:
        self._connection = connection
        self._start = start
        self._code = code

    def execute(self, statement: str, *values: Any) -> Any:
        if statement.startswith(self._start):
            raise failed(self._code)
        return self._connection.execute(statement, *values)

    def close(self) -> None:
        self._connection.close()


@pytest.mark.parametrize(
    ("code", "is_out", "fault"),
    [
        (sqlite3.SQLITE_IOERR_SHMSIZE, True, Fault.FULL),
        (sqlite3.SQLITE_IOERR_SHMMAP, True, Fault.FULL),
        (sqlite3.SQLITE_IOERR_SHMOPEN, True, Fault.FULL),
        (sqlite3.SQLITE_IOERR_WRITE, True, Fault.FULL),
        (sqlite3.SQLITE_IOERR_FSYNC, True, Fault.FAILING),
        (sqlite3.SQLITE_IOERR_READ, True, Fault.FAILING),
        (sqlite3.SQLITE_FULL, False, Fault.FULL),
        (sqlite3.SQLITE_IOERR_SHMSIZE, False, Fault.LOST),
        (sqlite3.SQLITE_IOERR_SHMMAP, False, Fault.LOST),
        (sqlite3.SQLITE_IOERR_WRITE, False, Fault.FAILING),
        (sqlite3.SQLITE_IOERR, False, Fault.FAILING),
        (sqlite3.SQLITE_CORRUPT, True, Fault.DAMAGED),
        (sqlite3.SQLITE_CORRUPT_INDEX, False, Fault.DAMAGED),
    ],
)
@pytest.mark.parametrize("statement", ["SELECT", "UPDATE", "BEGIN"])
def test_an_error_of_the_disk_is_no_room_where_there_is_none(
    reserve: Path,
    monkeypatch: pytest.MonkeyPatch,
    statement: str,
    code: int,
    is_out: bool,
    fault: Fault,
) -> None:
    """
    Then what is set aside is given up. After a sync that failed nobody knows what is on the disk,
    which is no word of damage either: nobody is told to bring back an older copy of it.
    """
    monkeypatch.setattr(SqliteRoom, "is_out", lambda _: is_out)
    with closing(opened(reserve.with_name("x.db"))) as session:
        monkeypatch.setattr(session, "_connection", Failing(session._connection, statement, code))
        with pytest.raises(sqlite3.Error) as raised:
            if statement == "SELECT":
                session.rows("SELECT y FROM x")
            elif statement == "UPDATE":
                session.write("UPDATE x SET y = 1")
            else:
                with session.transaction():
                    pass

        assert session.fault(raised.value) is fault
        assert reserve.exists() is (fault is not Fault.FULL)


@pytest.mark.parametrize("is_kept", [False, True], ids=["as it is", "without what is kept"])
def test_who_connects_on_a_full_disk_gets_what_was_set_aside(
    reserve: Path, monkeypatch: pytest.MonkeyPatch, is_kept: bool
) -> None:
    """
    After a clean stop there is no FILE-shm, and on a full disk none can be made: the only broker
    could never start again. Ablation: without what is set aside it says that there is no room.
    """
    connect = sqlite3.connect
    monkeypatch.setattr(SqliteRoom, "is_out", lambda _: True)
    if is_kept:
        monkeypatch.setattr(SqliteRoom, "give_up", lambda _: False)

    def connected(*args: Any, **more: Any) -> Any:
        made = connect(*args, **more)
        if not reserve.exists():
            return made
        return Failing(made, "PRAGMA journal_mode", sqlite3.SQLITE_IOERR_SHMSIZE)

    monkeypatch.setattr(sqlite3, "connect", connected)
    log = open_sql_log(f"sqlite:///{reserve.with_name('x.db')}", own_directory=reserve.parent)
    if is_kept:
        with pytest.raises(AppendRefusedError, match=r"has no room.*make room where its files are"):
            log.open()
        assert reserve.exists()
    else:
        log.open()
        assert not reserve.exists()
    log.close()


def test_a_disk_that_fails_is_not_called_damaged(
    reserve: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its operator is sent to the disk, and to a copy only if the database is found damaged."""
    monkeypatch.setattr(
        SqliteSession, "check", lambda _: (_ for _ in ()).throw(failed(sqlite3.SQLITE_IOERR_READ))
    )
    log = open_sql_log(f"sqlite:///{reserve.with_name('x.db')}", own_directory=reserve.parent)
    with pytest.raises(StoreError, match=r"look at the disk.*only if 'holdfast store verify'"):
        log.open()
    log.close()


def test_what_is_only_shown_gets_nothing_of_what_is_set_aside(
    reserve: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It takes as much as waits, and acknowledgements would have nothing left; they get it."""

    def full(self: SqliteSession, statement: str, values: Values | None = None) -> int:
        raise failed(sqlite3.SQLITE_FULL)

    with closing(opened(reserve.with_name("x.db"))) as session:
        monkeypatch.setattr(SqliteSession, "write", full)
        with pytest.raises(sqlite3.OperationalError), session.hasty():
            session.write("UPDATE x SET y = 1")
        assert reserve.exists()
        with pytest.raises(sqlite3.OperationalError), session.transaction():
            session.write("UPDATE x SET y = 1")
        assert not reserve.exists()


def test_a_file_that_may_not_be_written_is_waited_for(
    reserve: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its file system became read-only, as after an error of the disk: no matter of a password."""
    log = open_sql_log(f"sqlite:///{reserve.with_name('x.db')}", own_directory=reserve.parent)
    log.open()
    error = failed(sqlite3.SQLITE_READONLY)
    monkeypatch.setattr(SqliteSession, "rows", lambda *_: (_ for _ in ()).throw(error))
    with pytest.raises(UnreachableError, match="see whether its file system is mounted read-only"):
        log.observe(1.0)
    log.close()

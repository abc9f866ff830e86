"""SQLite's session: what it sets, what its errors mean, and how long it waits."""

from __future__ import annotations

import errno
import os
import resource
import shutil
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.errors import AppendRefusedError, StoreError, UnreachableError
from holdfast.leases.contract import Outcome
from holdfast.model.limits import MiB
from holdfast.sql.copied_log import CopiedSqlLog
from holdfast.sql.faults import Fault
from holdfast.sql.opening import Purpose, open_sql_log
from holdfast.sql.session import Values
from holdfast.sql.sqlite import PAGE_BYTES, WAL_PAGES_MAX, SqliteSession, SqliteVisit
from holdfast.sql.sqlite_room import SqliteRoom
from holdfast.sql.url import SQLITE, StoreUrl
from holdfast.sql.whereabouts import Whereabouts
from tests.stores.leased_log_suite import Writer


@contextmanager
def connected(path: Path, seconds: float = 1.0) -> Iterator[SqliteSession]:
    session = SqliteSession.connect(StoreUrl(SQLITE, (), str(path)), None, seconds)
    try:
        yield session
    finally:
        session.close()


def fault_of(session: SqliteSession, statement: str) -> Fault:
    with pytest.raises(sqlite3.Error) as raised:
        session.write(statement)
    return session.fault(raised.value)


def test_a_commit_is_synced(tmp_path: Path) -> None:
    """WAL and synchronous=FULL, in pages that suit large rows; nothing of it is unsafe."""
    with connected(tmp_path / "x.db") as session:
        session.write("CREATE TABLE x (y)")
        assert session.rows("PRAGMA journal_mode") == [("wal",)]
        assert session.rows("PRAGMA synchronous") == [(2,)]
        assert session.rows("PRAGMA page_size") == [(PAGE_BYTES,)]
        assert session.unsafe_settings() == []


def test_settings_that_did_not_hold_are_named(tmp_path: Path) -> None:
    """L40: a file system that bears no WAL, or another synchronous, would lose commits."""
    with connected(tmp_path / "x.db") as session:
        session.write("PRAGMA journal_mode = DELETE")
        session.write("PRAGMA synchronous = NORMAL")

        assert session.unsafe_settings() == [
            "journal_mode is delete, and must be wal",
            "synchronous is 1, and must be FULL (2)",
        ]


def test_another_process_that_writes_is_waited_for_and_no_longer(tmp_path: Path) -> None:
    """L44: after the bound it is busy, nothing was stored, and the connection is good still."""
    with connected(tmp_path / "x.db") as one, connected(tmp_path / "x.db") as other:
        one.write("CREATE TABLE x (y)")
        with one.transaction():
            one.write("INSERT INTO x VALUES (1)")
            other.bound(0.2)
            began = time.monotonic()
            with pytest.raises(sqlite3.OperationalError) as raised, other.transaction():
                other.write("INSERT INTO x VALUES (2)")
            assert 0.15 < time.monotonic() - began < 5
            assert other.fault(raised.value) is Fault.BUSY
        with other.transaction():
            other.write("INSERT INTO x VALUES (3)")
        assert one.rows("SELECT y FROM x") == [(1,), (3,)]


def test_a_transaction_that_fails_leaves_nothing(tmp_path: Path) -> None:
    """All or nothing, and the next one begins anew."""
    with connected(tmp_path / "x.db") as session:
        session.write("CREATE TABLE x (y)")
        with pytest.raises(ValueError, match="no"), session.transaction():
            session.write("INSERT INTO x VALUES (1)")
            raise ValueError("no")
        with session.transaction():
            session.write("INSERT INTO x VALUES (2)")
        assert session.rows("SELECT y FROM x") == [(2,)]


def test_errors_have_their_meaning(tmp_path: Path) -> None:
    """What is missing, of another shape, or there already."""
    with connected(tmp_path / "x.db") as session:
        session.write("CREATE TABLE x (y PRIMARY KEY)")
        session.write("INSERT INTO x VALUES (1)")

        assert fault_of(session, "SELECT y FROM z") is Fault.NO_TABLE
        assert fault_of(session, "SELECT z FROM x") is Fault.NO_COLUMN
        assert fault_of(session, "INSERT INTO x VALUES (1)") is Fault.DUPLICATE
        assert fault_of(session, "SELEC") is Fault.UNKNOWN
        assert session.fault(sqlite3.ProgrammingError("closed")) is Fault.UNKNOWN


def test_a_file_that_is_none_of_its_own_is_damaged(tmp_path: Path) -> None:
    """Whatever is in it."""
    path = tmp_path / "x.db"
    path.write_bytes(b"no database at all" * 1000)
    with pytest.raises(sqlite3.DatabaseError) as raised, connected(path):
        pass
    assert SqliteSession.fault(raised.value) is Fault.DAMAGED


def test_a_directory_that_is_not_there_is_no_database(tmp_path: Path) -> None:
    """It is not made: a mistyped path would be a new, empty log."""
    for path, sentence in (
        (tmp_path / "no" / "x.db", "is no directory: make it, or see whether it is mounted"),
        (tmp_path, "is a directory, and not a database's file"),
    ):
        with pytest.raises(StoreError, match=sentence), connected(path):
            pass


def test_pages_that_make_no_sense_are_found_at_the_start(tmp_path: Path) -> None:
    """L38: SQLite has no checksums of its own, but looks at how its pages hang together."""
    path = tmp_path / "x.db"
    with connected(path) as session:
        session.write("CREATE TABLE x (y PRIMARY KEY)")
        with session.transaction():
            for number in range(5000):
                session.write("INSERT INTO x VALUES (:number)", {"number": number})
        session.check()
        session.rows("PRAGMA wal_checkpoint(TRUNCATE)")
    data = bytearray(path.read_bytes())
    data[2 * PAGE_BYTES : 2 * PAGE_BYTES + 64] = b"\xff" * 64
    path.write_bytes(data)

    with connected(path) as session:
        with pytest.raises(sqlite3.DatabaseError) as raised:
            session.check()
        assert session.fault(raised.value) is Fault.DAMAGED


def test_what_is_full_keeps_nothing_and_goes_on(tmp_path: Path) -> None:
    """L39: a limit of pages stands for a full disk: the insert fails, a smaller one does not."""
    with connected(tmp_path / "x.db") as session:
        session.write("CREATE TABLE x (y)")
        session.write("PRAGMA max_page_count = 4")
        with pytest.raises(sqlite3.Error) as raised, session.transaction():
            session.write("INSERT INTO x VALUES (zeroblob(100000))")
        assert session.fault(raised.value) is Fault.FULL
        with session.transaction():
            session.write("INSERT INTO x VALUES (zeroblob(10))")
        assert session.rows("SELECT length(y) FROM x") == [(10,)]


def test_a_write_that_fails_is_final(tmp_path: Path) -> None:
    """An error of the disk, here of a file that may not grow, is no outcome to try again."""
    with connected(tmp_path / "x.db") as session:
        session.write("CREATE TABLE x (y)")
        limits = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, limits[1]))
        try:
            with pytest.raises(sqlite3.OperationalError) as raised, session.transaction():
                session.write("INSERT INTO x VALUES (zeroblob(1000000))")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        assert session.fault(raised.value) is Fault.FAILING


@pytest.fixture
def mounted(tmp_path: Path) -> Iterator[Mounted]:
    made = Mounted(tmp_path)
    yield made
    for log in (made.log, made.waiting):
        log.close()


class Mounted:
    """A log in a folder over which something else can be mounted, and who has it open."""

    def __init__(self, path: Path) -> None:
        self.folder, self.was, self.over = path / "folder", path / "was", path / "over"
        self.folder.mkdir()
        self.over.mkdir()
        url = f"sqlite:///{self.folder}/log.db"
        self.log = open_sql_log(url, own_directory=path)
        self.waiting = open_sql_log(url, own_directory=path)
        self.holder = Writer(self.log)
        self.log.open()
        self.holder.take()
        self.holder.append(b"one")
        assert self.waiting.open().end == self.holder.end

    def copy(self) -> None:
        """Have a copy of all, as it is now, in what is to be mounted over it."""
        for it in self.folder.iterdir():
            shutil.copy(it, self.over)

    def mount(self) -> None:
        self.folder.rename(self.was)
        self.over.rename(self.folder)

    def umount(self) -> None:
        self.folder.rename(self.over)
        self.was.rename(self.folder)

    def found(self) -> dict[str, bytes]:
        """What is in the folder now."""
        return {it.name: it.read_bytes() for it in self.folder.iterdir()}


@pytest.mark.parametrize("over", ["nothing", "a copy", "another log", "no folder"])
def test_what_is_mounted_over_its_folder_is_waited_out(mounted: Mounted, over: str) -> None:
    """
    Nothing is stored, read or made there; when the file is back it is gone on with: both ended.

    What was written to it just as that came is stored once, and confirmed only then.
    """
    if over == "a copy":
        mounted.copy()
    elif over == "another log":
        with closing_log(mounted.over / "log.db") as other:
            other.open()
    mounted.mount()
    if over == "no folder":
        mounted.folder.rename(mounted.over)
    before = {} if over == "no folder" else mounted.found()
    entries = mounted.holder.sealed(b"two")
    for _ in range(3):
        with pytest.raises(UnreachableError, match="mounted"):
            mounted.log.append(entries, 5.0)
        with pytest.raises(UnreachableError, match="mounted"):
            mounted.waiting.observe(5.0)
    if over == "no folder":
        assert not mounted.folder.exists()
        mounted.over.rename(mounted.folder)
    else:
        assert mounted.found() == before
    mounted.umount()

    assert mounted.log.append(entries, 5.0) is Outcome.STORED
    assert mounted.waiting.observe(5.0).end.index == entries[-1].index
    assert [it.index for it in mounted.waiting.entries(0, 9, MiB, 5.0)] == [1, 2]


@pytest.mark.parametrize("missing", ["the look at the file", "what a URL says of it"])
def test_without_a_safeguard_a_database_is_made_in_what_is_mounted(
    mounted: Mounted, monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    """Either alone keeps an empty one from being made there, and FILE-host beside it: ablations."""
    monkeypatch.setattr(Whereabouts, "approach", lambda *_, **__: missing == "the look at the file")
    mounted.mount()
    for _ in range(2):
        with pytest.raises(UnreachableError):
            mounted.log.renew(5.0)
    is_made = "log.db" in mounted.found()
    assert is_made is (missing == "the look at the file")


def test_who_knows_its_log_makes_none_where_it_is_not(tmp_path: Path) -> None:
    """A broker that is started while its disk is not mounted leaves nothing in the empty folder."""
    with (
        closing_log(tmp_path / "log.db") as log,
        pytest.raises(StoreError, match="has no log, and this broker belongs to one"),
    ):
        log.open(may_lay_out=False)
    assert not list(tmp_path.iterdir())


@contextmanager
def closing_log(path: Path) -> Iterator[CopiedSqlLog]:
    log = open_sql_log(f"sqlite:///{path}", own_directory=path.parent)
    try:
        yield log
    finally:
        log.close()


def test_what_came_in_its_place_while_it_was_opened_is_not_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody knows then which of both SQLite has open."""
    path = tmp_path / "x.db"
    with connected(path):
        pass
    opened = sqlite3.connect

    def connect(*given: Any, **named: Any) -> sqlite3.Connection:
        made = opened(*given, **named)
        path.rename(tmp_path / "y.db")
        path.touch()
        return made

    monkeypatch.setattr(sqlite3, "connect", connect)
    with pytest.raises(UnreachableError, match="not the file any more"), connected(path):
        pass


@pytest.mark.parametrize("is_replaced", [True, False])
def test_what_was_written_ahead_is_there_before_it_is_called_stored(
    tmp_path: Path, is_replaced: bool
) -> None:
    """
    Who has another mount of the folder removes FILE-wal as the last that has the database open: it
    goes to no file from then on, and none of it is confirmed.
    """
    path = tmp_path / "log.db"
    log = open_sql_log(f"sqlite:///{path}", own_directory=tmp_path)
    log.open()
    writer = Writer(log)
    writer.take()
    writer.append(b"1")
    wal = tmp_path / "log.db-wal"
    kept = wal.read_bytes()
    wal.unlink()
    if is_replaced:
        wal.write_bytes(kept)

    with pytest.raises(StoreError, match=r"-wal was removed or replaced while it was in use"):
        writer.append(b"2")
    log.close()


def test_a_further_name_is_told_of_while_it_is_used(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A backup by links stops nobody now, and each at its next connection: that is said at once."""
    path = tmp_path / "x.db"
    log = open_sql_log(f"sqlite:///{path}", own_directory=tmp_path)
    log.open()
    try:
        writer = Writer(log)
        writer.take()
        assert not [it for it in log.facts().warnings if "hard links" in it]
        (tmp_path / "snapshot").hardlink_to(path)
        for _ in range(2):
            with caplog.at_level("INFO", logger="holdfast.sql"):
                writer.append(b"one")
        (warning,) = (it for it in log.facts().warnings if "hard links" in it)
        assert f"{path} has 2 names" in warning
        assert f"find / -xdev -samefile {path}" in warning
        assert [it.levelname for it in caplog.records] == ["ERROR"]
        (tmp_path / "snapshot").unlink()
        with caplog.at_level("INFO", logger="holdfast.sql"):
            assert log.renew(1.0) is Outcome.STORED
        assert caplog.records[-1].getMessage() == f"{path} has one name again"
        assert not [it for it in log.facts().warnings if "hard links" in it]
    finally:
        log.close()
    assert not [it for it in log.facts().warnings if "hard links" in it]


@pytest.mark.parametrize(("blocks", "pages"), [(1 << 20, WAL_PAGES_MAX // 4 * 3), (4000, 50)])
def test_no_more_is_written_ahead_than_room_is_set_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, blocks: int, pages: int
) -> None:
    """It needs as much room again, in the database's file."""
    room = SimpleNamespace(f_blocks=blocks, f_frsize=4096, f_bavail=blocks)
    monkeypatch.setattr(os, "statvfs", lambda _: room)
    with connected(tmp_path / "x.db") as session:
        ((found,),) = session.rows("PRAGMA wal_autocheckpoint")
        assert abs(found - pages) < pages // 20 + 20


def test_what_is_refused_room_gets_what_was_set_aside(tmp_path: Path) -> None:
    """A write by itself, and one in a transaction."""
    path = tmp_path / "x.db"
    with connected(path) as session:
        session.write("CREATE TABLE x (y)")
        for _ in range(2):
            assert session.low_room() == ""
            assert (tmp_path / "x.db-reserve").stat().st_size > 0
            session.write("PRAGMA max_page_count = 3")
            with pytest.raises(sqlite3.OperationalError, match="full"):
                session.write("INSERT INTO x VALUES (zeroblob(1000000))")
            assert not (tmp_path / "x.db-reserve").exists()
            session.low_room()
            with pytest.raises(sqlite3.OperationalError, match="full"), session.transaction():
                session._connection.execute("INSERT INTO x VALUES (zeroblob(1000000))")
            assert not (tmp_path / "x.db-reserve").exists()


def test_a_large_entry_gets_nothing_of_what_is_set_aside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It would use up what signs of life and acknowledgements need; a small one gets it."""
    path = tmp_path / "x.db"
    log = open_sql_log(f"sqlite:///{path}", own_directory=tmp_path)
    log.open()
    writer = Writer(log)
    writer.take()
    writer.append(b"one")
    reserve = tmp_path / "x.db-reserve"
    assert reserve.exists()

    def full(self: SqliteSession, statement: str, values: Values | None = None) -> int:
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorcode = sqlite3.SQLITE_FULL
        raise error

    monkeypatch.setattr(SqliteSession, "write", full)
    with pytest.raises(AppendRefusedError):
        writer.send(writer.sealed(bytes(100_000)))
    assert reserve.exists()
    with pytest.raises(AppendRefusedError):
        writer.send(writer.sealed(bytes(1000)))
    assert not reserve.exists()
    log.close()


@pytest.mark.parametrize(
    ("refusal", "fault"),
    [
        (errno.ENOSPC, Fault.FULL),
        (errno.EDQUOT, Fault.FULL),
        (errno.EACCES, Fault.UNWRITABLE),
        (errno.EROFS, Fault.UNWRITABLE),
        (errno.EMFILE, Fault.LOST),
        (None, Fault.LOST),
    ],
)
def test_a_file_that_cannot_be_opened_says_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refusal: int | None, fault: Fault
) -> None:
    """
    SQLite has one word for all of it: it never means that there is no database.

    Where there is no room the next attempt has what was set aside: room, and two files.
    """
    path = tmp_path / "x.db"
    with connected(path) as session:
        assert session.low_room() == ""
    reserves = [tmp_path / "x.db-reserve", tmp_path / "x.db-reserve2"]
    assert all(it.exists() for it in reserves)
    (tmp_path / "x.db-wal").mkdir()  # In the place of a file that it has to make.
    if refusal is not None:
        error = OSError(refusal, os.strerror(refusal), str(tmp_path))
        monkeypatch.setattr(SqliteRoom, "_probe", lambda _: error)

    with pytest.raises(sqlite3.OperationalError) as raised, connected(path):
        pass

    assert SqliteSession.fault(raised.value) is fault
    assert (os.strerror(refusal) if refusal else "unable to open") in str(raised.value)
    assert all(it.exists() != (fault is Fault.FULL) for it in reserves)


def test_a_file_of_somebody_else_is_not_to_be_created(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its folder takes files, and it may not be opened: that passes once an operator mends it."""
    path = tmp_path / "x.db"
    path.touch()
    monkeypatch.setattr(os, "access", lambda _, mode, **__: mode == os.F_OK)
    error = sqlite3.OperationalError("unable to open database file")
    error.sqlite_errorcode = sqlite3.SQLITE_CANTOPEN
    SqliteSession._explain(error, SqliteRoom(path))
    assert SqliteSession.fault(error) is Fault.UNWRITABLE
    assert str(error).endswith(f"({path}: Permission denied)")


def test_a_command_gives_up_nothing_that_is_set_aside_for_brokers(tmp_path: Path) -> None:
    """It says that there is such room; a broker gets it."""
    path = tmp_path / "x.db"
    with connected(path) as session:
        session.write("CREATE TABLE x (y)")
        session.low_room()
    reserve = tmp_path / "x.db-reserve"
    visit = SqliteVisit.connect(StoreUrl(SQLITE, (), str(path)), None, 1.0)
    visit.write("PRAGMA max_page_count = 3")
    with pytest.raises(sqlite3.OperationalError) as raised:
        visit.write("INSERT INTO x VALUES (zeroblob(1000000))")
    visit.close()
    assert str(raised.value).endswith(f"full; {reserve} is set aside for its broker")
    assert reserve.exists()


@pytest.mark.parametrize(("purpose", "is_kept"), [(Purpose.SERVE, False), (Purpose.VISIT, True)])
def test_who_opens_a_log_says_what_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, purpose: Purpose, is_kept: bool
) -> None:
    """Only a broker's has what is set aside."""
    path = tmp_path / "x.db"
    with connected(path) as session:
        session.low_room()
    (tmp_path / "x.db-wal").mkdir()
    monkeypatch.setattr(SqliteRoom, "_probe", lambda _: OSError(errno.ENOSPC, "no room", "x"))
    log = open_sql_log(f"sqlite:///{path}", own_directory=tmp_path, purpose=purpose)
    with pytest.raises(AppendRefusedError, match="no room"):
        log.open()
    log.close()
    assert (tmp_path / "x.db-reserve").exists() is is_kept

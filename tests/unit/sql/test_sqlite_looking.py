"""A file of SQLite that is only looked at: it is read as it lies, and nothing is changed."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from holdfast.copying.looking import open_looked
from holdfast.errors import StoreError, UnreachableError
from holdfast.leases.contract import Outcome
from holdfast.sql.opening import open_sql_log
from holdfast.sql.sqlite_looking import SqliteLook, rest_of
from holdfast.sql.url import SQLITE, StoreUrl
from tests.stores.leased_log_suite import Writer

SECONDS = 5.0


@contextmanager
def served(path: Path) -> Iterator[Writer]:
    log = open_sql_log(f"sqlite:///{path}", own_directory=path.parent)
    with closing(log):
        log.open()
        writer = Writer(log)
        writer.take()
        yield writer


def killed(path: Path, folder: Path, *names: str) -> Path:
    """What a broker that was killed leaves in another folder: these of its files."""
    folder.mkdir()
    with served(path) as writer:
        writer.append(b"one")
        writer.append(b"two")
        for name in names:
            shutil.copy(path.with_name(name), folder / name)
    return folder / path.name


def state(folder: Path) -> dict[str, tuple[int, int, bytes]]:
    """All that is in a folder."""
    return {
        it.name: (it.stat().st_mtime_ns, it.stat().st_ino, it.read_bytes())
        for it in folder.iterdir()
    }


def looked(path: Path) -> list[int]:
    """The entries that a look finds."""
    with closing(open_looked([f"sqlite:///{path}"])) as log:
        end = log.open_existing().end.index
        return [it.index for it in log.entries(0, end, 1 << 20, SECONDS)]


@pytest.mark.parametrize("names", [["x.db"], ["x.db", "x.db-wal"]])
def test_a_copy_is_as_it_was_after_a_look(
    tmp_path: Path, names: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    What is in FILE-wal is read and stays there; no file is made, so that a snapshot can be read
    whose file system takes none.
    """
    made: list[str] = []
    path = tmp_path / "x.db"
    copy = killed(path, tmp_path / "copy", *names)
    if len(names) == 1:
        shutil.copy(path, copy)  # It was stopped: all is in the one file.
    before = state(copy.parent)
    really = os.open
    monkeypatch.setattr(
        os, "open", lambda *its, **more: made.append(its[0]) or really(*its, **more)
    )

    assert looked(copy) == [1, 2]

    assert state(copy.parent) == before
    assert not made
    folder = copy.parent.stat()
    assert looked(copy) == [1, 2]
    assert copy.parent.stat().st_mtime_ns == folder.st_mtime_ns, "nothing came and went"


def test_what_a_broker_serves_is_looked_at_beside_it(tmp_path: Path) -> None:
    """It sees what is committed meanwhile, and the broker does not notice."""
    path = tmp_path / "x.db"
    with served(path) as writer, closing(open_looked([f"sqlite:///{path}"])) as log:
        assert log.open_existing().end.index == 0
        writer.append(b"one")
        assert log.observe(SECONDS).end.index == 1
        log.close()
        writer.append(b"two")
        assert writer.log.renew(SECONDS) is Outcome.STORED
    assert looked(path) == [1, 2]


@pytest.mark.parametrize("names", [["x.db"], ["x.db", "x.db-wal"]])
def test_what_is_opened_meanwhile_is_looked_at_again(tmp_path: Path, names: list[str]) -> None:
    """What was read without locks counts only while nobody else has the file open."""
    path = tmp_path / "x.db"
    copy = killed(path, tmp_path / "copy", *names)
    if len(names) == 1:
        shutil.copy(path, copy)
    with closing(open_looked([f"sqlite:///{copy}"])) as log:
        assert log.open_existing().end.index == 2
        with served(copy) as writer:
            with pytest.raises(UnreachableError, match="opened or changed while it was looked at"):
                log.observe(SECONDS)
            writer.append(b"three")
            assert log.observe(SECONDS).end.index == 3


def test_an_error_of_what_changes_is_no_damage(tmp_path: Path) -> None:
    """Pages that do not fit together may be of before and after."""
    path = tmp_path / "x.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE x (y)")
    session = SqliteLook.connect(StoreUrl(SQLITE, (), str(path)), None, SECONDS)
    with closing(session):
        with pytest.raises(sqlite3.OperationalError) as raised:
            session.rows("SELECT y FROM z")
        assert raised.value.sqlite_errorcode == sqlite3.SQLITE_ERROR
        path.write_bytes(path.read_bytes() + bytes(4096))
        with pytest.raises(sqlite3.OperationalError) as raised:
            session.rows("SELECT y FROM z")
        assert raised.value.sqlite_errorcode == sqlite3.SQLITE_BUSY


def test_a_look_writes_nothing(tmp_path: Path) -> None:
    """Whatever it is told; and it sets nothing aside."""
    path = tmp_path / "x.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE x (y)")
    session = SqliteLook.connect(StoreUrl(SQLITE, (), str(path)), None, SECONDS)
    with closing(session):
        with pytest.raises(sqlite3.OperationalError, match="readonly"):
            session.write("INSERT INTO x VALUES (1)")
        assert session.low_room() == ""
        assert session.unsafe_settings() == []
    assert [it.name for it in tmp_path.iterdir()] == ["x.db"]


def test_a_file_that_may_not_be_read_is_said_to_be_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is there: nobody is told to create it."""
    path = tmp_path / "x.db"
    path.touch()
    really = os.access

    def access(path: Path, mode: int, *, effective_ids: bool = False) -> bool:
        return mode == os.F_OK and really(path, mode, effective_ids=effective_ids)

    monkeypatch.setattr(os, "access", access)
    with pytest.raises(StoreError, match="may not be read by this user"):
        looked(path)


def test_a_file_that_somebody_may_have_open_is_not_at_rest(tmp_path: Path) -> None:
    """FILE-shm tells; any change of the others is another rest."""
    path = tmp_path / "x.db"
    nothing = rest_of(path)
    path.write_bytes(b"x")
    alone = rest_of(path)
    path.with_name("x.db-wal").write_bytes(b"y")
    beside = rest_of(path)
    assert len({nothing, alone, beside}) == 3
    assert rest_of(path) == beside
    path.with_name("x.db-shm").touch()
    assert rest_of(path) is None

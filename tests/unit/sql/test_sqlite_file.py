"""A file of SQLite that can be reached in two folders is refused before it is opened."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.environment import secret_files
from holdfast.errors import StoreError
from holdfast.sql import sqlite as sqlite_module
from holdfast.sql import sqlite_file
from holdfast.sql.opening import Purpose, open_sql_log
from holdfast.sql.session import Surroundings
from holdfast.sql.sqlite import SqliteSession
from holdfast.sql.sqlite_file import file_at, make_ours, real_path, require_one_way, why_readable
from holdfast.sql.sqlite_host import around as around_it
from holdfast.sql.url import SQLITE, StoreUrl


def opened(path: Path) -> SqliteSession:
    return SqliteSession.connect(StoreUrl(SQLITE, (), str(path)), None, 1.0)


def around(path: Path) -> Surroundings:
    return SqliteSession.look_around(StoreUrl(SQLITE, (), str(path)))


def connect(path: Path) -> None:
    opened(path).close()


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The kernel's table of mounts, as a test writes it."""
    path = tmp_path / "mountinfo"
    path.write_text("22 1 8:1 / / rw - ext4 /dev/sda1 rw\n")
    monkeypatch.setattr(sqlite_file, "MOUNTINFO", path)
    return path


def mount(table: Path, point: Path, kind: str = "ext4") -> None:
    with table.open("a") as file:
        file.write(f"40 22 8:1 /srv/log.db {point} rw - {kind} /dev/sda1 rw\n")


def test_a_file_that_is_mounted_without_its_folder_is_refused(tmp_path: Path, table: Path) -> None:
    """Bound into two containers each has its own -wal and locks, and both brokers would confirm."""
    (tmp_path / "real.db").touch()
    (tmp_path / "link.db").symlink_to("real.db")
    mount(table, tmp_path / "real.db")

    for name in ("real.db", "link.db"):
        with pytest.raises(StoreError, match=r"is mounted by itself.*mount the folder"):
            connect(tmp_path / name)

    assert sorted(it.name for it in tmp_path.iterdir()) == ["link.db", "mountinfo", "real.db"]


def test_a_file_whose_folder_is_mounted_is_used(tmp_path: Path, table: Path) -> None:
    """What lies beside it is beside it for everybody; so is that of a link to it."""
    mount(table, tmp_path)
    connect(tmp_path / "log.db")
    (tmp_path / "link.db").symlink_to("log.db")

    connect(tmp_path / "link.db")


def test_a_file_of_two_names_is_refused_by_each_until_one_is_gone(
    tmp_path: Path, table: Path
) -> None:
    """A hard link in another folder is a second way to it, with other files beside it."""
    (tmp_path / "other").mkdir()
    connect(tmp_path / "log.db")
    os.link(tmp_path / "log.db", tmp_path / "other" / "log.db")

    for path in (tmp_path / "log.db", tmp_path / "other" / "log.db"):
        with pytest.raises(StoreError, match="has 2 names"):
            connect(path)
    (tmp_path / "other" / "log.db").unlink()

    connect(tmp_path / "log.db")


@pytest.mark.parametrize("is_other_name", [True, False])
def test_without_that_two_would_confirm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_other_name: bool
) -> None:
    """Ablation: a second process that has another name for the file sees no row, and no lock."""
    monkeypatch.setattr(sqlite_module, "require_one_way", lambda _path: None)
    (tmp_path / "other").mkdir()
    path, other = tmp_path / "log.db", tmp_path / "other" / "log.db"
    with closing(opened(path)) as session:
        session.write("CREATE TABLE leases (epoch INTEGER PRIMARY KEY, holder TEXT)")
    os.link(path, other)
    with closing(opened(path)) as session:
        session.write("INSERT INTO leases VALUES (1, 'a')")
        take = "import sqlite3, sys; c = sqlite3.connect(sys.argv[1], isolation_level=None)"
        take += "; c.execute(\"INSERT INTO leases VALUES (1, 'b')\")"
        command = [sys.executable, "-S", "-c", take, str(other if is_other_name else path)]

        ended = subprocess.run(command, capture_output=True, check=False)

        assert (ended.returncode == 0) is is_other_name, ended.stderr
        assert session.rows("SELECT holder FROM leases") == [("a",)]


def test_what_is_not_there_yet_has_no_other_name(tmp_path: Path, table: Path) -> None:
    """A database that is about to be made, and a system without such a table, are no reason."""
    require_one_way(str(tmp_path / "new.db"))
    assert file_at(str(tmp_path / "new.db")) is None
    table.unlink()

    require_one_way(str(tmp_path / "new.db"))
    assert around(tmp_path / "new.db") == Surroundings()


def test_a_file_system_of_several_machines_is_unsafe(tmp_path: Path, table: Path) -> None:
    """SQLite's locks are in memory that only processes of one machine share."""
    assert around(tmp_path / "log.db") == Surroundings()
    mount(table, tmp_path, "nfs4")

    (unsafe,) = around(tmp_path / "log.db").unsafe
    assert "is on nfs4, which others may reach by a mount of their own" in unsafe


@pytest.mark.parametrize(
    "kind", ["fuse", "fuse.mergerfs", "virtiofs", "9p", "vboxsf", "gfs2", "beegfs", "not-yet-known"]
)
def test_what_is_not_known_to_be_one_machines_own_is_refused(
    tmp_path: Path, table: Path, kind: str
) -> None:
    """One folder by two mounts of it: each has locks of its own, and both brokers confirm."""
    mount(table, tmp_path, kind)
    (unsafe,) = around(tmp_path / "log.db").unsafe
    assert f"is on {kind}, which others may reach" in unsafe
    assert "put it on a local file system (bcachefs, btrfs, ext2" in unsafe


@pytest.mark.parametrize("kind", ["ext4", "xfs", "btrfs", "zfs", "tmpfs", "overlay"])
def test_a_machines_own_file_system_is_used(tmp_path: Path, table: Path, kind: str) -> None:
    """Whatever is in its options."""
    mount(table, tmp_path, kind)
    assert around(tmp_path / "log.db").unsafe == ()


def left_behind(path: Path) -> None:
    """A database as it lies there while a process that has it open writes."""
    kept = path.with_name("kept.db")
    with closing(opened(kept)) as session:
        session.write("CREATE TABLE x (a INTEGER)")
        for end in ("", "-wal"):
            shutil.copy(f"{kept}{end}", f"{path}{end}")


def as_they_are(folder: Path) -> dict[str, bytes]:
    return {it.name: it.read_bytes() for it in folder.iterdir()}


@pytest.mark.parametrize("purpose", [Purpose.SERVE, Purpose.VISIT])
@pytest.mark.parametrize("is_looked_at_first", [True, False])
def test_who_is_refused_has_changed_nothing(
    tmp_path: Path,
    table: Path,
    monkeypatch: pytest.MonkeyPatch,
    purpose: Purpose,
    is_looked_at_first: bool,
) -> None:
    """
    Who opened it by a second mount, and was refused then, moved what another one has in FILE-wal
    and removed that file: what the other one confirmed from then on was in no file any more.
    """
    (tmp_path / "there").mkdir()
    path = tmp_path / "there" / "log.db"
    left_behind(path)
    for it in (tmp_path / "there").glob("kept*"):
        it.unlink()
    before = as_they_are(path.parent)
    mount(table, path.parent, "virtiofs")
    if not is_looked_at_first:  # Ablation.
        why = around(path).unsafe
        monkeypatch.setattr(SqliteSession, "look_around", lambda _url: Surroundings())
        monkeypatch.setattr(SqliteSession, "unsafe_settings", lambda _self: list(why))

    log = open_sql_log(f"sqlite:///{path}", own_directory=tmp_path, purpose=purpose)
    with pytest.raises(StoreError, match=r"virtiofs.*allow_unsafe_database"):
        log.open()
    log.close()

    assert (as_they_are(path.parent) == before) is is_looked_at_first
    assert (tmp_path / "there" / "log.db-wal").exists() is is_looked_at_first


def test_what_is_allowed_is_told(
    tmp_path: Path, table: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Once in the log, and for as long as it is so among the facts."""
    mount(table, tmp_path, "virtiofs")
    url = f"sqlite:///{tmp_path / 'log.db'}"
    log = open_sql_log(url, own_directory=tmp_path, allow_unsafe_database=True)
    log.open()
    log.close()  # As after an error: the next call connects anew.
    log.observe(5.0)
    assert [it for it in log.facts().warnings if "virtiofs" in it]
    log.close()
    assert caplog.text.count("is on virtiofs") == 1


def test_a_link_that_leads_to_itself_is_named(tmp_path: Path) -> None:
    """It is no file, and no fault of ours."""
    (tmp_path / "log.db").symlink_to("log.db")
    with pytest.raises(StoreError, match="is a link that leads to itself"):
        real_path(str(tmp_path / "log.db"))


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o077])
def test_what_is_made_is_read_by_nobody_else(tmp_path: Path, umask: int) -> None:
    """Whatever the umask: the file, those beside it, and which machine has it."""
    before = os.umask(umask)
    try:
        url = StoreUrl(SQLITE, (), str(tmp_path / "log.db"))
        SqliteSession.look_around(url)
        session = SqliteSession.connect(url, None, 1.0)
        session.write("CREATE TABLE x (y)")
        session.low_room()
    finally:
        os.umask(before)
    modes = {it.name: it.stat().st_mode & 0o777 for it in tmp_path.iterdir()}
    session.close()
    assert {"log.db", "log.db-wal", "log.db-shm", "log.db-host"} <= modes.keys()
    assert {name: mode for name, mode in modes.items() if mode & ~0o640} == {}


def test_what_is_there_is_not_made_anew(tmp_path: Path) -> None:
    """Nor is it opened, which would let go of SQLite's locks; a link leads to what is made."""
    there = tmp_path / "there.db"
    there.write_bytes(b"x")
    there.chmod(0o644)
    make_ours(str(there))
    assert (there.read_bytes(), there.stat().st_mode & 0o777) == (b"x", 0o644)
    link = tmp_path / "link.db"
    link.symlink_to(tmp_path / "real.db")
    make_ours(str(link))
    assert (tmp_path / "real.db").stat().st_mode & 0o777 == 0o640
    make_ours(str(tmp_path / "none" / "x.db"))


def test_what_others_can_read_is_told_to_who_serves(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that an earlier version has made; not where nobody else gets to its folder."""
    path = tmp_path / "log.db"
    path.touch(0o644)
    wal = tmp_path / "log.db-wal"
    wal.touch(0o644)
    modes: dict[Path, int] = {}
    own = secret_files._mode_of
    monkeypatch.setattr(secret_files, "_mode_of", lambda it: modes.get(it, own(it)))
    for parent in path.parents:
        modes[parent] = 0o755
    told = f"in {path}: chmod o= {path} {wal}"
    assert told in around_it(str(path), may_note=True).told[-1]
    assert around_it(str(path), may_note=False).told == (), "a command is not the one to be told"
    modes[tmp_path] = 0o750
    assert why_readable(str(path)) == ""
    modes[tmp_path] = 0o755
    for it in (path, wal):
        it.chmod(0o640)
    assert why_readable(str(path)) == ""
    path.chmod(0o642)
    assert why_readable(str(path)).endswith(f"chmod o= {path}")

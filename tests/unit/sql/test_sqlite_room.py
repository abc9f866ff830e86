"""Room that is set aside beside a database's file, and given up when there is no other."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from holdfast.model.limits import MiB
from holdfast.sql.sqlite_room import RESERVE_BYTES_MAX, SqliteRoom

BLOCK = 4096


@pytest.fixture
def system(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """A file system of 4 MB, all of it free, as it says."""
    system = SimpleNamespace(f_blocks=1000, f_frsize=BLOCK, f_bavail=1000)
    monkeypatch.setattr(os, "statvfs", lambda _: system)
    return system


def test_a_share_is_set_aside_while_there_is_plenty(
    tmp_path: Path, system: SimpleNamespace
) -> None:
    """Not where it would make room scarce; of a large file system some MiB."""
    room, reserve = SqliteRoom(tmp_path / "x.db"), tmp_path / "x.db-reserve"
    system.f_bavail = 299
    assert room.look() == ""
    assert not reserve.exists()
    system.f_bavail = 300
    assert room.look() == ""
    assert reserve.stat().st_size == 100 * BLOCK
    assert reserve.stat().st_blocks * 512 >= 100 * BLOCK, "it is room, and no hole"
    system.f_blocks = 1 << 30
    assert room.reserve_bytes() == RESERVE_BYTES_MAX < 100 * MiB


def test_little_room_is_told_until_there_is_clearly_more(
    tmp_path: Path, system: SimpleNamespace
) -> None:
    """Then nothing more is published; what is set aside stays for acknowledgements."""
    room = SqliteRoom(tmp_path / "x.db")
    room.look()

    def is_low(free: int, least: int = 150) -> bool:
        system.f_bavail = free
        said = room.look()
        assert not said or said.endswith(f"x.db has less than {least * BLOCK:,} bytes left")
        return bool(said)

    assert not is_low(100)
    assert is_low(99, least=100)
    assert [is_low(free) for free in (110, 149, 150, 100)] == [1, 1, 0, 0]
    assert (tmp_path / "x.db-reserve").exists()


def test_what_was_given_up_is_not_published_into(tmp_path: Path, system: SimpleNamespace) -> None:
    """
    It is room then, of which a new connection knows nothing, and it is for acknowledgements.
    """
    SqliteRoom(tmp_path / "x.db").look()
    assert SqliteRoom(tmp_path / "x.db").give_up()
    found = {}
    for free in (100, 149, 150):
        system.f_bavail = free
        found[free] = bool(SqliteRoom(tmp_path / "x.db").look())
    assert found == {100: True, 149: True, 150: False}


@pytest.mark.parametrize("left", ["hole", "start"])
def test_a_reserve_without_its_room_is_made_whole(
    tmp_path: Path, system: SimpleNamespace, left: str
) -> None:
    """A copy of it may be a hole (rsync -S), and who made it may have been killed in between."""
    room, reserve = SqliteRoom(tmp_path / "x.db"), tmp_path / "x.db-reserve"
    with reserve.open("wb") as file:
        file.truncate(100 * BLOCK if left == "hole" else 0)
    system.f_bavail = 120
    assert room.look(), "it counts for nothing"
    system.f_bavail = 1000
    assert room.look() == ""

    assert reserve.stat().st_size == 100 * BLOCK
    assert reserve.stat().st_blocks * 512 >= 100 * BLOCK


def test_where_files_have_no_blocks_it_is_not_made_again_and_again(
    tmp_path: Path, system: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file system that compresses keeps no room for zeros, whatever is done."""
    made = []

    def as_a_hole(file: int, _start: int, size: int) -> None:
        made.append(size)
        os.ftruncate(file, size)

    monkeypatch.setattr(os, "posix_fallocate", as_a_hole)
    room = SqliteRoom(tmp_path / "x.db")
    for _ in range(3):
        assert room.look() == ""
    assert made == [100 * BLOCK]


@pytest.mark.parametrize(
    ("code", "is_out"),
    [(errno.ENOSPC, True), (errno.EDQUOT, True), (errno.EIO, False), (0, False)],
)
def test_whether_there_is_no_room_at_all_is_tried_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, code: int, is_out: bool
) -> None:
    """A quota, an end of the disk; nothing of the attempt is left."""

    def answer(*_: object) -> None:
        if code:
            raise OSError(code, "no")

    monkeypatch.setattr(os, "posix_fallocate", answer)
    assert SqliteRoom(tmp_path / "x.db").is_out() is is_out
    assert list(tmp_path.iterdir()) == []


def test_what_is_set_aside_is_given_up_once_and_made_again(
    tmp_path: Path, system: SimpleNamespace
) -> None:
    """By whoever is refused room; by the next look where there is plenty again."""
    room, reserve = SqliteRoom(tmp_path / "x.db"), tmp_path / "x.db-reserve"
    room.look()
    SqliteRoom(tmp_path / "x.db").give_up()
    assert not reserve.exists()
    room.give_up()
    room.look()
    assert reserve.exists()


def test_a_folder_that_may_not_be_written_has_none(
    tmp_path: Path, system: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The database says what comes of it."""

    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "posix_fallocate", refuse)
    room = SqliteRoom(tmp_path / "x.db")
    assert room.look() == ""
    assert list(tmp_path.iterdir()) == []

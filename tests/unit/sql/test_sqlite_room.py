"""Room that is set aside beside a database's file, and given up when there is no other."""

from __future__ import annotations

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

    def is_low(free: int) -> bool:
        system.f_bavail = free
        said = room.look()
        assert not said or said.endswith("x.db has less than 409,600 bytes left")
        return bool(said)

    assert [is_low(free) for free in (100, 99, 110, 149, 150, 100)] == [0, 1, 1, 1, 0, 0]
    assert (tmp_path / "x.db-reserve").exists()


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

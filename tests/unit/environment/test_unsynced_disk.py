"""Tests of environment/unsynced_disk.py: everything is as on the disk below, but never durable."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from holdfast.environment.disk import RealDisk
from holdfast.environment.unsynced_disk import UnsyncedDisk


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> UnsyncedDisk:
    """Files of the machine, of which nothing may be synced."""

    def no_sync(*_: object) -> None:
        raise AssertionError("it was synced")

    made = UnsyncedDisk(RealDisk())
    for name in ("fsync", "fdatasync", "pwritev"):
        monkeypatch.setattr(os, name, no_sync)
    return made


def test_what_is_written_is_read_and_nothing_is_synced(disk: UnsyncedDisk, tmp_path: Path) -> None:
    """Also what asks to be durable is only written."""
    file = disk.open(tmp_path / "f", create=True)
    file.write(b"abc", 0)
    file.write_durable([b"de", b"f"], 3)
    file.write_durable([b"g"], 6)
    file.sync()
    file.forget_cached()

    assert b"abcdefg" == file.read(10, 0)
    assert 7 == file.size()
    file.truncate(2)
    assert 2 == file.size()
    file.close()


def test_names_are_those_of_the_disk_below(disk: UnsyncedDisk, tmp_path: Path) -> None:
    """Renamed, listed, removed, locked as ever."""
    disk.open(tmp_path / "a", create=True).close()
    disk.rename(tmp_path / "a", tmp_path / "b")
    disk.sync_directory(tmp_path)
    assert ["b"] == disk.list_directory(tmp_path)
    assert disk.exists(tmp_path / "b")
    lock = disk.lock(tmp_path / "lock")
    with pytest.raises(BlockingIOError):
        disk.lock(tmp_path / "lock")
    lock.release()
    disk.unlink(tmp_path / "b")
    assert not disk.exists(tmp_path / "b")
    assert disk.free_bytes(tmp_path) > 0
    with pytest.raises(FileNotFoundError):
        disk.open(tmp_path / "none")


def test_a_directory_is_made_by_the_disk_below(tmp_path: Path) -> None:
    """It is made once; what makes it durable there is no harm."""
    UnsyncedDisk(RealDisk()).make_directory(tmp_path / "x" / "y")

    assert (tmp_path / "x" / "y").is_dir()

"""A disk that is made of another one hands everything on."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.environment.disk import RealDisk
from holdfast.environment.wrapped_disk import WrappedDisk, WrappedFile


def test_a_file_hands_all_on(tmp_path: Path) -> None:
    """What is written, cut and asked for is the other file's."""
    file = WrappedFile(RealDisk().open(tmp_path / "a", create=True))
    file.write(b"abcdef", 0)
    file.write_durable([b"gh", b"i"], 6)
    file.sync()
    file.truncate(8)
    file.forget_cached()
    assert (file.size(), file.read(100, 2)) == (8, b"cdefgh")
    file.close()
    assert (tmp_path / "a").read_bytes() == b"abcdefgh"


def test_a_disk_hands_all_on(tmp_path: Path) -> None:
    """Names, directories, the room and the lock."""
    disk, folder = WrappedDisk(RealDisk()), tmp_path / "f"
    disk.make_directory(folder)
    disk.open(folder / "a", create=True).close()
    disk.rename(folder / "a", folder / "b")
    disk.sync_directory(folder)
    assert (disk.exists(folder / "a"), disk.list_directory(folder)) == (False, ["b"])
    lock = disk.lock(folder / "b")
    assert lock.stands()
    with pytest.raises(BlockingIOError):
        RealDisk().lock(folder / "b")
    lock.release()
    disk.unlink(folder / "b")
    assert not disk.list_directory(folder)
    assert disk.free_bytes(folder) > 0

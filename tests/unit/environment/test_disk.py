"""The file system of the machine keeps the disk's contract."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from holdfast.environment.disk import (
    Disk,
    NoRoomError,
    RealDisk,
    fill_zeros,
    read_all,
    read_part,
    write_part,
)
from holdfast.model.limits import GiB


@pytest.fixture
def disk() -> Disk:
    return RealDisk()


def test_what_is_written_is_read_back(disk: Disk, tmp_path: Path) -> None:
    """A read returns what was written at the same place, and less only at the end of the file."""
    file = disk.open(tmp_path / "a", create=True)
    file.write(b"hello", 3)
    file.sync()
    assert file.read(100, 0) == b"\0\0\0hello"
    assert file.read(2, 4) == b"el"
    assert file.read(10, 100) == b""
    assert file.size() == 8
    file.close()


def test_a_durable_write_puts_its_buffers_one_after_the_other(disk: Disk, tmp_path: Path) -> None:
    """write_durable is one write of all buffers."""
    file = disk.open(tmp_path / "a", create=True)
    file.write_durable([b"one", b"two"], 1)
    file.forget_cached()
    assert file.read(7, 0) == b"\0onetwo"
    file.close()


def test_a_short_write_is_an_error(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write that the kernel did only in part is not taken for done."""
    file = disk.open(tmp_path / "a", create=True)
    monkeypatch.setattr(os, "pwrite", lambda *_: 2)
    monkeypatch.setattr(os, "pwritev", lambda *_: 2)
    with pytest.raises(OSError, match="only 2 of 3 bytes") as caught:
        file.write(b"abc", 0)
    assert caught.value.errno == errno.ENOSPC
    with pytest.raises(OSError, match="only 2 of 6 bytes"):
        file.write_durable([b"abc", b"def"], 0)
    file.close()


def test_a_read_cut_short_by_the_kernel_goes_on(
    disk: Disk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A read returns all that is asked for, however often the kernel must be asked."""
    file = disk.open(tmp_path / "a", create=True)
    file.write(b"0123456789", 0)
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, count, at: pread(fd, min(count, 3), at))
    assert file.read(8, 1) == b"12345678"
    assert file.read(100, 0) == b"0123456789"
    file.close()


def test_truncate_cuts_and_extends(disk: Disk, tmp_path: Path) -> None:
    """After truncate the file has exactly that size, new bytes are zero."""
    file = disk.open(tmp_path / "a", create=True)
    file.write(b"abcdef", 0)
    file.truncate(3)
    file.truncate(5)
    assert file.read(10, 0) == b"abc\0\0"
    file.close()


def test_fill_zeros_covers_exactly_its_range(disk: Disk, tmp_path: Path) -> None:
    """Zeros are written from start to before end and nowhere else."""
    file = disk.open(tmp_path / "a", create=True)
    size = 1024 * 1024 + 700
    file.write(b"x" * size, 0)
    fill_zeros(file, 10, size - 5)
    data = file.read(size, 0)
    assert data == b"x" * 10 + bytes(size - 15) + b"x" * 5
    file.close()


def test_a_small_file_is_read_as_a_whole(disk: Disk, tmp_path: Path) -> None:
    """And its handle given back; one that is not there is an error."""
    file = disk.open(tmp_path / "f", create=True)
    file.write(b"abc", 0)
    file.close()
    assert b"abc" == read_all(disk, tmp_path / "f")
    with pytest.raises(FileNotFoundError):
        read_all(disk, tmp_path / "none")


def test_a_missing_file_is_an_error_unless_created(disk: Disk, tmp_path: Path) -> None:
    """Opening what is not there raises; so does writing to what is open for reading only."""
    with pytest.raises(FileNotFoundError):
        disk.open(tmp_path / "a")
    disk.open(tmp_path / "a", create=True).close()
    file = disk.open(tmp_path / "a", writable=False)
    with pytest.raises(OSError):
        file.write(b"x", 0)
    file.close()


def test_directories_and_names(disk: Disk, tmp_path: Path) -> None:
    """Names appear, move and go as told; removing what is gone is fine."""
    inner = tmp_path / "one" / "two"
    disk.make_directory(inner)
    disk.make_directory(inner)
    disk.open(inner / "b", create=True).close()
    disk.open(inner / "a", create=True).close()
    disk.sync_directory(inner)
    assert disk.list_directory(inner) == ["a", "b"]
    disk.rename(inner / "a", inner / "b")
    disk.unlink(inner / "zzz")
    assert disk.list_directory(inner) == ["b"]
    disk.unlink(inner / "b")
    assert not disk.exists(inner / "b")
    assert disk.exists(inner)
    assert disk.free_bytes(tmp_path) > 0


def test_a_lock_is_held_by_one_at_a_time(disk: Disk, tmp_path: Path) -> None:
    """The second taker is refused at once; after release it may have it."""
    lock = disk.lock(tmp_path / "lock")
    with pytest.raises(BlockingIOError):
        disk.lock(tmp_path / "lock")
    lock.release()
    disk.lock(tmp_path / "lock").release()


def test_a_file_system_that_tells_of_no_room_at_all_has_some(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Some tell neither size nor room: that is no full one, which still tells its size."""
    told = SimpleNamespace(f_blocks=0, f_bavail=0, f_frsize=4096)
    monkeypatch.setattr(os, "statvfs", lambda _path: told)
    assert RealDisk().free_bytes(Path("/")) > GiB
    told.f_blocks = 1000
    assert RealDisk().free_bytes(Path("/")) == 0


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
def test_want_of_room_is_told_apart_from_a_failure(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever writes says it; a sync that finds no room has failed like any other."""
    disk = RealDisk()
    file = disk.open(tmp_path / "file", create=True)

    def fail(*_arguments: object, **_options: object) -> None:
        raise OSError(number, "told so")

    for name in ("open", "mkdir", "pwrite", "pwritev", "ftruncate", "replace", "fdatasync"):
        monkeypatch.setattr(os, name, fail)
    for work in (
        lambda: file.write(b"x", 0),
        lambda: file.write_durable([b"x"], 0),
        lambda: file.truncate(9),
        lambda: disk.open(tmp_path / "other", create=True),
        lambda: disk.make_directory(tmp_path / "directory"),
        lambda: disk.rename(tmp_path / "file", tmp_path / "other"),
        file.sync,
    ):
        with pytest.raises(OSError, match="told so") as caught:
            work()
        is_room = number != errno.EIO and work != file.sync
        assert (number, is_room) == (caught.value.errno, isinstance(caught.value, NoRoomError))
    monkeypatch.undo()
    file.close()


@pytest.mark.parametrize("writable", [True, False])
def test_a_pipe_in_a_files_place_is_refused_by_name(
    disk: Disk, tmp_path: Path, writable: bool
) -> None:
    """Nobody waits for whoever may write into it one day."""
    os.mkfifo(tmp_path / "pipe")
    before = len(list(Path("/proc/self/fd").iterdir()))

    with pytest.raises(OSError, match=r"no regular file.*pipe"):
        disk.open(tmp_path / "pipe", writable=writable)

    assert before == len(list(Path("/proc/self/fd").iterdir()))


def test_a_part_of_a_file_is_read_and_written(tmp_path: Path) -> None:
    """At its place; a file that is not there is not made."""
    disk = RealDisk()
    (tmp_path / "f").write_bytes(b"abcdef")
    write_part(disk, tmp_path / "f", b"XY", 2)

    assert read_part(disk, tmp_path / "f", 3, 1) == b"bXY"
    assert (tmp_path / "f").read_bytes() == b"abXYef"
    for call in (
        lambda: write_part(disk, tmp_path / "none", b"x", 0),
        lambda: read_part(disk, tmp_path / "none", 1, 0),
    ):
        with pytest.raises(FileNotFoundError):
            call()

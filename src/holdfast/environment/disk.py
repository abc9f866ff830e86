"""
The disk, as a contract: every file operation of the journal goes through it.

A simulated disk can stand in and lose what was not synced, tear a write in the middle, fail a
sync or run full. The contract promises no more than disks do: what was written is durable only
after `sync` of the file returned, and a name only after `sync_directory` returned. Reads see what
was written, durable or not. A sector of 512 bytes is written as a whole or not at all.

Errors are plain `OSError`; the journal decides what they mean. One of them is told apart: no room
for what was to be written (`NoRoomError`). A file that is not opened because
no descriptor is left (EMFILE, ENFILE; see `descriptors`) says nothing about the disk. Handles may
be used from several threads at once, because every read and write names its own place.
"""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Protocol, runtime_checkable

from holdfast.environment.descriptors import RESERVE
from holdfast.environment.lock_holder import LockTakenError, holder_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

SECTOR_BYTES: Final = 512
"""The largest piece that a disk writes as a whole or not at all."""

_ZEROS: Final = bytes(1024 * 1024)
_UNTOLD_BYTES: Final = 1 << 62
"""What counts as free where that is not told."""


class NoRoomError(OSError):
    """
    There is no room for what was to be written (ENOSPC, EDQUOT); some of it may be written.

    No sync failed: all that was durable before still is. Whoever writes the very same again, whole
    and in the same place, or gives the file up, goes on from there.
    """


def is_no_room(error: OSError) -> bool:
    """Whether the disk, or what this user may have of it, is full."""
    return error.errno in (errno.ENOSPC, errno.EDQUOT)


@contextmanager
def no_room_told() -> Iterator[None]:
    """Tell a disk that is full from one that fails; not to be used around a sync."""
    try:
        yield
    except OSError as error:
        if not is_no_room(error) or isinstance(error, NoRoomError):
            raise
        raise NoRoomError(error.errno, error.strerror) from error


FileId = tuple[int, int]
"""Which file or directory it is, on this machine: its file system and its number there."""


class DiskFile(Protocol):
    """One open file."""

    def read(self, count: int, offset: int) -> bytes:
        """Return up to `count` bytes from `offset`; fewer only at the end of the file."""
        ...

    def write(self, data: bytes, offset: int) -> None:
        """Write all of `data` at `offset`; OSError if not, NoRoomError where that is why."""
        ...

    def write_durable(self, buffers: Sequence[bytes], offset: int) -> None:
        """
        Write all buffers one after the other from `offset`; durable when this returns.

        Only into a part of the file that is allocated, and while nothing else in the file waits for
        a sync. NoRoomError if there was no room for it: see there.
        """
        ...

    def sync(self) -> None:
        """Make everything written to this file so far durable."""
        ...

    def truncate(self, size: int) -> None:
        """Cut or extend the file to `size` bytes; durable after `sync`."""
        ...

    def forget_cached(self) -> None:
        """Ask for later reads to come from the disk itself; only a wish."""
        ...

    def size(self) -> int:
        """Return the bytes in the file."""
        ...

    def close(self) -> None:
        """Give the handle back; it must not be used again."""
        ...


class DiskLock(Protocol):
    """An exclusive lock, held until released or until the process ends."""

    def release(self) -> None:
        """Let others have it."""
        ...


class DirectoryLock(DiskLock, Protocol):
    """The lock of a file by which a directory is held, and told from others in its place."""

    def stands(self) -> bool:
        """
        Tell whether its path leads to the file that is locked, and not to another one or to none.

        Raises:
            OSError: That cannot be seen.
        """
        ...


class Disk(Protocol):
    """Files and directories."""

    def open(self, path: Path, *, create: bool = False, writable: bool = True) -> DiskFile:
        """Open a file; FileNotFoundError if it is missing and `create` is false."""
        ...

    def exists(self, path: Path) -> bool:
        """Tell whether a file or directory has this name."""
        ...

    def make_directory(self, path: Path) -> None:
        """Create a directory and its parents, durably; fine if it is there already."""
        ...

    def list_directory(self, path: Path) -> list[str]:
        """Return the sorted names in a directory."""
        ...

    def rename(self, source: Path, target: Path) -> None:
        """Rename, replacing `target`; durable after `sync_directory` of the parent."""
        ...

    def unlink(self, path: Path) -> None:
        """Remove a file, fine if it is gone already; durable after `sync_directory`."""
        ...

    def sync_directory(self, path: Path) -> None:
        """Make the names in this directory durable."""
        ...

    def free_bytes(self, path: Path) -> int:
        """Return how much an ordinary process may still write to the file system of `path`."""
        ...

    def lock(self, path: Path) -> DirectoryLock:
        """Take the exclusive lock of this file, created if need be; BlockingIOError if taken."""
        ...


@runtime_checkable
class TellsWhich(Protocol):
    """An open file that can be told from others."""

    def identity(self) -> FileId:
        """Return which file it is, whatever its name: no other has this while it is open."""
        ...


@runtime_checkable
class TellsFilesApart(Protocol):
    """What a disk can do besides that tells files and directories from others of their name."""

    def identity(self, path: Path) -> FileId:
        """Return which file or directory has this name; FileNotFoundError if none has."""
        ...


@runtime_checkable
class SeveralCopies(Protocol):
    """What a disk can do besides that keeps several copies of each file."""

    def mend(
        self, path: Path, offset: int, count: int, is_good: Callable[[bytes], bool]
    ) -> bytes | None:
        """
        Look at every copy of these bytes, and write those that are not good again by one that is.

        Gives the good bytes; None if no copy is good, or there is but one.
        """
        ...

    def readable_path(self, path: Path) -> Path:
        """Where the operating system has a copy that can be read."""
        ...


def mend_copies(
    disk: Disk, path: Path, offset: int, count: int, is_good: Callable[[bytes], bool]
) -> bytes | None:
    """As `SeveralCopies.mend`; None where there is but one copy."""
    if isinstance(disk, SeveralCopies):
        return disk.mend(path, offset, count, is_good)
    return None


def readable_path(disk: Disk, path: Path) -> Path:
    """As `SeveralCopies.readable_path`; the path itself where there is but one copy."""
    return disk.readable_path(path) if isinstance(disk, SeveralCopies) else path


def read_all(disk: Disk, path: Path) -> bytes:
    """
    Return what is in a small file.

    Raises:
        FileNotFoundError: There is none.
        OSError: It cannot be read.
    """
    file = disk.open(path, writable=False)
    try:
        return file.read(file.size(), 0)
    finally:
        file.close()


def read_part(disk: Disk, path: Path, count: int, offset: int) -> bytes:
    """Return up to `count` bytes of a file from `offset`; OSError if they cannot be read."""
    file = disk.open(path, writable=False)
    try:
        return file.read(count, offset)
    finally:
        file.close()


def write_part(disk: Disk, path: Path, data: bytes, offset: int) -> None:
    """Write all of `data` into a file that is there, durably; OSError if not."""
    file = disk.open(path)
    try:
        file.write(data, offset)
        file.sync()
    finally:
        file.close()


def fill_zeros(file: DiskFile, start: int, end: int) -> None:
    """Write zeros from `start` to before `end`, really and not as a hole; not synced."""
    offset = start
    while offset < end:
        count = min(end - offset, len(_ZEROS))
        file.write(_ZEROS if count == len(_ZEROS) else bytes(count), offset)
        offset += count


class RealFile:
    """A file of the operating system."""

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def read(self, count: int, offset: int) -> bytes:
        """Return up to `count` bytes from `offset`; fewer only at the end of the file."""
        data = os.pread(self._descriptor, count, offset)
        if len(data) == count or not data:
            return data
        # One call returns at most 2 GiB and may be interrupted; go on until the end.
        parts = [data]
        length = len(data)
        while length < count:
            data = os.pread(self._descriptor, count - length, offset + length)
            if not data:
                break
            parts.append(data)
            length += len(data)
        return b"".join(parts)

    def write(self, data: bytes, offset: int) -> None:
        """Write all of `data` at `offset`; OSError if not all of it could be written."""
        with no_room_told():
            written = os.pwrite(self._descriptor, data, offset)
        if written != len(data):
            raise _short_write(written, len(data))

    def write_durable(self, buffers: Sequence[bytes], offset: int) -> None:
        """
        Write all buffers one after the other from `offset`; durable when this returns.

        One call with RWF_DSYNC means the same as pwrite and fdatasync, but gives the
        interpreter lock away once instead of twice: a busy loop thread delays it less.

        Where it finds no room, the call does not say whether in its write or its sync. Where blocks
        are allocated only a write can meet that, on file systems that copy on write; and if it
        was the sync, all that it may have dropped is what this call wrote.
        """
        expected = sum(map(len, buffers))
        try:
            written = os.pwritev(self._descriptor, buffers, offset, os.RWF_DSYNC)
        except OSError as error:
            if is_no_room(error):
                raise NoRoomError(error.errno, error.strerror) from error
            raise
        if written != expected:
            raise _short_write(written, expected)

    def sync(self) -> None:
        """Make everything written to this file so far durable."""
        os.fdatasync(self._descriptor)

    def truncate(self, size: int) -> None:
        """Cut or extend the file to `size` bytes; durable after `sync`."""
        with no_room_told():
            os.ftruncate(self._descriptor, size)

    def forget_cached(self) -> None:
        """Ask for later reads to come from the disk itself; only a wish."""
        os.posix_fadvise(self._descriptor, 0, 0, os.POSIX_FADV_DONTNEED)

    def size(self) -> int:
        """Return the bytes in the file."""
        return os.fstat(self._descriptor).st_size

    def identity(self) -> FileId:
        """Return which file it is, whatever its name: no other has this while it is open."""
        return identity_of(os.fstat(self._descriptor))

    def close(self) -> None:
        """Give the handle back; it must not be used again."""
        RESERVE.close(self._descriptor)


class RealLock:
    """An flock, which the kernel drops with the process."""

    __slots__ = ("_descriptor", "_identity", "_path")

    def __init__(self, descriptor: int, path: Path) -> None:
        self._descriptor = descriptor
        self._path = path
        self._identity = identity_of(os.fstat(descriptor))

    def release(self) -> None:
        """Let others have it; once more does nothing."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def stands(self) -> bool:
        """Tell whether its path leads to the file that is locked; OSError: it cannot be seen."""
        try:
            found = os.stat(self._path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return identity_of(found) == self._identity


class RealDisk:
    """The file system of the machine."""

    __slots__ = ()

    def open(self, path: Path, *, create: bool = False, writable: bool = True) -> RealFile:
        """Open a file; FileNotFoundError if it is missing and `create` is false."""
        # Not to wait for who writes into a pipe that somebody put in a file's place.
        flags = (os.O_RDWR if writable else os.O_RDONLY) | os.O_NONBLOCK
        if create:
            flags |= os.O_CREAT
        with no_room_told():
            descriptor = self._open(path, flags)
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            RESERVE.close(descriptor)
            raise OSError(errno.EINVAL, "this is no regular file", str(path))
        return RealFile(descriptor)

    def exists(self, path: Path) -> bool:
        """Tell whether a file or directory has this name."""
        return path.exists()

    def identity(self, path: Path) -> FileId:
        """Return which file or directory has this name; FileNotFoundError if none has."""
        return identity_of(os.stat(path))

    def make_directory(self, path: Path) -> None:
        """Create a directory and its parents, durably; fine if it is there already."""
        if path.is_dir():
            return
        self.make_directory(path.parent)
        with no_room_told():
            path.mkdir(mode=0o750, exist_ok=True)
        self.sync_directory(path.parent)

    def list_directory(self, path: Path) -> list[str]:
        """Return the sorted names in a directory."""
        return sorted(os.listdir(path))

    def rename(self, source: Path, target: Path) -> None:
        """Rename, replacing `target`; durable after `sync_directory` of the parent."""
        with no_room_told():
            source.replace(target)

    def unlink(self, path: Path) -> None:
        """Remove a file, fine if it is gone already; durable after `sync_directory`."""
        path.unlink(missing_ok=True)

    def sync_directory(self, path: Path) -> None:
        """Make the names in this directory durable."""
        descriptor = self._open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            RESERVE.close(descriptor)

    def free_bytes(self, path: Path) -> int:
        """Return how much an ordinary process may still write to the file system of `path`."""
        return free_of(os.statvfs(path))

    def lock(self, path: Path) -> RealLock:
        """Take the exclusive lock of this file, created if need be; BlockingIOError if taken."""
        descriptor = self._open(path, os.O_RDWR | os.O_CREAT)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = holder_of(descriptor)
            os.close(descriptor)
            raise LockTakenError(path, holder) from error
        except BaseException:
            os.close(descriptor)
            raise
        return RealLock(descriptor, path)

    def _open(self, path: Path, flags: int) -> int:
        return RESERVE.open(path, flags)


def identity_of(found: os.stat_result) -> FileId:
    """Return which file or directory was found."""
    return found.st_dev, found.st_ino


def free_of(statistics: os.statvfs_result) -> int:
    """Return how much an ordinary process may still write to a file system."""
    if not statistics.f_blocks:
        return _UNTOLD_BYTES  # Some file systems in user space tell nothing of their room.
    return statistics.f_bavail * statistics.f_frsize


def _short_write(written: int, expected: int) -> OSError:
    return NoRoomError(errno.ENOSPC, f"only {written:,} of {expected:,} bytes could be written")

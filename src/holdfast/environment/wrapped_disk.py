"""
A disk made of another one, and its files: whoever adds something says only what that is.

Each call is handed on as it is, and what comes of it is given back; the words of the contracts are
in `disk`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from holdfast.environment.disk import DirectoryLock, Disk, DiskFile


class WrappedFile:
    """An open file of another disk."""

    __slots__ = ("_file",)

    def __init__(self, file: DiskFile) -> None:
        self._file = file

    def read(self, count: int, offset: int) -> bytes:
        """Return up to `count` bytes from `offset`; fewer only at the end of the file."""
        return self._file.read(count, offset)

    def write(self, data: bytes, offset: int) -> None:
        """Write all of `data` at `offset`; OSError if not, NoRoomError where that is why."""
        self._file.write(data, offset)

    def write_durable(self, buffers: Sequence[bytes], offset: int) -> None:
        """Write all buffers one after the other from `offset`; durable on return."""
        self._file.write_durable(buffers, offset)

    def sync(self) -> None:
        """Make everything written to this file so far durable."""
        self._file.sync()

    def truncate(self, size: int) -> None:
        """Cut or extend the file to `size` bytes; durable after `sync`."""
        self._file.truncate(size)

    def forget_cached(self) -> None:
        """Ask for later reads to come from the disk itself; only a wish."""
        self._file.forget_cached()

    def size(self) -> int:
        """Return the bytes in the file."""
        return self._file.size()

    def close(self) -> None:
        """Give the handle back; it must not be used again."""
        self._file.close()


class WrappedDisk:
    """Files and directories of another disk."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk

    def open(self, path: Path, *, create: bool = False, writable: bool = True) -> DiskFile:
        """Open a file; FileNotFoundError if it is missing and `create` is false."""
        return self._disk.open(path, create=create, writable=writable)

    def exists(self, path: Path) -> bool:
        """Tell whether a file or directory has this name."""
        return self._disk.exists(path)

    def make_directory(self, path: Path) -> None:
        """Create a directory and its parents, durably; fine if it is there already."""
        self._disk.make_directory(path)

    def list_directory(self, path: Path) -> list[str]:
        """Return the sorted names in a directory."""
        return self._disk.list_directory(path)

    def rename(self, source: Path, target: Path) -> None:
        """Rename, replacing `target`; durable after `sync_directory` of the parent."""
        self._disk.rename(source, target)

    def unlink(self, path: Path) -> None:
        """Remove a file, fine if it is gone already; durable after `sync_directory`."""
        self._disk.unlink(path)

    def sync_directory(self, path: Path) -> None:
        """Make the names in this directory durable."""
        self._disk.sync_directory(path)

    def free_bytes(self, path: Path) -> int:
        """Return how much an ordinary process may still write to the file system of `path`."""
        return self._disk.free_bytes(path)

    def lock(self, path: Path) -> DirectoryLock:
        """Take the exclusive lock of this file, created if need be; BlockingIOError if taken."""
        return self._disk.lock(path)

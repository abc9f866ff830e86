"""
A disk that several machines reach: what the contract of a disk does not say of others.

What NFSv4, GFS2 and a local file system promise alike: whoever opens a file anew reads what others
had synced before, and whoever links or creates a name learns for certain whether it was taken.
Names, sizes and times that were asked for earlier may be remembered, so nothing is judged by them.
And a path may lead elsewhere from one moment to the next: what is mounted there, or stands under
that name, may be replaced.

Invariants:
    `open` asks the file's own content afresh, each time.
    All that is done within a directory is done in one, whatever comes in its place meanwhile.
    A lock is a hint: what nobody holds, a dead process held, or one whose server forgot it.
"""

from __future__ import annotations

import fcntl
import os
import struct
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from holdfast.environment.descriptors import RESERVE
from holdfast.environment.disk import (
    Disk,
    DiskFile,
    DiskLock,
    FileId,
    RealDisk,
    RealFile,
    free_of,
    identity_of,
    no_room_told,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

_BELOW: Final = "./"
"""How the name of a file begins that is looked up in an open directory; no path begins so."""
_LOCK: Final = struct.Struct("hhqqi4x")
"""`struct flock` of 64 bits: type, whence, start, length, process; zeros: all of the file."""
_GET: Final = getattr(fcntl, "F_OFD_GETLK", 36)
_SET: Final = getattr(fcntl, "F_OFD_SETLK", 37)


class SharedFile(DiskFile, Protocol):
    """An open file that can be told from others."""

    def identity(self) -> FileId:
        """Return which file it is, whatever its name: no other has this while it is open."""
        ...


class SharedDisk(Disk, Protocol):
    """Files and directories that other machines see too."""

    def within(self, root: Path) -> AbstractContextManager[FileId]:
        """
        Do all that is done meanwhile below `root` in the directory that it leads to now.

        Gives which directory that is. It is found by its path each time, also where this is done
        already: so what is seen in there stood in what the path led to.

        Raises:
            FileNotFoundError: There is none.
        """
        ...

    def identity(self, path: Path) -> FileId:
        """Return which file has this name; FileNotFoundError if none has."""
        ...

    def open(self, path: Path, *, create: bool = False, writable: bool = True) -> SharedFile:
        """Open a file; FileNotFoundError if it is missing and `create` is false."""
        ...

    def create(self, path: Path) -> SharedFile:
        """Make a file that was not there; FileExistsError if its name is taken."""
        ...

    def open_through(self, path: Path, *, create: bool = False) -> SharedFile:
        """
        Open a file of which others write other parts.

        What is written goes out as it is, at once, and takes no bytes beside it along.
        """
        ...

    def link(self, source: Path, target: Path) -> None:
        """
        Give a file a second name, as a whole or not at all; durable after `sync_directory`.

        Raises:
            FileExistsError: The name is taken: by another, or by this very call, whose first
                answer was lost on the way. Compare the content.
        """
        ...

    def hold(self, path: Path) -> DiskLock:
        """Lock a file that is there for as long as this process lives; BlockingIOError if held."""
        ...

    def is_held(self, path: Path) -> bool:
        """Tell whether somebody else has locked this file."""
        ...


class _OpenFileLock:
    """A lock of an open file, which other handles of this process do not lose."""

    __slots__ = ("_descriptor",)

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def release(self) -> None:
        """Let others have it."""
        RESERVE.close(self._descriptor)


class RealSharedDisk(RealDisk):
    """The file system of the machine, as it is seen from others too; for one thread at a time."""

    _pinned: tuple[str, int] | None = None
    """A directory that all goes by: its path and a slash, and its descriptor."""

    @contextmanager
    def within(self, root: Path) -> Iterator[FileId]:
        """Do all that is done meanwhile below `root` in the directory that it leads to now."""
        descriptor = RESERVE.open(root, os.O_PATH | os.O_DIRECTORY)
        outer, self._pinned = self._pinned, (f"{root}/", descriptor)
        try:
            yield identity_of(os.fstat(descriptor))
        except OSError as error:
            if str(error.filename).startswith(_BELOW):
                error.filename = f"{root}/{error.filename.removeprefix(_BELOW)}"
            raise
        finally:
            self._pinned = outer
            RESERVE.close(descriptor)

    def identity(self, path: Path) -> FileId:
        """Return which file has this name; FileNotFoundError if none has."""
        name, directory = self._at(path)
        return identity_of(os.stat(name, dir_fd=directory))

    def create(self, path: Path) -> RealFile:
        """Make a file that was not there; FileExistsError if its name is taken."""
        with no_room_told():
            return RealFile(self._open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL))

    def open_through(self, path: Path, *, create: bool = False) -> RealFile:
        """Open a file of which others write other parts."""
        # With O_DSYNC a client of NFS writes just these bytes, and not the page they stand in.
        flags = os.O_RDWR | os.O_NONBLOCK | os.O_DSYNC | (os.O_CREAT if create else 0)
        with no_room_told():
            return RealFile(self._open(path, flags))

    def exists(self, path: Path) -> bool:
        """Tell whether a file or directory has this name."""
        try:
            self.identity(path)
        except FileNotFoundError:
            return False
        return True

    def make_directory(self, path: Path) -> None:
        """Create a directory and its parents, durably; fine if it is there already."""
        if self._pinned is None:
            super().make_directory(path)
        elif not self.exists(path):
            self.make_directory(path.parent)
            name, directory = self._at(path)
            with no_room_told(), suppress(FileExistsError):
                os.mkdir(name, 0o750, dir_fd=directory)
            self.sync_directory(path.parent)

    def list_directory(self, path: Path) -> list[str]:
        """Return the sorted names in a directory."""
        descriptor = self._open(path, os.O_RDONLY | os.O_DIRECTORY)
        try:
            return sorted(os.listdir(descriptor))  # noqa: PTH208 - it is open already
        finally:
            RESERVE.close(descriptor)

    def rename(self, source: Path, target: Path) -> None:
        """Rename, replacing `target`; durable after `sync_directory` of the parent."""
        (old, before), (new, after) = self._at(source), self._at(target)
        with no_room_told():
            os.replace(old, new, src_dir_fd=before, dst_dir_fd=after)

    def unlink(self, path: Path) -> None:
        """Remove a file, fine if it is gone already; durable after `sync_directory`."""
        name, directory = self._at(path)
        with suppress(FileNotFoundError):
            os.unlink(name, dir_fd=directory)

    def free_bytes(self, path: Path) -> int:
        """Return how much an ordinary process may still write to the file system of `path`."""
        descriptor = self._open(path, os.O_PATH)
        try:
            return free_of(os.statvfs(descriptor))
        finally:
            RESERVE.close(descriptor)

    def link(self, source: Path, target: Path) -> None:
        """Give a file a second name, as a whole or not at all."""
        (old, before), (new, after) = self._at(source), self._at(target)
        with no_room_told():
            os.link(old, new, src_dir_fd=before, dst_dir_fd=after)

    def hold(self, path: Path) -> DiskLock:
        """Lock a file that is there for as long as this process lives; BlockingIOError if held."""
        descriptor = self._open(path, os.O_RDWR)
        try:
            fcntl.fcntl(descriptor, _SET, _LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
        except BaseException:
            RESERVE.close(descriptor)
            raise
        return _OpenFileLock(descriptor)

    def is_held(self, path: Path) -> bool:
        """Tell whether somebody else has locked this file."""
        descriptor = self._open(path, os.O_RDONLY)
        try:
            asked = _LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
            found = fcntl.fcntl(descriptor, _GET, asked)
        finally:
            RESERVE.close(descriptor)
        return bool(_LOCK.unpack(found)[0] != fcntl.F_UNLCK)

    def _open(self, path: Path, flags: int) -> int:
        name, directory = self._at(path)
        return RESERVE.open(name, flags, within=directory)

    def _at(self, path: Path) -> tuple[str, int | None]:
        """How to get there, and from which directory; as text, for several go with each append."""
        name = str(path)
        if self._pinned is not None:
            root, descriptor = self._pinned
            if name.startswith(root):
                return _BELOW + name.removeprefix(root), descriptor
            if f"{name}/" == root:
                return _BELOW, descriptor
        return name, None

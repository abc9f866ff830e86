"""
A disk that several machines reach: what the contract of a disk does not say of others.

What NFSv4, GFS2 and a local file system promise alike: whoever opens a file anew reads what others
had synced before, and whoever links or creates a name learns for certain whether it was taken.
Names, sizes and times that were asked for earlier may be remembered, so nothing is judged by them.

Invariants:
    `open` asks the file's own content afresh, each time.
    A lock is a hint: what nobody holds, a dead process held, or one whose server forgot it.
"""

from __future__ import annotations

import fcntl
import os
import struct
from typing import TYPE_CHECKING, Final, Protocol

from holdfast.environment.descriptors import RESERVE
from holdfast.environment.disk import Disk, DiskFile, DiskLock, RealDisk, RealFile, no_room_told

if TYPE_CHECKING:
    from pathlib import Path

_LOCK: Final = struct.Struct("hhqqi4x")
"""`struct flock` of 64 bits: type, whence, start, length, process; zeros: all of the file."""
_GET: Final = getattr(fcntl, "F_OFD_GETLK", 36)
_SET: Final = getattr(fcntl, "F_OFD_SETLK", 37)


class SharedDisk(Disk, Protocol):
    """Files and directories that other machines see too."""

    def create(self, path: Path) -> DiskFile:
        """Make a file that was not there; FileExistsError if its name is taken."""
        ...

    def open_through(self, path: Path, *, create: bool = False) -> DiskFile:
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
    """The file system of the machine, as it is seen from others too."""

    __slots__ = ()

    def create(self, path: Path) -> RealFile:
        """Make a file that was not there; FileExistsError if its name is taken."""
        with no_room_told():
            return RealFile(RESERVE.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL))

    def open_through(self, path: Path, *, create: bool = False) -> RealFile:
        """Open a file of which others write other parts."""
        # With O_DSYNC a client of NFS writes just these bytes, and not the page they stand in.
        flags = os.O_RDWR | os.O_NONBLOCK | os.O_DSYNC | (os.O_CREAT if create else 0)
        with no_room_told():
            return RealFile(RESERVE.open(path, flags))

    def link(self, source: Path, target: Path) -> None:
        """Give a file a second name, as a whole or not at all."""
        with no_room_told():
            os.link(source, target)

    def hold(self, path: Path) -> DiskLock:
        """Lock a file that is there for as long as this process lives; BlockingIOError if held."""
        descriptor = RESERVE.open(path, os.O_RDWR)
        try:
            fcntl.fcntl(descriptor, _SET, _LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0))
        except BaseException:
            RESERVE.close(descriptor)
            raise
        return _OpenFileLock(descriptor)

    def is_held(self, path: Path) -> bool:
        """Tell whether somebody else has locked this file."""
        descriptor = RESERVE.open(path, os.O_RDONLY)
        try:
            asked = _LOCK.pack(fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
            found = fcntl.fcntl(descriptor, _GET, asked)
        finally:
            RESERVE.close(descriptor)
        return bool(_LOCK.unpack(found)[0] != fcntl.F_UNLCK)

"""
The draft of a data directory: a folder beside it, which belongs to one process at a time.

    <directory>.restoring         what is written; it gets the directory's name when all is durable
    <directory>.restoring.lock    locked for as long as somebody writes there

A draft that nobody holds is what a killed process left, and is removed by the next one. A copy's
is called `.copying`.

Invariants:
    Nothing in a draft is touched, and it is not given its name, but by whoever holds its lock.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from pathlib import Path
from typing import Final

from holdfast.environment.disk import Disk, RealDisk
from holdfast.errors import ConfigError, StoreLockedError

LOCK_SUFFIX: Final = ".lock"
RESTORING: Final = "restoring"
COPYING: Final = "copying"


class Draft:
    """The draft of one directory, held from the start until `release`."""

    def __init__(self, directory: Path, doing: str = RESTORING) -> None:
        """
        Take it, and remove what a killed process left in it.

        Args:
            doing: What is done, which is the draft's suffix too.

        Raises:
            StoreLockedError: Another one is doing so to this directory.
            ConfigError: There is something in the directory already, or it could not be given the
                draft's name in the end: it is a link, or a file system is mounted there.
        """
        _check_replaceable(directory)
        check_empty(directory)
        self.directory = directory
        self.path = directory.with_name(f"{directory.name}.{doing}")
        self._lock_path = _lock_path(directory, doing)
        self._descriptor: int | None = _locked(self._lock_path, directory, doing)
        try:
            check_empty(directory)  # the one that held it until now may have finished
            if self.path.exists():
                shutil.rmtree(self.path)
        except BaseException:
            self.release()
            raise

    def finish(self, disk: Disk) -> None:
        """
        Give the draft the directory's name, durably.

        Raises:
            ConfigError: Somebody has put something there meanwhile.
        """
        assert self._descriptor is not None, "a draft is finished by who holds it"
        check_empty(self.directory)
        if self.directory.exists():
            self.directory.rmdir()
        disk.rename(self.path, self.directory)
        disk.sync_directory(self.directory.parent)

    def release(self) -> None:
        """Let others have it."""
        if self._descriptor is not None:
            # Before it is let go: who takes it then finds that it is not the file of this name.
            self._lock_path.unlink(missing_ok=True)
            os.close(self._descriptor)
            self._descriptor = None


def check_empty(directory: Path) -> None:
    """
    Make sure that there is nothing in a directory, if it is there.

    Raises:
        ConfigError: There is.
    """
    if directory.exists() and any(directory.iterdir()):
        raise ConfigError(
            [f"to: {directory} is not empty; nothing is ever written over a directory in use"]
        )


def _check_replaceable(directory: Path) -> None:
    """Before all the work: at its end the draft gets the name of what is there."""
    if directory.is_symlink():
        what = f"is a link, to {directory.readlink()}: name what it leads to"
    elif directory.is_mount():
        what = "is where a file system is mounted: name a directory on it that is not there yet"
    else:
        return
    raise ConfigError([f"to: {directory} {what}"])


def check_not_restored_now(directory: Path) -> None:
    """
    Make sure that no other process is restoring to a directory at this moment.

    Raises:
        StoreLockedError: One is.
    """
    path = _lock_path(directory, RESTORING)
    if path.exists():
        os.close(_locked(path, directory, RESTORING))


def _lock_path(directory: Path, doing: str) -> Path:
    return directory.with_name(f"{directory.name}.{doing}{LOCK_SUFFIX}")


def _locked(path: Path, directory: Path, doing: str) -> int:
    """Open and lock the file of this name, made if need be."""
    RealDisk().make_directory(path.parent)
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o640)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_named(path, descriptor):
                return descriptor
        except BlockingIOError:
            os.close(descriptor)
            raise StoreLockedError(
                f"another process is {doing} to {directory} at this moment; wait until it has"
                f" ended, or name another directory"
            ) from None
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _is_named(path: Path, descriptor: int) -> bool:
    """Whether the file of this name is the one that is open: it is removed when it is let go."""
    try:
        return os.path.samestat(path.stat(), os.fstat(descriptor))
    except FileNotFoundError:
        return False

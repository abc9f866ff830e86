"""
A disk of which one directory is used only while its path leads to the one that was locked.

Files that are open stay those of the old directory when another one comes in its place: a backup
that is brought back, a clone that is mounted, or none, as it was moved or removed. What is written
to them nobody reads, and what goes by path gets into the other one. Its lock is open for as long
as it is used, so the file that the lock's path leads to tells them apart; a copy has another one.

Invariants:
    Nothing is made, renamed or removed, and no file opened to be written, in another directory.
    What a sync or a durable write returned for stood, after it, where the path leads to.
    Without a lock, and outside of the directory that is locked, it is the disk that it is made of.

Safe to use from any thread, as a disk is. The rule is that of record 0067, for one machine (0078).
"""

from __future__ import annotations

import errno
import logging
import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from holdfast.environment.disk import DirectoryLock, Disk, DiskFile
from holdfast.environment.wrapped_disk import WrappedDisk, WrappedFile

LOOK_SECONDS: Final = 1.0
"""How often it is looked at where nothing is written, and how soon what is back is noticed."""

ANOTHER: Final = "it is not the directory any more that it was (is it mounted?)"
"""What is said of a directory in whose place there is something else, or nothing."""

logger = logging.getLogger("holdfast.disk")


class AwayError(OSError):
    """The path of a directory does not lead any more to the one that is used."""

    def __init__(self, why: str = ANOTHER) -> None:
        super().__init__(errno.ESTALE, why)


class StandingFile(WrappedFile):
    """An open file of which nothing counts as durable that stands elsewhere."""

    __slots__ = ("_require",)

    def __init__(self, file: DiskFile, require: Callable[[], None]) -> None:
        super().__init__(file)
        self._require = require

    def write_durable(self, buffers: Sequence[bytes], offset: int) -> None:
        """Write all buffers from `offset`; durable, and where the path leads, as it returns."""
        self._file.write_durable(buffers, offset)
        self._require()

    def sync(self) -> None:
        """Make everything written to this file so far durable, where the path leads to."""
        self._file.sync()
        self._require()


class _Lock:
    """The lock of the directory, with whoever looks after it."""

    def __init__(self, lock: DirectoryLock, watch: _Watch | None) -> None:
        self._lock = lock
        self._watch = watch

    def release(self) -> None:
        """Let others have the directory, and look after it no more."""
        if self._watch is not None:
            self._watch.end()
        self._lock.release()

    def stands(self) -> bool:
        """Tell whether its path leads to the file that is locked; OSError: it cannot be seen."""
        return self._lock.stands()


class StandingDisk(WrappedDisk):
    """
    The disk of one directory; whoever takes the lock of that directory says which it is.

    What is asked of it while the directory is away raises AwayError. With `waits` it waits instead
    until the directory is back, however long that takes, as for a disk that hangs; only what is
    read is read wherever the path leads to: those who read may not wait.
    """

    def __init__(self, disk: Disk, *, waits: bool = False) -> None:
        super().__init__(disk)
        self._waits = waits
        self._lock: DirectoryLock | None = None
        self._root = Path()
        self._watch: _Watch | None = None

    def open(self, path: Path, *, create: bool = False, writable: bool = True) -> DiskFile:
        """Open a file; FileNotFoundError if it is missing and `create` is false."""
        if self._lock is None or not path.is_relative_to(self._root):
            return self._disk.open(path, create=create, writable=writable)
        if not writable:
            if not self._waits:
                self._require()
            return self._disk.open(path, writable=False)
        self._require()
        file = self._disk.open(path, create=create)
        try:
            # It came from the directory that was there between the two looks.
            self._require()
        except BaseException:
            file.close()
            raise
        return StandingFile(file, self._require)

    def make_directory(self, path: Path) -> None:
        """Create a directory and its parents, durably; fine if it is there already."""
        self._require_for(path)
        self._disk.make_directory(path)

    def rename(self, source: Path, target: Path) -> None:
        """Rename, replacing `target`; durable after `sync_directory` of the parent."""
        self._require_for(target)
        self._disk.rename(source, target)

    def unlink(self, path: Path) -> None:
        """Remove a file, fine if it is gone already; durable after `sync_directory`."""
        self._require_for(path)
        self._disk.unlink(path)

    def sync_directory(self, path: Path) -> None:
        """Make the names in this directory durable, where its path leads to."""
        self._require_for(path)
        self._disk.sync_directory(path)
        self._require_for(path)

    def lock(self, path: Path) -> DirectoryLock:
        """Take the exclusive lock of this file, created if need be; its directory must stay."""
        lock = self._disk.lock(path)
        self._root, self._lock = path.parent, lock
        if self._waits:
            self._watch = _Watch(path.parent, lock)
        return _Lock(lock, self._watch)

    def _require_for(self, path: Path) -> None:
        if self._lock is not None and path.is_relative_to(self._root):
            self._require()

    def _require(self) -> None:
        """
        See that the path leads to the directory that is locked, or wait until it does.

        Raises:
            AwayError: It does not.
            OSError: It cannot be seen.
        """
        if self._watch is not None:
            self._watch.wait()
        elif self._lock is not None and not self._lock.stands():
            raise AwayError


class _Watch:
    """Tells of one directory that it is away, once, and that it is back."""

    def __init__(self, directory: Path, lock: DirectoryLock) -> None:
        self._directory = directory
        self._held = lock
        self._is_away = False
        self._telling = threading.Lock()
        self._ending = threading.Event()
        threading.Thread(target=self._run, name="directory-watch", daemon=True).start()

    def wait(self) -> None:
        """Return once the path leads to the directory that is locked."""
        while not self._stands():
            time.sleep(LOOK_SECONDS / 4)

    def end(self) -> None:
        """Look no more."""
        self._ending.set()

    def _run(self) -> None:
        # So that a node hears of it to which nobody writes.
        while not self._ending.wait(LOOK_SECONDS):
            self._stands()

    def _stands(self) -> bool:
        why = ""
        try:
            if not self._held.stands():
                why = "another directory, or none, is where it was"
        except OSError as error:
            why = f"it cannot be seen: {error.strerror or error}"
        if bool(why) != self._is_away:
            with self._telling:
                self._tell(why)
        return not why

    def _tell(self, why: str) -> None:
        if bool(why) == self._is_away or self._ending.is_set():
            return
        self._is_away = bool(why)
        if why:
            process = os.getpid()
            logger.critical(
                "%s was replaced, moved or removed while it was in use (%s): nothing is stored or"
                " confirmed until the one that was opened is back there. Do not end this process"
                " before: all that it confirmed is in that directory, and not in what is there now."
                " Put it back; if it was removed, its files can be copied from /proc/%d/fd for as"
                " long as process %d runs",
                self._directory,
                why,
                process,
                process,
            )
        else:
            logger.warning("%s is there again: writing goes on", self._directory)

"""
A disk of which one directory is used only while its path leads to the one that was locked.

Files that are open stay those of the old directory when another one comes in its place: a backup
that is brought back, a clone that is mounted, or none, as it was moved or removed. What is written
to them nobody reads, and what goes by path gets into the other one. A copy has other files, so the
files that the paths of the lock, of `journal` and of what is open lead to tell them apart.

Invariants:
    Nothing is made, renamed or removed, and no file opened or written, in another directory.
    What a sync or a durable write returned for stood, after it, where its path leads to.
    Each call of the contract but reading is answered by what is locked; none fails as it is away.
    Without a lock, and outside of the directory that is locked, it is the disk that it is made of.

Safe to use from any thread, as a disk is. The rule is that of record 0067, for one machine (0078).
"""

from __future__ import annotations

import errno
import logging
import os
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Final, TypeVar

from holdfast.environment.disk import DirectoryLock, Disk, DiskFile
from holdfast.environment.held_directory import ANOTHER, TAKEN, HeldDirectory, StandingFile
from holdfast.environment.wrapped_disk import WrappedDisk

LOOK_SECONDS: Final = 1.0
"""How often it is looked at where nothing is written, and how soon what is back is noticed."""

T = TypeVar("T")

logger = logging.getLogger("holdfast.disk")


class AwayError(OSError):
    """The path of a directory does not lead any more to the one that is used."""

    def __init__(self, why: str = ANOTHER) -> None:
        super().__init__(errno.ESTALE, why)


class _Lock:
    """The lock of the directory, with whoever looks after it."""

    def __init__(self, directory: HeldDirectory, watch: _Watch | None) -> None:
        self._directory = directory
        self._watch = watch

    def release(self) -> None:
        """Let others have the directory, and look after it no more."""
        if self._watch is not None:
            self._watch.end()
        self._directory.release()

    def stands(self) -> bool:
        """Tell whether its path leads to the file that is locked; OSError: it cannot be seen."""
        return self._directory.stands()


class StandingDisk(WrappedDisk):
    """
    The disk of one directory; whoever takes the lock of that directory says which it is.

    What is asked of it while the directory is away raises AwayError. With `waits` it waits instead
    until the directory is back, however long that takes, as for a disk that hangs; only what is
    read is read wherever the path leads to, and what room there is told as it was: those who ask
    for these may not wait.
    """

    def __init__(self, disk: Disk, *, waits: bool = False) -> None:
        super().__init__(disk)
        self._waits = waits
        self._directory: HeldDirectory | None = None
        self._watch: _Watch | None = None
        self._free_bytes: dict[Path, int] = {}
        """What was told last, while the directory was there."""

    def open(self, path: Path, *, create: bool = False, writable: bool = True) -> DiskFile:
        """Open a file; FileNotFoundError if it is missing and `create` is false."""
        directory = self._directory_of(path)
        if directory is None:
            return self._disk.open(path, create=create, writable=writable)
        if not writable:
            if not self._waits:
                self._require(directory.why_not_ours)
            return self._disk.open(path, writable=False)

        def opened() -> DiskFile:
            file = self._disk.open(path, create=create)
            # It came from the directory that was there between the two looks.
            directory.learn(path.parent)
            standing = StandingFile(file, path, directory, self._require)
            if not self._is_there():
                standing.close()
                raise AwayError
            return standing

        return self._done(path, opened)

    def exists(self, path: Path) -> bool:
        """Tell whether a file or directory has this name."""
        return self._done(path, lambda: self._disk.exists(path), is_told=True)

    def make_directory(self, path: Path) -> None:
        """Create a directory and its parents, durably; fine if it is there already."""
        self._done(path, lambda: self._disk.make_directory(path))
        if (directory := self._directory_of(path)) is not None:
            directory.learn(path)

    def list_directory(self, path: Path) -> list[str]:
        """Return the sorted names in a directory."""
        return self._done(path, lambda: self._disk.list_directory(path), is_told=True)

    def rename(self, source: Path, target: Path) -> None:
        """Rename, replacing `target`; durable after `sync_directory` of the parent."""

        def rename() -> None:
            with self._renaming(source, target):
                self._disk.rename(source, target)

        self._done(target, rename)

    def unlink(self, path: Path) -> None:
        """Remove a file, fine if it is gone already; durable after `sync_directory`."""

        def unlink() -> None:
            with self._renaming(path):
                self._disk.unlink(path)

        self._done(path, unlink)

    def sync_directory(self, path: Path) -> None:
        """Make the names in this directory durable, where its path leads to."""
        self._done(path, lambda: self._disk.sync_directory(path))

    def free_bytes(self, path: Path) -> int:
        """
        Return how much an ordinary process may still write to the file system of `path`.

        With `waits`, while the directory is away: how much it was when that was asked last.
        """
        directory = self._directory_of(path)
        if directory is None:
            return self._disk.free_bytes(path)
        try:
            if directory.stands():
                free = self._disk.free_bytes(path)
                if directory.stands():
                    self._free_bytes[path] = free
                    return free
            if not self._waits:
                raise AwayError
        except OSError:
            if not self._waits or self._is_there():
                raise
        # What is there now says nothing of the one that is waited for. Nothing can be written
        # there before it is back, so what is told meanwhile decides nothing.
        return self._free_bytes.get(path, 0)

    def lock(self, path: Path) -> DirectoryLock:
        """Take the exclusive lock of this file, created if need be; its directory must stay."""
        self._directory = directory = HeldDirectory(self._disk, path)
        with suppress(OSError):
            self.free_bytes(path.parent)
        if self._waits:
            self._watch = _Watch(directory)
        return _Lock(directory, self._watch)

    def _directory_of(self, path: Path) -> HeldDirectory | None:
        directory = self._directory
        return directory if directory and path.is_relative_to(directory.root) else None

    def _renaming(self, path: Path, target: Path | None = None) -> AbstractContextManager[None]:
        directory = self._directory
        return nullcontext() if directory is None else directory.renaming(path, target)

    def _done(self, path: Path, act: Callable[[], T], *, is_told: bool = False) -> T:
        """
        Do it in the directory that is locked, or nowhere; what `is_told` of another is no answer.

        Raises:
            AwayError: It is away, and not waited for.
            OSError: It failed while the directory was there, or that cannot be seen.
        """
        directory = self._directory_of(path)
        if directory is None:
            return act()
        while True:
            self._require(directory.why_away)
            try:
                done = act()
            except OSError as error:
                if self._is_there() and not isinstance(error, AwayError):
                    raise
                continue  # It went away meanwhile, and that is why.
            if not is_told:
                self._require(directory.why_away)
                return done
            if self._is_there():
                return done

    def _is_there(self) -> bool:
        try:
            return self._directory is None or not self._directory.why_away()
        except OSError:
            return False

    def _require(self, look: Callable[[], str]) -> None:
        """
        See that the path leads to what is used, or wait until it does.

        Raises:
            AwayError: It does not.
            OSError: It cannot be seen.
        """
        if self._watch is not None:
            self._watch.wait(look)
        elif why := look():
            raise AwayError(why)


class _Watch:
    """Tells of one directory that it is away, once, and that it is back."""

    def __init__(self, directory: HeldDirectory) -> None:
        self._directory = directory
        self._is_away = False
        self._telling = threading.Lock()
        self._ending = threading.Event()
        threading.Thread(target=self._run, name="directory-watch", daemon=True).start()

    def wait(self, look: Callable[[], str]) -> None:
        """Return once the path leads to what is used."""
        if not self._is_away and not self._why_not(look):
            return
        # What has gone is told of, and that it is back, by the look at everything.
        while self._looks_away() or self._why_not(look):
            time.sleep(LOOK_SECONDS / 4)

    def end(self) -> None:
        """Look no more."""
        self._ending.set()

    def _run(self) -> None:
        # So that a node hears of it to which nobody writes.
        while not self._ending.wait(LOOK_SECONDS):
            self._looks_away()

    def _looks_away(self) -> bool:
        why = self._why_not(self._directory.why_away)
        if bool(why) != self._is_away:
            with self._telling:
                self._tell(why)
        return bool(why)

    def _why_not(self, look: Callable[[], str]) -> str:
        try:
            return look()
        except OSError as error:
            return f"it cannot be seen: {error.strerror or error}"

    def _tell(self, why: str) -> None:
        if bool(why) == self._is_away or self._ending.is_set():
            return
        self._is_away = bool(why)
        where, process = self._directory.root, os.getpid()
        if not why:
            logger.warning("%s is there again: writing goes on", where)
        elif why == TAKEN:
            logger.critical(
                "%s: %s. This process writes nothing there any more, and confirms nothing. Find out"
                " which other one was started on it, and end this one; only one may use a"
                " directory, and its file `lock` is never to be removed",
                where,
                why,
            )
        elif why != ANOTHER:
            logger.critical(
                "%s: %s. Nothing is stored or confirmed until the one that was opened is back"
                " there. Do not end this process before: what it confirmed is in the files that it"
                " has open. Move them back; where they have no name any more, copy them from"
                " /proc/%d/fd over those of the same name, and only then end process %d and start"
                " it again. Stop a node before a backup is brought back into its directory",
                where,
                why,
                process,
                process,
            )
        else:
            self._tell_gone(where, process)

    def _tell_gone(self, where: Path, process: int) -> None:
        logger.critical(
            "%s was replaced, moved or removed while it was in use (another directory, or none, is"
            " where it was): nothing is stored or confirmed until the one that was opened is back"
            " there. Do not end this process before: all that it confirmed is in that directory,"
            " and not in what is there now. Put it back; if it was removed, its files can be copied"
            " from /proc/%d/fd for as long as process %d runs. Where it is the same file system,"
            " mounted anew, `holdfast store verify` of it tells where it ends: if that is what was"
            " confirmed last, start this node again on it",
            where,
            process,
            process,
        )

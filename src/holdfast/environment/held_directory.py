"""
What tells a directory that is used from another one in its place: which files its names lead to.

Its lock is open for as long as it is used, and so are the files that are written; of itself and of
its folder `journal` the numbers are kept. A copy has others. Other folders, as `checkpoints`,
may be removed while it is used, with what is open in them, and are made anew by who needs them.
A look is a few questions for names that are in memory.

Invariants:
    A lock is made anew only where its name alone has gone: root, journal and open files are ours.
    Another one in the place of `journal` is one for ever; no other folder stops a write.
    Who renames or removes an open file here is not taken for somebody else.

Safe to use from any thread.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from holdfast.environment.disk import Disk, DiskFile, FileId, TellsFilesApart, TellsWhich
from holdfast.environment.wrapped_disk import WrappedFile

ANOTHER: Final = "it is not the directory any more that it was (is it mounted?)"
"""What is said of a directory in whose place there is something else, or nothing."""

TAKEN: Final = "its file `lock` is another one: another process has this directory, or had it"
OTHER_FOLDER: Final = "{} in it is another folder (moved, or is it mounted?)"
OTHER_FILE: Final = "{} in it is another file, or none (was a backup brought back into it?)"

JOURNAL: Final = "journal"
"""The one folder that holds what was confirmed; the ballot is in the directory itself."""

logger = logging.getLogger("holdfast.disk")


class StandingFile(WrappedFile):
    """An open file of which nothing is written, or counts as durable, that stands elsewhere."""

    __slots__ = ("_directory", "_require", "identity", "place")

    def __init__(
        self,
        file: DiskFile,
        place: Path,
        directory: HeldDirectory,
        require: Callable[[Callable[[], str]], None],
    ) -> None:
        super().__init__(file)
        self.place: Path | None = place
        """Its name now; None while it is renamed, and once it was removed or replaced."""
        self.identity = directory.identity_of(file)
        """Which file it is, where the disk can tell."""
        self._directory = directory
        self._require = require
        directory.files.add(self)

    def write(self, data: bytes, offset: int) -> None:
        """Write all of `data` at `offset`; OSError if not, NoRoomError where that is why."""
        self._require(self._directory.why_not_ours)
        self._file.write(data, offset)

    def write_durable(self, buffers: Sequence[bytes], offset: int) -> None:
        """Write all buffers from `offset`; durable, and where the path leads, as it returns."""
        # Who has the directory now may have the very same file: it is looked before as well.
        self._require(self._directory.why_not_ours)
        self._file.write_durable(buffers, offset)
        self._require(self._why_elsewhere)

    def sync(self) -> None:
        """Make everything written to this file so far durable, where the path leads to."""
        self._file.sync()
        self._require(self._why_elsewhere)

    def truncate(self, size: int) -> None:
        """Cut or extend the file to `size` bytes; durable after `sync`."""
        self._require(self._directory.why_not_ours)
        self._file.truncate(size)

    def close(self) -> None:
        """Give the handle back; it must not be used again."""
        self._directory.files.discard(self)
        self._file.close()

    def _why_elsewhere(self) -> str:
        return self._directory.why_not_ours() or self._directory.why_not_standing(self)


class HeldDirectory:
    """
    What is used: a lock, the directory, its journal, and the files in both that are open.

    Each look gives why it is not there any more, and nothing if it is.
    """

    def __init__(self, disk: Disk, path: Path) -> None:
        self._disk = disk
        # Asked once: to find out what a disk can do takes longer than a look.
        self._names = disk if isinstance(disk, TellsFilesApart) else None
        self._path = path
        self._lock = disk.lock(path)
        self._locking = threading.Lock()
        self._is_released = False
        self.root = path.parent
        self.files: set[StandingFile] = set()
        self._lasting = (self.root, self.root / JOURNAL)
        self._folders: dict[Path, FileId] = {}
        self.learn(self.root)

    def release(self) -> None:
        """Let others have it."""
        with self._locking:
            self._is_released = True
            self._lock.release()

    def stands(self) -> bool:
        """Tell whether its path leads to the file that is locked; OSError: it cannot be seen."""
        return self._lock.stands()

    def learn(self, folder: Path) -> None:
        """Know from now on which one this is, if it matters; where it is missing, another time."""
        if folder in self._lasting and folder not in self._folders:
            found = self._identity(folder)
            if found is not None:
                self._folders[folder] = found

    def identity_of(self, file: DiskFile) -> FileId | None:
        """Which file it is; None where the disk cannot tell that of names as well."""
        return file.identity() if self._names and isinstance(file, TellsWhich) else None

    def why_away(self) -> str:
        """
        Look at all: the lock, the two folders, and each file in them that is open to be written.

        Raises:
            OSError: It cannot be seen.
        """
        why = self.why_not_ours() or self._why_other_folder()
        return why or self._why_other_file()

    def _why_other_file(self) -> str:
        for file in tuple(self.files):
            if why := self.why_not_standing(file):
                return why
        return ""

    def why_not_ours(self) -> str:
        """
        Look at the lock, which is made anew where it alone was removed.

        Raises:
            OSError: It cannot be seen.
        """
        if self._lock.stands() or self._is_locked_anew():
            return ""
        if not self._is_root():
            return ANOTHER
        if self._disk.exists(self._path):
            return TAKEN
        # Nobody made another one: what was in it was removed, or a backup brought back over it.
        return self._why_other_folder() or self._why_other_file() or ANOTHER

    def why_not_standing(self, file: StandingFile) -> str:
        """
        Look whether the name of an open file leads to it, where it may not be made anew.

        Raises:
            OSError: It cannot be seen.
        """
        place = file.place
        if place is None or file.identity is None or place.parent not in self._lasting:
            return ""
        if self._identity(place) == file.identity:
            return ""
        # It may have been renamed, removed or closed while it was looked at.
        if file.place != place or file not in self.files:
            return ""
        return OTHER_FILE.format(place.relative_to(self.root))

    @contextmanager
    def renaming(self, path: Path, target: Path | None = None) -> Iterator[None]:
        """A file gets the name `target`, or none: who has it open is not looked at meanwhile."""
        moved = [it for it in tuple(self.files) if it.place == path]
        replaced = [it for it in tuple(self.files) if target and it.place == target]
        for it in (*moved, *replaced):
            it.place = None
        try:
            yield
        except BaseException:
            for it in moved:
                it.place = path
            for it in replaced:
                it.place = target
            raise
        for it in moved:
            it.place = target

    def _is_locked_anew(self) -> bool:
        """
        Take the lock again where nothing but its name has gone.

        Not where there is another file of that name: whoever made it has, or had, the directory.
        """
        with self._locking:
            if self._lock.stands():
                return True
            if self._is_released or not self._is_root() or self._disk.exists(self._path):
                return False
            if self._why_other_folder() or any(map(self.why_not_standing, tuple(self.files))):
                return False
            try:
                lock = self._disk.lock(self._path)
            except OSError:  # BlockingIOError: somebody else was quicker.
                return False
            if not lock.stands() or not self._is_root():
                lock.release()
                return False
            self._lock.release()
            self._lock = lock
        logger.error(
            "%s was removed, by which a directory in use is told from one that is not; it was made"
            " anew, as all else is in its place and nobody had come. Never remove it: a second"
            " process would write over what this one stores",
            self._path,
        )
        return True

    def _is_root(self) -> bool:
        known = self._folders.get(self.root)
        return known is not None and self._identity(self.root) == known

    def _why_other_folder(self) -> str:
        for folder, known in tuple(self._folders.items()):
            if self._identity(folder) != known:
                if folder == self.root:
                    return ANOTHER
                return OTHER_FOLDER.format(folder.relative_to(self.root))
        return ""

    def _identity(self, path: Path) -> FileId | None:
        if self._names is None:
            return None
        try:
            return self._names.identity(path)
        except (FileNotFoundError, NotADirectoryError):
            return None

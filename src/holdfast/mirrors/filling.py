"""
Fill one mirror with what the others have, while they go on being written.

A mirror that is joining gets at once what is written to files that it has; files that it does not
have yet come one after another, in pieces. A piece is read and written while nobody writes. Also
what looks the same already is written: after a failed sync the cache shows what the disk does not
have, and a mirror that failed may have met just that.

Invariants:
    A file counts as had from the moment it exists with its full size; from then on each change
    of it comes to both.
    The mirror becomes active while nobody writes, with every file there is, all of them synced.

`step` is a plain function; one thread calls it.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar, cast

from holdfast.environment.disk import Disk, DiskFile
from holdfast.environment.standing_disk import LOOK_SECONDS, AwayError
from holdfast.mirrors.mirror import OWN_NAMES

if TYPE_CHECKING:
    from holdfast.mirrors.disk import MirroredDisk, MirroredFile
    from holdfast.mirrors.mirror import Mirror

PIECE_BYTES: Final = 512 * 1024
PIECE_BYTES_MIN: Final = 64 * 1024
_SLOW_SECONDS: Final = 0.1
"""A piece that takes longer is followed by a smaller one: whoever writes waits for it."""
_REMOVING_SECONDS: Final = 0.02
"""So long old files are removed at a time: whoever writes waits for it."""
THERE_SECONDS_MAX: Final = 10.0
"""Nobody writes while a piece is copied: a mirror that takes longer for it has failed."""
SYNC_SECONDS_MAX: Final = 120.0
"""For the sync of a whole file, for which nobody waits."""

T = TypeVar("T")
Rescued = Callable[[tuple[Path, Disk], tuple[Path, Disk]], list[tuple[int, bytes]]]
"""What the second of two copies of a file has whole and the first has not: where, and the bytes."""

logger = logging.getLogger("holdfast.mirrors")


def files_below(disk: Disk, top: Path) -> list[Path]:
    """
    Return every file of a data directory, but for those that each mirror has of its own.

    What may not be listed (the `lost+found` of a file system of its own) is left out.
    """
    found: list[Path] = []
    waiting = [top]
    while waiting:
        directory = waiting.pop()
        try:
            names = disk.list_directory(directory)
        except PermissionError:
            continue
        except (NotADirectoryError, FileNotFoundError):
            if directory != top:
                found.append(directory)
            continue
        waiting += [
            directory / name for name in names if not (directory == top and name in OWN_NAMES)
        ]
    return sorted(found)


class Filling:
    """Fills one mirror of a disk."""

    def __init__(
        self,
        disk: MirroredDisk,
        mirror: Mirror,
        rescued: Rescued,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.mirror = mirror
        self._clock = clock
        self._piece_bytes = PIECE_BYTES
        self._rescued = rescued
        self._disk = disk
        self._waiting: list[Path] | None = None
        self._old: list[Path] = []
        """What is there that the others have not, to be removed before anything is copied."""
        self._old_folders: set[Path] = set()
        self._source: MirroredFile | None = None
        self._target: DiskFile | None = None
        self._offset = 0

    @property
    def is_over(self) -> bool:
        """There is nothing more to do: it is active, or failed."""
        return self.mirror.state != "joining"

    def step(self) -> int:
        """
        Copy one piece, or do what comes next; gives how many bytes that was.

        A mirror that cannot be written to fails; it is told by its state.
        """
        if self.is_over:
            self._close()
            return 0
        try:
            if self._waiting is None:
                self._begin()
            elif self._old:
                self._remove_some()
            elif self._source is not None:
                return self._copy_piece()
            elif self._waiting:
                self._begin_file(self._waiting.pop())
            else:
                self._finish()
        except OSError as error:
            self._close()
            if isinstance(error, AwayError) and self._disk.is_none_there():
                # No fault of its own: once what it is filled from is back it begins anew.
                self._waiting, self._old = None, []
                self._disk.rest(LOOK_SECONDS)
            else:
                self._disk.keeper.fail({self.mirror: error})
        return 0

    def _begin(self) -> None:
        """See what there is to copy, and what is there beyond it."""
        disk, mirror = self._disk, self.mirror
        with disk.gate.alone():
            mirror.have.clear()
            wanted = self._wanted()
        # From here on others make files there: those are had, and no old ones.
        self._old = self._there(lambda: self._beyond(set(wanted)), seconds_max=SYNC_SECONDS_MAX)
        self._old_folders = {path.parent for path in self._old}
        self._waiting = wanted
        mirror.bytes_filled = 0
        mirror.bytes_to_fill = sum(map(self._size_of, wanted))
        logger.warning("filling mirror %s: %d files", mirror.directory, len(wanted))

    def _beyond(self, wanted: set[Path]) -> list[Path]:
        """Give the files that are there and are not wanted, by their names on the disk."""
        disk, mirror = self._disk, self.mirror
        mirror.disk.make_directory(mirror.directory / "journal")
        there = files_below(mirror.disk, mirror.directory)
        named = [disk.base / path.relative_to(mirror.directory) for path in there]
        return [path for path in named if path not in wanted]

    def _remove_some(self) -> None:
        """
        Remove old files for as long as others may wait, and make that durable after the last.

        Alone, so that none is made anew meanwhile by its name: one that was is no old one.
        """
        with self._disk.gate.alone():
            self._there(self._remove_for_a_while)
        if not self._old:
            self._there(self._sync_old_folders, seconds_max=SYNC_SECONDS_MAX)

    def _remove_for_a_while(self) -> None:
        mirror, began = self.mirror, self._clock()
        while self._old and self._clock() - began < _REMOVING_SECONDS:
            path = self._old.pop()
            if path not in mirror.have:
                mirror.disk.unlink(mirror.here(path))

    def _sync_old_folders(self) -> None:
        for folder in self._old_folders:
            self.mirror.disk.sync_directory(self.mirror.here(folder))

    def _there(self, act: Callable[[], T], *, seconds_max: float = THERE_SECONDS_MAX) -> T:
        """
        Do this on the mirror that is filled; one that hangs holds nobody up for longer.

        Raises:
            OSError: It failed, or did not answer in time.
        """
        ((result, error),) = self._disk.keeper.lanes.within(
            seconds_max, [(self.mirror.member, act)]
        )
        if error is not None:
            raise error
        return cast("T", result)

    def _wanted(self) -> list[Path]:
        """Return the files that it does not have, those to be copied first last."""
        source = next(iter(self._disk.keeper.active))
        paths = files_below(source.disk, source.directory)
        named = [self._disk.base / path.relative_to(source.directory) for path in paths]
        return [path for path in reversed(named) if path not in self.mirror.have]

    def _size_of(self, path: Path) -> int:
        try:
            file = self._disk.open(path, writable=False)
        except OSError:
            return 0
        try:
            return file.size()
        finally:
            file.close()

    def _rescue(self, path: Path) -> None:
        """Take what the mirror to be filled has whole, and the others have not, before it goes."""
        disk, mirror = self._disk, self.mirror
        source = next(iter(disk.keeper.active))
        if path in mirror.have or not self._there(lambda: mirror.disk.exists(mirror.here(path))):
            return
        places = (source.here(path), source.disk), (mirror.here(path), mirror.disk)
        for offset, data in self._there(
            lambda: self._rescued(*places), seconds_max=SYNC_SECONDS_MAX
        ):
            disk.put_right(path, offset, data)

    def _begin_file(self, path: Path) -> None:
        disk, mirror = self._disk, self.mirror
        self._rescue(path)
        with disk.gate.alone():
            if path in mirror.have:
                return  # made anew meanwhile
            try:
                source = disk.open(path, writable=False)
            except FileNotFoundError:
                return  # gone meanwhile
            self._source = source
            self._target = self._there(lambda: self._open_there(path, source.size()))
            mirror.have.add(path)
        self._offset = 0

    def _open_there(self, path: Path, size: int) -> DiskFile:
        mirror = self.mirror
        here = mirror.here(path)
        mirror.disk.make_directory(here.parent)
        target = mirror.disk.open(here, create=True)
        if target.size() != size:
            target.truncate(size)
        return target

    def _copy_piece(self) -> int:
        target = self._target
        assert self._source is not None and target is not None, "a file is being copied"
        with self._disk.gate.alone():
            began = self._clock()
            data = self._source.read(self._piece_bytes, self._offset)
            if data:
                self._there(lambda: target.write(data, self._offset))
            is_slow = self._clock() - began > _SLOW_SECONDS
        wanted = self._piece_bytes // 2 if is_slow else self._piece_bytes * 2
        self._piece_bytes = min(max(wanted, PIECE_BYTES_MIN), PIECE_BYTES)
        self._offset += len(data)
        self.mirror.bytes_filled += len(data)
        if not data:
            self._there(target.sync, seconds_max=SYNC_SECONDS_MAX)
            self._close()
        return len(data)

    def _finish(self) -> None:
        disk, mirror = self._disk, self.mirror
        with disk.gate.alone():
            left = self._wanted()
            if left:
                self._waiting = left  # made by a rename from what it did not have
                return
            self._there(self._sync_directories)
            disk.keeper.change({mirror.member: "active"})
            mirror.have.clear()
        logger.warning("mirror %s has everything again", mirror.directory)

    def _sync_directories(self) -> None:
        mirror = self.mirror
        for directory in {path.parent for path in mirror.have} | {self._disk.base}:
            mirror.disk.sync_directory(mirror.here(directory))

    def _close(self) -> None:
        if self._source is not None:
            self._source.close()
        if self._target is not None:
            self._disk.let_go(self.mirror, self._target)
        self._source = self._target = None

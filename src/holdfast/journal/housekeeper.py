"""
Slow work on segment files, out of the writer's way: fill spare ones with zeros, remove old ones.

Rolling must never wait for 64 MiB of zeros, so a spare file is filled ahead of use at a bounded
rate. Removing a large file takes milliseconds, which would delay a sync. Both happen here.

Invariants:
    A spare is offered only after it is full of zeros and synced.
    Files are removed oldest first, each name durably gone before the next.
    Before a file of the log goes it is durable that the log no longer begins with it: a file that
    is missing without that was lost, and one that is still there is no part of the log (see
    `scan`). What goes from elsewhere says nothing of where the log begins.
    A file that cannot be removed costs its room and nothing else: the others go, and it is tried
    again. Only a note that speaks of files waits until all of them are gone, under a name that
    tells that they are going. Where it can be
    renamed it gets a spare's name meanwhile, so that no log that is begun anew finds it in its way.
    A name of the log that is to be removed is one of the present log: before another is begun, and
    may give the name again, all that is left of this one is put aside (`clear_away`).
    A full disk is no failure here: it is tried again, and `is_out_of_space` tells meanwhile. Nor is
    a file that cannot be opened because too many are open: that is waited out.
    Any other failed write or sync ends all work on the disk, the writer's too. The kernel tells of
    a failed sync once: whoever syncs the directory next would hear that all is well, although the
    name of its own new segment was lost by the first. So each such sync holds `directory_lock`.

One thread runs `turn`; `take_spare` and `drop` may be called from any other.
"""

from __future__ import annotations

import errno
import logging
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Final, NamedTuple

from holdfast.environment.descriptors import is_out_of_descriptors
from holdfast.environment.disk import Disk, DiskFile, NoRoomError, fill_zeros, is_no_room
from holdfast.journal.segment import base_index_of
from holdfast.journal.settings import JournalSettings, MiB

SPARE_PREFIX: Final = "spare-"
SPARE_SUFFIX: Final = ".tmp"

_CHUNK_BYTES: Final = 1 * MiB
# Synced in steps, so that no single sync holds up the writer's for long.
_SYNC_BYTES: Final = 8 * MiB
_RETRY_SECONDS: Final = 1.0

logger = logging.getLogger("holdfast.journal")


def put_aside(disk: Disk, path: Path) -> Path:
    """
    Give a file that is no part of the log any more a spare's name; return that.

    Every start removes what bears such a name, or lets the housekeeper try. So once the directory
    is synced this is as good as removing the file, and a file system that refuses that may still
    allow it. Where it is the other way round the file is removed.

    Raises:
        OSError: Neither can be done.
    """
    aside = aside_path(disk, path)
    try:
        disk.rename(path, aside)
    except FileNotFoundError:
        pass
    except OSError as error:
        try:
            disk.unlink(path)
        except OSError:
            raise error from None
    return aside


def aside_path(disk: Disk, path: Path) -> Path:
    """Return a spare's name that a file of the log may have."""
    number = 0
    while True:
        aside = path.with_name(f"{SPARE_PREFIX}{path.stem}-{number}{SPARE_SUFFIX}")
        if not disk.exists(aside):
            return aside
        number += 1


class Note(NamedTuple):
    """What speaks of files that are to be removed: its name, and that once they go."""

    path: Path
    retired: Path


class _Doomed(NamedTuple):
    """
    A file to be removed: from where on the log is kept without it, and what must go before.

    With `retired` it only gets that name.
    """

    path: Path
    first_index: int
    after: tuple[Path, ...] = ()
    retired: Path | None = None


class Housekeeper:
    """Keeps spare segment files ready and removes dropped ones."""

    def __init__(self, directory: Path, disk: Disk, settings: JournalSettings) -> None:
        self._directory = directory
        self._disk = disk
        self._settings = settings
        self._spares: deque[Path] = deque()
        self._doomed: deque[_Doomed] = deque()
        self._refused: list[_Doomed] = []
        """Could not be removed; tried again once there is nothing else to do."""
        self.unremovable: set[Path] = set()
        """Files that should be gone and could not be removed when it was last tried."""
        self._filling: tuple[Path, DiskFile] | None = None
        self._filled = 0
        self._number = 0
        self._wake = threading.Event()
        self._is_stopping = threading.Event()
        self._thread: threading.Thread | None = None
        self.is_driven = False
        """Without a thread: somebody takes its turns, as the thread would."""
        self.is_out_of_space = False
        """A spare could not be made because the disk is full."""
        self.is_out_of_descriptors = False
        """A file could not be opened because too many are; tried again."""
        self.directory_lock = threading.Lock()
        self.log_lock = threading.Lock()
        """Held while it is changed what is to be removed, and by who removes: never in another."""
        self.failure: OSError | None = None
        """The first failed write or sync here; final."""
        self.note_first: Callable[[int], None] = lambda _index: None
        """Keeps durably from which entry on the log is kept, before a file goes."""
        self.on_failure: Callable[[OSError], None] = lambda _error: None
        """Told of it at once, in the thread in which it happened."""

    @property
    def spare_count(self) -> int:
        """How many spare files are ready."""
        return len(self._spares)

    def new_path(self) -> Path:
        """Return a name for a file that is not a segment yet."""
        while True:
            self._number += 1
            path = self._directory / f"{SPARE_PREFIX}{self._number:06d}{SPARE_SUFFIX}"
            if not self._disk.exists(path):  # One of an earlier life may not have gone.
                return path

    def take_spare(self) -> Path | None:
        """Hand out a file of `segment_bytes` zeros, durable; None if none is ready."""
        try:
            path = self._spares.popleft()
        except IndexError:
            path = None
        self._wake.set()
        return path

    def sync_directory(self) -> None:
        """
        Make the names of the log's files durable.

        Raises:
            OSError: It failed, or an earlier sync of the housekeeper did and may have covered them.
        """
        with self.directory_lock:
            if self.failure is not None:
                raise self.failure
            self._disk.sync_directory(self._directory)

    def drop(self, paths: list[Path], first_index: int, *, note: Note | None = None) -> None:
        """
        Remove these files, oldest first; at once if nobody takes turns for that.

        From `first_index` on the log is kept: that is made durable before the first of its files
        goes. `note` is retired before any of them, and goes last, not before all are gone.
        """
        doomed = [_Doomed(path, first_index) for path in paths]
        if note is not None:
            doomed.insert(0, _Doomed(note.path, first_index, retired=note.retired))
            doomed.extend(_Doomed(name, first_index, tuple(paths)) for name in note)
        self._doomed.extend(doomed)
        if self._thread is None and not self.is_driven:
            self._take_up_refused()
            while self._doomed and self._remove_one():
                pass
        self._wake.set()

    def take_out(self, path: Path) -> None:
        """
        Take a file out of the log, durably, and remove it when there is time. For the writer.

        Raises:
            OSError: It can neither be renamed nor removed, or its name not be made durable.
        """
        if self._disk.exists(path):
            aside = put_aside(self._disk, path)
            self.sync_directory()
            self.drop([aside], 0)

    def discard(self, path: Path) -> None:
        """Remove a file that nothing rests on; if that is refused, some time later."""
        try:
            self._disk.unlink(path)
        except OSError:
            self.drop([path], 0)

    def clear_away(self, keep: set[str], base_index: int) -> None:
        """
        Take every file out of the log's directory before a log is begun at `base_index`.

        But for those to `keep`, which have their own way. What still waits to be removed is among
        them: the new log may give its name again. A file before `base_index` that cannot be moved
        may stay: what comes before the log is no part of it.

        Raises:
            OSError: Another one can neither be renamed nor removed.
        """
        with self.log_lock:
            for queue in (self._doomed, self._refused):
                for doomed in list(queue):
                    if self._is_of_the_log(doomed.path):
                        queue.remove(doomed)
                        self.unremovable.discard(doomed.path)
        moved, stuck = [], []
        for name in self._disk.list_directory(self._directory):
            base = base_index_of(name)
            if base is None or name in keep:
                continue
            path = self._directory / name
            try:
                moved.append(put_aside(self._disk, path))
            except OSError as error:
                if base >= base_index:
                    raise
                logger.warning("cannot move %s, no part of the log any more: %s", path, error)
                stuck.append(path)
        if moved:
            self.sync_directory()
        self.drop([*moved, *stuck], 0)

    def _is_of_the_log(self, path: Path) -> bool:
        return path.parent == self._directory and base_index_of(path.name) is not None

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, name="journal-housekeeper", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop the thread, finish removals, throw spare files away."""
        if self._thread is not None:
            self._is_stopping.set()
            self._wake.set()
            self._thread.join()
            self._thread = None
        self.is_driven = False
        self.drop([], 0)
        self._abandon_filling()
        while self._spares:
            self.discard(self._spares.popleft())

    def turn(self) -> bool:
        """Do one small step; return whether there is more to do now."""
        if self.failure is not None:
            return False
        if self._doomed:
            return self._remove_one()
        if self._filling is None and len(self._spares) >= self._settings.spare_segments:
            self._take_up_refused()
            return False
        try:
            self._fill_one_chunk()
        except OSError as error:
            if is_out_of_descriptors(error):
                self._filling = None  # nothing was opened
                self._wait_for_descriptors(error)
                return False
            if not is_no_room(error):
                self._fail(error)
                return False
            self._abandon_filling()
            self._take_up_refused()
            if not self.is_out_of_space:
                logger.warning("cannot prepare the next segment: %s", error)
            self.is_out_of_space = True
            return False
        return True

    def _run(self) -> None:
        pause = _CHUNK_BYTES / self._settings.fill_bytes_per_second
        while not self._is_stopping.is_set():
            self._wake.clear()
            if self.turn():
                # A take or a drop may come meanwhile; neither needs a faster fill.
                self._is_stopping.wait(pause)
            elif self.is_out_of_space or self.is_out_of_descriptors or self._doomed:
                self._wake.wait(_RETRY_SECONDS)
            else:
                self._wake.wait()

    def _fill_one_chunk(self) -> None:
        if self._filling is None:
            path = self.new_path()
            if self._disk.free_bytes(self._directory) < self._settings.segment_bytes:
                # Else each try would take the last room from the writer.
                raise NoRoomError(errno.ENOSPC, "no room for another segment")
            self._filling = (path, self._disk.open(path, create=True))
            self._filled = 0
            self.is_out_of_descriptors = False
        path, file = self._filling
        end = min(self._filled + _CHUNK_BYTES, self._settings.segment_bytes)
        fill_zeros(file, self._filled, end)
        self._filled = end
        is_full = end == self._settings.segment_bytes
        if is_full or end % _SYNC_BYTES == 0:
            file.sync()
        if is_full:
            file.close()
            self._filling = None
            self.is_out_of_space = False
            self._spares.append(path)

    def _abandon_filling(self) -> None:
        if self._filling is not None:
            path, file = self._filling
            self._filling = None
            file.close()
            self.discard(path)

    def _remove_one(self) -> bool:
        """Remove the oldest; false if that must be tried again later."""
        with self.log_lock:
            return not self._doomed or self._remove(self._doomed.popleft())

    def _remove(self, doomed: _Doomed) -> bool:
        path = doomed.path
        if self.failure is not None:
            return True
        if not self.unremovable.isdisjoint(doomed.after):
            self._refused.append(doomed)
            return True
        if doomed.retired is not None:
            return self._retire(doomed, doomed.retired)
        if self._is_of_the_log(path):
            # Only these: by the time another file goes, the log may be begun elsewhere.
            try:
                self.note_first(doomed.first_index)
            except OSError as error:
                return self._is_given_up(doomed, error)
        try:
            self._disk.unlink(path)
        except OSError as error:
            # Space is not freed, nothing is lost: the next start finds the file again.
            if path not in self.unremovable:
                logger.warning("cannot remove %s, trying again: %s", path, error)
            return self._leave(doomed)
        if path in self.unremovable:
            self.unremovable.discard(path)
            logger.warning("%s is removed after all", path)
        return self._make_durable(doomed)

    def _retire(self, doomed: _Doomed, retired: Path) -> bool:
        """Give a note the name that says that its files are going."""
        try:
            self._disk.rename(doomed.path, retired)
        except FileNotFoundError:
            pass  # It has it; perhaps not durably yet.
        except OSError as error:
            # The files go all the same: they take more room than the note is worth.
            logger.warning("cannot rename %s: %s", doomed.path, error)
            return True
        return self._make_durable(doomed)

    def _leave(self, doomed: _Doomed) -> bool:
        """Keep a file that cannot be removed out of the log's way, and try again later."""
        path = doomed.path
        if self._is_of_the_log(path):
            aside = aside_path(self._disk, path)
            try:
                self._disk.rename(path, aside)
            except OSError:
                pass  # It stays no part of the log, by the first index.
            else:
                self.unremovable.discard(path)
                doomed = doomed._replace(path=aside)
        self.unremovable.add(doomed.path)
        self._refused.append(doomed)
        return doomed.path == path or self._make_durable(doomed)

    def _make_durable(self, doomed: _Doomed) -> bool:
        """Sync the names in the directory of a file that went."""
        try:
            with self.directory_lock:
                try:
                    self._disk.sync_directory(doomed.path.parent)
                except OSError as error:
                    if not is_out_of_descriptors(error):
                        self.failure = error  # before anybody else may sync
                    raise
        except OSError as error:
            # Without a descriptor no sync was tried. The next file may not go before this name is
            # durably gone.
            return self._is_given_up(doomed, error)
        self.is_out_of_descriptors = False
        return True

    def _take_up_refused(self) -> None:
        """Let what could not be removed be tried again, by the next turn."""
        with self.log_lock:  # Else the writer, clearing the log away, might find it in neither.
            self._doomed.extend(self._refused)
            self._refused.clear()

    def _is_given_up(self, doomed: _Doomed, error: OSError) -> bool:
        """Put a removal off that found no descriptor or room; anything else fails for good."""
        if isinstance(error, NoRoomError):  # of the ballot, where file systems copy on write
            self._refused.append(doomed)
            return True
        if is_out_of_descriptors(error):
            self._doomed.appendleft(doomed)
            self._wait_for_descriptors(error)
            return False
        self._fail(error)
        return True

    def _wait_for_descriptors(self, error: OSError) -> None:
        if not self.is_out_of_descriptors:
            logger.warning("waiting until a file can be opened: %s", error)
        self.is_out_of_descriptors = True

    def _fail(self, error: OSError) -> None:
        self.failure = error
        self._doomed.clear()
        self._refused.clear()
        self.on_failure(error)

"""
A disk that fans out: what is written goes to every mirror, what is read comes from one of them.

To whoever uses it, it is one disk with one directory, the first that was given: files are named as
they would stand there. A mirror that fails is left behind; the others go on once it is durable on
all of them that they go on without it.

Invariants:
    A call that changes something returns when it is done on every active mirror of a set that
    stands; so what the caller then confirms is on all of them.
    One mirror that is full is none that failed: the caller hears that there is no room, as it does
    of a single disk, and writes the same again later, on all.
    If all mirrors fail alike, the call fails as it would on a single disk.
    A mirror that is being filled is never read from.

Safe to use from any thread, as a disk is.
"""

from __future__ import annotations

import errno
import logging
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from holdfast.environment.bounded_disk import HangingError
from holdfast.environment.descriptors import is_out_of_descriptors
from holdfast.environment.disk import (
    DirectoryLock,
    DiskFile,
    NoRoomError,
    read_part,
    write_part,
)
from holdfast.environment.held_directory import ANOTHER
from holdfast.environment.standing_disk import AwayError
from holdfast.mirrors.away import Told, are_all_away, done_once_one_is_back
from holdfast.mirrors.gate import Gate
from holdfast.mirrors.lanes import Outcome, answer, attempt, first_failure, nobody_left
from holdfast.mirrors.set_file import FILE_NAME

if TYPE_CHECKING:
    from holdfast.mirrors.mirror import Mirror
    from holdfast.mirrors.set_keeper import SetKeeper

T = TypeVar("T")

ASK_SECONDS_MAX = 2.0
"""What every mirror is asked is waited for so long."""
MEND_SECONDS_MAX = 10.0
"""Good bytes that are written over bad ones are waited for so long."""

logger = logging.getLogger("holdfast.mirrors")


def is_the_disks_fault(error: BaseException) -> bool:
    """Whether a mirror of which this is heard is to be left behind, if others fared better."""
    if not isinstance(error, OSError) or isinstance(error, NoRoomError):
        return False
    return not is_out_of_descriptors(error)


class MirroredFile:
    """One open file, on every mirror that has it."""

    __slots__ = ("_disk", "_files", "_lock", "_writable", "path")

    def __init__(self, disk: MirroredDisk, path: Path, *, writable: bool) -> None:
        self._disk = disk
        self.path = path
        """Its name now: it may be renamed while it is open."""
        self._writable = writable
        self._files: dict[Mirror, DiskFile] = {}
        self._lock = threading.Lock()

    def on(self, mirror: Mirror) -> DiskFile:
        """
        Give the file on one mirror, opened if it is not.

        Raises:
            OSError: It cannot be opened.
        """
        file = self._files.get(mirror)
        if file is None:
            # Without the lock: one mirror that hangs must not hold up who asks another one.
            opened = mirror.disk.open(mirror.here(self.path), writable=self._writable)
            with self._lock:
                file = self._files.setdefault(mirror, opened)
            if file is not opened:
                opened.close()
        return file

    def take(self, mirror: Mirror, file: DiskFile) -> None:
        """Have this as the file on one mirror."""
        self._files[mirror] = file

    def read(self, count: int, offset: int) -> bytes:
        """Return up to `count` bytes from `offset`, from a mirror that can read them."""
        return self._disk.read(self, count, offset)

    def write(self, data: bytes, offset: int) -> None:
        """Write all of `data` at `offset`; OSError if not, NoRoomError where that is why."""
        self._disk.everywhere(self.path, lambda it: self.on(it).write(data, offset))

    def write_durable(self, buffers: Sequence[bytes], offset: int) -> None:
        """Write all buffers one after the other from `offset`; durable on all when it returns."""
        self._disk.everywhere(self.path, lambda it: self.on(it).write_durable(buffers, offset))

    def sync(self) -> None:
        """Make everything written to this file so far durable."""
        self._disk.everywhere(self.path, lambda it: self.on(it).sync())

    def truncate(self, size: int) -> None:
        """Cut or extend the file to `size` bytes; durable after `sync`."""
        self._disk.everywhere(self.path, lambda it: self.on(it).truncate(size))

    def forget_cached(self) -> None:
        """Ask for later reads to come from the disks themselves; only a wish."""
        for mirror, file in list(self._files.items()):
            if not self._disk.is_slow(mirror):
                file.forget_cached()

    def size(self) -> int:
        """Return the bytes in the file."""
        return self._disk.from_one(lambda it: self.on(it).size())

    def close(self) -> None:
        """Give the handles back; they must not be used again."""
        self._disk.closed(self)
        with self._lock:
            files, self._files = self._files, {}
        for mirror, file in files.items():
            if mirror.state != "failed" or not self._disk.is_hanging(mirror):
                self._disk.let_go(mirror, file)


class _Locks:
    """The locks of all mirrors, as one."""

    def __init__(self, disk: MirroredDisk, locks: list[DirectoryLock]) -> None:
        self._disk = disk
        self._locks = locks

    def release(self) -> None:
        """Let others have the directories."""
        self._disk.close()
        for lock in self._locks:
            lock.release()
        self._locks.clear()

    def stands(self) -> bool:
        """Tell whether each directory is where its path leads to."""
        return all(lock.stands() for lock in self._locks)


class MirroredDisk:
    """Several directories as one."""

    def __init__(self, base: Path, keeper: SetKeeper, locks: list[DirectoryLock]) -> None:
        self.base = base
        self.keeper = keeper
        self.gate = Gate()
        self.mended_total = 0
        """Pieces that were written again on a mirror because another one had them right."""
        self._lanes = keeper.lanes
        self._locks = _Locks(self, locks)
        self._open: set[MirroredFile] = set()
        self._free_bytes = 0
        """What was told last: who asks may not wait until a directory is back."""
        self.on_close: Callable[[], None] = lambda: None
        self.rest: Callable[[float], None] = time.sleep
        """Lets time pass while no directory is where its path leads to."""

    # As a disk.

    def open(self, path: Path, *, create: bool = False, writable: bool = True) -> MirroredFile:
        """Open a file; FileNotFoundError if it is missing and `create` is false."""
        file = MirroredFile(self, path, writable=writable)
        if not writable:
            self.from_one(file.on)
        else:
            self._open_everywhere(file, create=create)
        self._open.add(file)
        return file

    def exists(self, path: Path) -> bool:
        """Tell whether a file or directory has this name."""
        return self._told_by_one(lambda it: it.disk.exists(it.here(path)))

    def make_directory(self, path: Path) -> None:
        """Create a directory and its parents, durably; fine if it is there already."""

        def make(mirror: Mirror) -> None:
            # Where a mirror's directory is gone, or its disk not mounted any more, nothing is made.
            if mirror.is_active and not mirror.disk.exists(mirror.directory / FILE_NAME):
                raise FileNotFoundError(errno.ENOENT, ANOTHER)
            mirror.disk.make_directory(mirror.here(path))

        self._in_each(make)

    def list_directory(self, path: Path) -> list[str]:
        """Return the sorted names in a directory."""
        return self._told_by_one(lambda it: it.disk.list_directory(it.here(path)))

    def rename(self, source: Path, target: Path) -> None:
        """Rename, replacing `target`; durable after `sync_directory` of the parent."""

        def rename(mirror: Mirror) -> None:
            if mirror.takes(source):
                mirror.disk.rename(mirror.here(source), mirror.here(target))
                if not mirror.is_active:
                    mirror.have.discard(source)
                    mirror.have.add(target)
            elif target in mirror.have:
                mirror.have.discard(target)  # What replaces it comes when it is copied.
                mirror.disk.unlink(mirror.here(target))

        self._in_each(rename, is_tried_again=False)
        for file in [it for it in list(self._open) if it.path == source]:
            file.path = target

    def unlink(self, path: Path) -> None:
        """Remove a file, fine if it is gone already; durable after `sync_directory`."""

        def unlink(mirror: Mirror) -> None:
            if mirror.takes(path):
                mirror.disk.unlink(mirror.here(path))
                mirror.have.discard(path)

        self._in_each(unlink, is_tried_again=False)

    def sync_directory(self, path: Path) -> None:
        """Make the names in this directory durable."""

        def sync(mirror: Mirror) -> None:
            if mirror.is_active or mirror.disk.exists(mirror.here(path)):
                mirror.disk.sync_directory(mirror.here(path))

        self._in_each(sync)

    def free_bytes(self, path: Path) -> int:
        """Return how much may still be written to the fullest; as it was while all are away."""
        told = self._told_by_each(lambda it: it.disk.free_bytes(it.here(path)))
        found: list[int] = [free for free, error in told.values() if error is None]
        if found:  # else the next write to those that did not tell finds out
            self._free_bytes = min(found)
        elif not are_all_away((tuple(told), list(told.values()))):
            raise first_failure(told.values())
        return self._free_bytes

    def lock(self, path: Path) -> DirectoryLock:
        """Give the locks of all mirrors, which were taken before anything of them was read."""
        assert path == self.base / "lock"
        return self._locks

    def readable_path(self, path: Path) -> Path:
        """Where a file can be read by its name: on the first mirror that is well."""
        readers = self._readers()
        return readers[0].here(path) if readers else path

    def mend(
        self, path: Path, offset: int, count: int, is_good: Callable[[bytes], bool]
    ) -> bytes | None:
        """
        Look at every copy of these bytes, and write those that are not good again by one that is.

        Gives the good bytes; None if no copy is good, or there is but one mirror.
        """
        if len(self.keeper.active) < 2:
            return None
        told = self._told_by_each(lambda it: read_part(it.disk, it.here(path), count, offset))
        copies: dict[Mirror, bytes | None] = {
            it: copy if error is None else None
            for it, (copy, error) in told.items()
            if not isinstance(error, HangingError)
        }
        good = next((it for it in copies.values() if it is not None and is_good(it)), None)
        if good is None:
            return None
        for mirror, copy in copies.items():
            if copy != good:
                self._write_again(mirror, path, offset, good)
        return good

    # For its files, and for who fills mirrors.

    def everywhere(self, path: Path, act: Callable[[Mirror], None]) -> None:
        """Do it on every mirror that has this file."""
        self._in_each(lambda it: act(it) if it.takes(path) else None)

    def from_one(self, act: Callable[[Mirror], T]) -> T:
        """Ask one mirror, or the next if that one cannot tell, or is slow to."""
        readers = self._readers()
        answers = self._lanes.ask([(it.member, partial(act, it)) for it in readers])
        return cast("T", answer(answers))

    def _told_by_one(self, act: Callable[[Mirror], T]) -> T:
        """As `from_one`; while no directory is where its path leads to, wait until one is."""
        while True:
            try:
                return self.from_one(act)
            except AwayError:
                done_once_one_is_back(lambda: self._asked(act), self.rest)

    def _asked(self, act: Callable[[Mirror], Any]) -> Told:
        told = self._told_by_each(act)
        return tuple(told), list(told.values())

    def read(self, file: MirroredFile, count: int, offset: int) -> bytes:
        """Read from one mirror; what it cannot read is written again there by another's copy."""

        def read(mirror: Mirror) -> bytes:
            return file.on(mirror).read(count, offset)

        readers = self._readers()
        answers = self._lanes.ask([(it.member, partial(read, it)) for it in readers])
        data: bytes = answer(answers)
        for place, (_, why) in answers[:-1]:
            if isinstance(why, OSError) and why.errno == errno.EIO:
                self._write_again(readers[place], file.path, offset, data)
        return data

    def let_go(self, mirror: Mirror, file: DiskFile) -> None:
        """Close a file of one mirror, later where it is slow."""
        if self.is_slow(mirror):
            self._lanes.leave(mirror.member, file.close)
            return
        with suppress(OSError):
            file.close()

    def is_slow(self, mirror: Mirror) -> bool:
        """Whether something is being done there that takes long."""
        return self._lanes.is_slow(mirror.member)

    def on_each(self, act: Callable[[Path], None]) -> list[Outcome]:
        """Do it for the directory of each active mirror; none is waited for for long."""
        return list(self._told_by_each(lambda it: act(it.directory)).values())

    def is_none_there(self) -> bool:
        """Whether no active mirror is where its path leads to; none is waited for for long."""
        return are_all_away(self._asked(lambda it: it.disk.exists(it.directory)))

    def put_right(self, path: Path, offset: int, data: bytes) -> None:
        """Write these bytes, known to be the right ones, where an active mirror has others."""
        told = self._told_by_each(lambda it: read_part(it.disk, it.here(path), len(data), offset))
        for mirror, (copy, error) in told.items():
            if copy != data and not isinstance(error, HangingError):
                self._write_again(mirror, path, offset, data)

    def closed(self, file: MirroredFile) -> None:
        """A file is being closed."""
        self._open.discard(file)

    def is_hanging(self, mirror: Mirror) -> bool:
        """Whether something is still under way there that was given up, or takes long."""
        hangs = mirror.is_under_way() or self._lanes.is_hanging(mirror.member)
        return hangs or self.is_slow(mirror)

    def close(self) -> None:
        """End what works for it; the directories stay locked."""
        self.on_close()
        self._lanes.close()

    def _told_by_each(self, act: Callable[[Mirror], Any]) -> dict[Mirror, Outcome]:
        """Ask all active mirrors; one that is slow has a HangingError, while others are not."""
        active = self.keeper.active
        if len(active) < 2:
            return {it: attempt(partial(act, it)) for it in active}
        quick = [it for it in active if not self.is_slow(it)] or list(active)
        outcomes = self._lanes.within(
            ASK_SECONDS_MAX, [(it.member, partial(act, it)) for it in quick]
        )
        told: dict[Mirror, Outcome] = {it: (None, HangingError(0)) for it in active}
        return told | dict(zip(quick, outcomes, strict=True))

    def _readers(self) -> list[Mirror]:
        """The active mirrors, those that are slow now last."""
        active = self.keeper.active
        if len(active) < 2:
            return list(active)
        return sorted(active, key=lambda it: self._lanes.is_slow(it.member))

    def _open_everywhere(self, file: MirroredFile, *, create: bool) -> None:
        path = file.path
        is_joining = any(it.state == "joining" for it in self.keeper.targets)
        # What is there already comes to a mirror that is joining when it is copied, and whole.
        is_new = create and is_joining and not self.exists(path)

        def open_on(mirror: Mirror) -> None:
            if is_new and mirror.state == "joining":
                mirror.disk.make_directory(mirror.here(path.parent))
                if path not in mirror.have:
                    mirror.disk.unlink(mirror.here(path))  # An old one that is yet to be removed.
                mirror.have.add(path)
            if mirror.takes(path):
                file.take(mirror, mirror.disk.open(mirror.here(path), create=create))

        try:
            self._in_each(open_on, missing_is_told=True)
        except FileNotFoundError:
            file.close()
            # One may be removing it, and has come to some mirrors only: wait until that is over.
            with self.gate.alone():
                told = self._told_by_each(lambda it: it.disk.exists(it.here(path)))
                targets = [it for it, (is_there, _) in told.items() if is_there]
                lost = [it for it in self.keeper.active if it not in targets]
            if not targets:
                raise
            self.keeper.fail(dict.fromkeys(lost, f"{path.name} is missing there"))
            self._in_each(open_on)
        except BaseException:
            file.close()
            raise

    def _in_each(
        self,
        act: Callable[[Mirror], None],
        *,
        is_tried_again: bool = True,
        missing_is_told: bool = False,
    ) -> None:
        self.gate.enter()
        try:
            targets, outcomes = told = self._tried(act)
            if are_all_away(told):
                targets, outcomes = done_once_one_is_back(lambda: self._tried(act), self.rest)
            for _, error in outcomes:
                if error is not None:
                    break
            else:
                if targets is self.keeper.targets and not self.keeper.is_lost:
                    return
            if missing_is_told:
                for _, error in outcomes:
                    if isinstance(error, FileNotFoundError):
                        raise error
            self._judge(targets, outcomes, is_tried_again=is_tried_again)
        finally:
            self.gate.leave()

    def _tried(self, act: Callable[[Mirror], None]) -> Told:
        targets = self.keeper.targets
        return targets, self._lanes.run([(it.member, partial(act, it)) for it in targets])

    def _judge(
        self, targets: tuple[Mirror, ...], outcomes: list[Outcome], *, is_tried_again: bool
    ) -> None:
        """
        Leave those behind that failed where others did not.

        Raises:
            OSError: It failed on all that are active, or there was no room on one.
        """
        told = list(zip(targets, outcomes, strict=True))
        errors = {it: error for it, (_, error) in told if error is not None}
        for error in errors.values():
            if not isinstance(error, OSError):
                raise error
        active = [it for it in targets if it.is_active]
        is_done = any(it not in errors for it in active)
        at_fault = {
            it: error
            for it, error in errors.items()
            if is_the_disks_fault(error) or not it.is_active or (is_done and not is_tried_again)
        }
        refused = [errors[it] for it in active if it in errors and it not in at_fault]
        if not is_done and not refused:
            # On all alike, or nobody is left: as on a single disk.
            raise next((errors[it] for it in active), nobody_left())
        self.keeper.fail(at_fault)
        if refused:
            raise refused[0]

    def _write_again(self, mirror: Mirror, path: Path, offset: int, data: bytes) -> None:
        """Put good bytes in the place of bad ones; a mirror that refuses is left behind."""
        write = partial(write_part, mirror.disk, mirror.here(path), data, offset)
        ((_, error),) = self._lanes.within(MEND_SECONDS_MAX, [(mirror.member, write)])
        if isinstance(error, FileNotFoundError):
            return  # dropped meanwhile; if not, the next write to it tells
        if error is not None:
            if is_the_disks_fault(error) and len(self.keeper.active) > 1:
                with suppress(OSError):  # Too few are left: whoever writes next hears of it.
                    self.keeper.fail({mirror: error})
            return
        self.mended_total += 1
        logger.error(
            "mended %s on mirror %s: %d bytes from byte %d by another mirror's copy",
            path.name,
            mirror.directory,
            len(data),
            offset,
        )

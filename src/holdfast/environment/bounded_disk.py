"""
A disk of which nobody waits longer than so long for an answer, as at a start.

A call that hangs inside the kernel cannot be taken back: it is left to end by itself, on a thread
of its own (`bounded`), and what asks until then is told at once. What it opens or locks by the time
that it ends is let go again.

Invariants:
    Each call ends, with what came of it or with HangingError.
    Nothing is begun there while an earlier call hangs.
    A lock or file that nobody was given is held by nobody.

For one thread at a time; slower than the disk by a change of threads for each call.
"""

from __future__ import annotations

import errno
import logging
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, Generic, Protocol, TypeVar

from holdfast.environment.bounded import BoundedCalls
from holdfast.environment.disk import DirectoryLock, Disk, DiskFile
from holdfast.environment.kept_errors import without_frames
from holdfast.environment.wrapped_disk import WrappedDisk, WrappedFile
from holdfast.errors import UnreachableError

LOOK_SECONDS: Final = 60.0
"""How long a disk is waited for at first: some have to spin up, some servers to come back."""

GLANCE_SECONDS: Final = 2.0
"""How long what is not needed yet is waited for."""

logger = logging.getLogger("holdfast.disk")

Result = TypeVar("Result")


class HangingError(OSError):
    """A disk has not answered for so long that it is given up."""

    def __init__(self, seconds: float) -> None:
        super().__init__(errno.ETIMEDOUT, f"it has not answered for {seconds:g} s")


def glance(act: Callable[[], Result], otherwise: Result) -> Result:
    """
    Do this, and give what came of it; something else where it takes longer than a moment.

    For what is looked at again where it matters, by somebody who waits and tells of it.
    """
    calls = BoundedCalls("disk-glance")
    asked = _Asked(act, None)
    try:
        calls.run(asked.make, GLANCE_SECONDS, "")
    except UnreachableError:
        return otherwise
    calls.close(lambda: None)
    return asked.given()


class Calls(Protocol):
    """Makes one call after the other, for callers who wait only so long."""

    def run(
        self,
        call: Callable[[], Result],
        seconds_max: float,
        what: str,
        told: Callable[[float], None] | None = None,
    ) -> Result:
        """Make a call and give what it gave; UnreachableError if it took longer."""
        ...

    def close(self, last: Callable[[], object]) -> None:
        """Make one more call, and end what makes them."""
        ...


class CallsInTurn:
    """Makes them in the caller's thread, however long that takes: for disks that never hang."""

    def run(
        self,
        call: Callable[[], Result],
        seconds_max: float,
        what: str,
        told: Callable[[float], None] | None = None,
    ) -> Result:
        """Make a call and give what it gave."""
        del seconds_max, what, told
        return call()

    def close(self, last: Callable[[], object]) -> None:
        """Make one more call."""
        last()


class _Asked(Generic[Result]):
    """One call that may come to nobody's ears."""

    __slots__ = ("_act", "_lock", "_undo", "is_begun", "is_given_up", "is_over", "outcome")

    def __init__(self, act: Callable[[], Result], undo: Callable[[Result], object] | None) -> None:
        self._act = act
        self._undo = undo
        self._lock = threading.Lock()
        self.is_begun = False
        self.is_over = False
        self.is_given_up = False
        self.outcome: tuple[Result | None, OSError | None] = None, None

    def make(self) -> None:
        """Do it; what came of it is undone where nobody waits any more."""
        self.is_begun = True
        result, error = None, None
        try:
            result = self._act()
        except OSError as found:
            error = without_frames(found)
        with self._lock:
            self.outcome = result, error
            self.is_over = True
        if self.is_given_up and error is None and self._undo is not None:
            self._undo(result)  # type: ignore[arg-type] # it is there: there is no error

    def given(self) -> Result:
        """Give what came of it, or raise that."""
        result, error = self.outcome
        if error is not None:
            raise error
        return result  # type: ignore[return-value] # it is there: there is no error

    def give_up(self) -> bool:
        """Wait no more, unless it is over at this moment; gives whether it was not."""
        with self._lock:
            self.is_given_up = not self.is_over
        return self.is_given_up


class BoundedDisk(WrappedDisk):
    """The disk of one directory, while it is not known yet whether it answers."""

    def __init__(self, disk: Disk, directory: Path, calls: Calls | None = None) -> None:
        super().__init__(disk)
        self.seconds = LOOK_SECONDS
        """How long each call is waited for."""

        self._directory = directory
        self._calls: Calls = BoundedCalls("disk-look") if calls is None else calls
        self.has_hung = False
        """A call was given up, though it may have ended since."""

        self._asked: _Asked[Any] | None = None
        self._is_left = False

    @property
    def unbounded(self) -> Disk:
        """The disk that it is made of."""
        return self._disk

    @property
    def is_hanging(self) -> bool:
        """Whether a call that was given up is still under way."""
        asked = self._asked
        if asked is None or asked.is_over:
            return False
        return self._is_left or (asked.is_given_up and asked.is_begun)

    def leave(self) -> None:
        """Wait for it no more: whatever is asked from now on has HangingError."""
        self._is_left = self.has_hung = True

    def ask(
        self, act: Callable[[], Result], undo: Callable[[Result], object] | None = None
    ) -> Result:
        """
        Do this within the time.

        Args:
            act: What is done.
            undo: Done to what came of it, where nobody waits for that any more.

        Raises:
            HangingError: It takes longer, or an earlier call hangs still.
        """
        if self._is_left or self.is_hanging:
            raise HangingError(self.seconds)
        asked: _Asked[Result] = _Asked(act, undo)
        self._asked = asked
        try:
            self._calls.run(asked.make, self.seconds, str(self._directory), self._tell)
        except UnreachableError:
            if asked.give_up():
                self.has_hung = True
                raise HangingError(self.seconds) from None
        return asked.given()

    def end(self) -> None:
        """Ask nothing more: the thread ends, unless it hangs."""
        if not self.is_hanging:
            self._calls.close(lambda: None)

    def open(self, path: Path, *, create: bool = False, writable: bool = True) -> DiskFile:
        """Open a file; FileNotFoundError if it is missing and `create` is false."""
        file = self.ask(
            lambda: self._disk.open(path, create=create, writable=writable), lambda it: it.close()
        )
        return _BoundedFile(file, self)

    def exists(self, path: Path) -> bool:
        """Tell whether a file or directory has this name."""
        return self.ask(lambda: self._disk.exists(path))

    def make_directory(self, path: Path) -> None:
        """Create a directory and its parents, durably; fine if it is there already."""
        self.ask(lambda: self._disk.make_directory(path))

    def list_directory(self, path: Path) -> list[str]:
        """Return the sorted names in a directory."""
        return self.ask(lambda: self._disk.list_directory(path))

    def rename(self, source: Path, target: Path) -> None:
        """Rename, replacing `target`; durable after `sync_directory` of the parent."""
        self.ask(lambda: self._disk.rename(source, target))

    def unlink(self, path: Path) -> None:
        """Remove a file, fine if it is gone already; durable after `sync_directory`."""
        self.ask(lambda: self._disk.unlink(path))

    def sync_directory(self, path: Path) -> None:
        """Make the names in this directory durable."""
        self.ask(lambda: self._disk.sync_directory(path))

    def free_bytes(self, path: Path) -> int:
        """Return how much an ordinary process may still write to the file system of `path`."""
        return self.ask(lambda: self._disk.free_bytes(path))

    def lock(self, path: Path) -> DirectoryLock:
        """Take the exclusive lock of this file, created if need be; BlockingIOError if taken."""
        lock = self.ask(lambda: self._disk.lock(path), lambda it: it.release())
        return _BoundedLock(lock, self)

    def _tell(self, seconds: float) -> None:
        logger.warning(
            "%s: it has not answered for %.0f s, and is waited for: see that its disk is well, or,"
            " on a network, that its server answers",
            self._directory,
            seconds,
        )


class _BoundedFile(WrappedFile):
    """An open file of it."""

    __slots__ = ("_disk",)

    def __init__(self, file: DiskFile, disk: BoundedDisk) -> None:
        super().__init__(file)
        self._disk = disk

    def read(self, count: int, offset: int) -> bytes:
        """Return up to `count` bytes from `offset`; fewer only at the end of the file."""
        return self._disk.ask(lambda: self._file.read(count, offset))

    def write(self, data: bytes, offset: int) -> None:
        """Write all of `data` at `offset`; OSError if not, NoRoomError where that is why."""
        self._disk.ask(lambda: self._file.write(data, offset))

    def write_durable(self, buffers: Sequence[bytes], offset: int) -> None:
        """Write all buffers one after the other from `offset`; durable on return."""
        self._disk.ask(lambda: self._file.write_durable(buffers, offset))

    def sync(self) -> None:
        """Make everything written to this file so far durable."""
        self._disk.ask(self._file.sync)

    def truncate(self, size: int) -> None:
        """Cut or extend the file to `size` bytes; durable after `sync`."""
        self._disk.ask(lambda: self._file.truncate(size))

    def forget_cached(self) -> None:
        """Ask for later reads to come from the disk itself; only a wish."""
        self._disk.ask(self._file.forget_cached)

    def size(self) -> int:
        """Return the bytes in the file."""
        return self._disk.ask(self._file.size)

    def close(self) -> None:
        """Give the handle back; of a disk that hangs it stays open with its process."""
        if not self._disk.is_hanging:
            self._file.close()


class _BoundedLock:
    """A lock of it."""

    def __init__(self, lock: DirectoryLock, disk: BoundedDisk) -> None:
        self._lock = lock
        self._disk = disk

    def release(self) -> None:
        """Let others have it; of a disk that hangs it ends with its process."""
        if not self._disk.is_hanging:
            self._lock.release()

    def stands(self) -> bool:
        """Tell whether its path leads to the file that is locked; OSError: it cannot be seen."""
        return self._lock.stands()

"""
Who holds the lock of a file, as far as this machine tells, and whether it can be ended at all.

A process of which one thread waits inside the kernel for a disk that does not answer (state D in
proc(5)) keeps all its locks until that disk answers, also those on other disks, and also when it
was killed. Whoever is told to stop it tries in vain.

Invariants:
    Nothing is asked of the disk itself, which may be the one that hangs: /proc is all that is read.
    A thread counts as waiting that was found so each time; any that works is so for a moment.

Source: proc(5), `/proc/locks`, `/proc/PID/task/TID/stat`.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from holdfast.errors import StoreLockedError

PROC: Final = Path("/proc")
_LOOKS: Final = 4
_SECONDS_BETWEEN: Final = 0.05
_FIELDS: Final = 8
"""What a line of /proc/locks has: number, kind, mode, access, process, file, start, end."""


@dataclass(frozen=True, slots=True)
class LockHolder:
    """A process that holds a lock."""

    process: int
    name: str
    is_stuck: bool
    """One of its threads waits inside the kernel, and does nothing else."""


class LockTakenError(BlockingIOError):
    """The lock of a file is another one's."""

    def __init__(self, path: Path, holder: LockHolder | None) -> None:
        super().__init__(errno.EAGAIN, "another process has its lock", str(path))
        self.holder = holder


def holder_of(
    descriptor: int, *, proc: Path = PROC, rest: Callable[[float], None] = time.sleep
) -> LockHolder | None:
    """
    Give who holds the flock of an open file; None where that cannot be seen.

    A process of another machine, or of another container, is not seen.
    """
    try:
        found = os.fstat(descriptor)
        file = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}:{found.st_ino}"
        opened = Path(f"/proc/self/fd/{descriptor}").readlink()
        text = (proc / "locks").read_text("ascii", "replace")
    except OSError:
        return None
    for process, locked in _flocks(text):
        # Some file systems (btrfs, overlay) tell of another device there than of their files.
        is_it = locked == file or (
            locked.rpartition(":")[2] == str(found.st_ino) and _has_open(proc, process, opened)
        )
        if is_it:
            return LockHolder(process, _name(proc, process), _is_stuck(proc, process, rest))
    return None


def in_use(
    directory: Path,
    error: BlockingIOError,
    *,
    by: str = "another process",
    remedy: str = "stop it, or use another directory",
) -> StoreLockedError:
    """Tell that a directory cannot be had as `error` says that its lock is another one's."""
    holder = error.holder if isinstance(error, LockTakenError) else None
    if holder is None:
        return StoreLockedError(f"{directory} is in use by {by}; {remedy}")
    named = f"{by} (process {holder.process}, {holder.name})"
    if not holder.is_stuck:
        return StoreLockedError(f"{directory} is in use by {named}; {remedy}")
    return StoreLockedError(
        f"{directory} is in use by {named}, which waits inside the kernel, as for a disk that does"
        f" not answer (state D): until that disk answers it keeps its locks, also if it is killed."
        f" Find out which disk hangs (this one, or another one that it uses), and bring it back"
        f" (its server, its mount, a file system that is frozen); if it is gone for good, restart"
        f" the machine"
    )


def _flocks(text: str) -> Iterator[tuple[int, str]]:
    """Which process holds a lock of which file; who only waits for one is left out."""
    for line in text.splitlines():
        fields = line.split()
        if len(fields) == _FIELDS and fields[1] == "FLOCK" and fields[4].isdigit():
            yield int(fields[4]), fields[5]


def _has_open(proc: Path, process: int, name: Path) -> bool:
    try:
        return any(it.readlink() == name for it in (proc / str(process) / "fd").iterdir())
    except OSError:
        return False


def _name(proc: Path, process: int) -> str:
    try:
        return (proc / str(process) / "comm").read_text("utf-8", "replace").strip()
    except OSError:
        return "?"


def _is_stuck(proc: Path, process: int, rest: Callable[[float], None]) -> bool:
    stuck = _waiting(proc, process)
    for _ in range(_LOOKS - 1):
        if not stuck:
            break
        rest(_SECONDS_BETWEEN)
        stuck &= _waiting(proc, process)
    return bool(stuck)


def _waiting(proc: Path, process: int) -> set[str]:
    """Which threads of a process wait inside the kernel now, also of one that was killed."""
    found = set()
    try:
        tasks = list((proc / str(process) / "task").iterdir())
    except OSError:
        return set()
    for task in tasks:
        try:
            # The name of the command is in parentheses, and may have some of its own.
            state = (task / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()[0]
        except (OSError, IndexError):
            continue
        if state == "D":
            found.add(task.name)
    return found

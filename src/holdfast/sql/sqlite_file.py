"""
Whether a SQLite database is reached by the only way there is to its file.

What was committed last, and the locks that let one process write at a time, are in files beside the
database: FILE-wal and FILE-shm, found by its name. Two processes that reach one file in two folders
have two of each: neither sees the other write, both take the lease and both confirm, and what they
moved into the file destroys it. One alone loses what is in FILE-wal where only the file, and not
its folder, outlives a container. So a file that has a second name, or that is mounted by itself,
is refused. The same is so of a file system that is not known to be one machine's own: it may be
reached through two mounts, of two machines or of two containers, each with locks of its own.

Source: sqlite.org, "How To Corrupt An SQLite Database File", 2.5; "Write-Ahead Logging", 3.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import Final, NamedTuple

from holdfast.environment.mounts import LOCAL, MOUNTINFO, Mount, mount_of
from holdfast.environment.secret_files import is_for_all, is_in_reach
from holdfast.errors import StoreError

MODE: Final = 0o640
"""As files of a log in a directory have it; a umask may take more away."""

_OTHERS: Final = (
    "what was stored last and SQLite's locks are in files beside it, which others that reach it by"
    " another way never see, so two brokers would confirm and lose all of that"
)


class FoundFile(NamedTuple):
    """Which file has a name."""

    device: int
    number: int


def file_at(path: str) -> FoundFile | None:
    """Which file has this name now."""
    return look_at(path)[0]


def look_at(path: str) -> tuple[FoundFile | None, int]:
    """Which file has this name now, and how many names it has."""
    try:
        found = Path(path).stat()
    except FileNotFoundError:
        return None, 0
    return FoundFile(found.st_dev, found.st_ino), found.st_nlink


def why_refused_anew(path: str, name_count: int) -> str:
    """Say what becomes of a file in use that has got further names, or nothing."""
    if name_count <= 1:
        return ""
    return (
        f"{path} has {name_count} names (hard links), as a backup by links makes them: brokers that"
        f" are connected go on, and none connects anew, nor starts; remove the other names"
        f" (find / -xdev -samefile {path})"
    )


def is_there(path: str) -> bool:
    """Whether there is such a file, or what only opening it tells more of."""
    try:
        Path(path).stat()
    except (FileNotFoundError, NotADirectoryError):
        return False
    except OSError:
        return True
    return True


def real_path(path: str) -> Path:
    """
    Where the file is that this path leads to: SQLite follows links, and has its files beside that.

    Raises:
        StoreError: It leads nowhere.
    """
    try:
        return Path(path).resolve()
    except RuntimeError as error:  # So Python calls links that lead round in a circle.
        raise StoreError(f"{path} is a link that leads to itself: name the file") from error


def make_ours(path: str) -> None:
    """
    Make an empty file where there is none, which others of this machine cannot read.

    SQLite makes its own as the umask has it, and gives those beside a database the mode of that.
    The file is not opened for it: to close it would let go of all locks of this process on it.
    """
    with suppress(OSError):  # What keeps it from being made is told by SQLite, which tries as well.
        os.mknod(real_path(path), stat.S_IFREG | MODE)


def why_readable(path: str) -> str:
    """Say that others of this machine can read what is stored, or change it; or nothing."""
    real = real_path(path)
    open_to_all = [
        str(it) for it in (real, real.with_name(f"{real.name}-wal")) if _is_for_all_in_reach(it)
    ]
    if not open_to_all:
        return ""
    names = " ".join(open_to_all)
    return (
        f"every user of this machine can get at all messages, and at what is kept of passwords, in"
        f" {real}: chmod o= {names}"
    )


def _is_for_all_in_reach(path: Path) -> bool:
    try:
        return is_for_all(path.stat()) and is_in_reach(path, is_of_all=True)
    except OSError:
        return False


def require_one_way(path: str) -> None:
    """
    See that nobody can reach the file at this path in another folder; fine where there is none yet.

    Raises:
        StoreError: It has another name, or is mounted without its folder.
    """
    real = real_path(path)
    with suppress(OSError):
        if (count := real.stat().st_nlink) > 1:
            raise StoreError(
                f"{real} has {count} names (hard links): {_OTHERS}; remove the other names"
                f" (find / -xdev -samefile {real}), or make a copy while no broker runs"
            )
    mount = mount_at(path)
    if mount is not None and mount.point == real:
        raise StoreError(
            f"{real} is mounted by itself, as a file that is bound into a container: {_OTHERS};"
            f" stop all brokers that use it, and mount the folder that it is in, not the file"
        )


def mount_at(path: str) -> Mount | None:
    """
    What is mounted where this file is; None where that is not told.

    Raises:
        StoreError: It leads nowhere.
    """
    return mount_of(real_path(path), _mountinfo())


def why_shared(path: str, mount: Mount) -> str:
    """Say why a file system that is no machine's own is not to have this file."""
    return (
        f"{path} is on {mount.kind}, which others may reach by a mount of their own, and SQLite's"
        f" locks hold within one mount only: put it on a local file system"
        f" ({', '.join(sorted(LOCAL))})"
    )


def _mountinfo() -> str:
    try:
        return MOUNTINFO.read_text(errors="surrogateescape")
    except OSError:
        return ""  # No such table on this kind of system.

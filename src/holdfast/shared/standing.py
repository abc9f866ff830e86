"""
Whether what this process writes is what everybody finds under its name.

A file that is open stays the same file, and the directory that it was opened in may be another one
by now: moved away for a copy that was brought back, covered by a mount, or a server's replica that
was behind. A copy has the same log, the same epoch and the same holder, so nothing in it says that
this process does not write there. So the files themselves are compared, and what they have.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from holdfast.environment.disk import DiskFile, FileId
from holdfast.environment.shared_disk import SharedDisk, SharedFile
from holdfast.errors import UnreachableError


@dataclass(frozen=True, slots=True)
class Standing:
    """What must be found under a name."""

    file: SharedFile
    """The very file that this process has open."""

    identity: FileId
    """Which that is; it stays so while it is open."""

    marks: tuple[tuple[int, bytes], ...] = ()
    """Bytes that it wrote there durably, each with its place, and does not write again."""


def require_standing(
    disk: SharedDisk, root: Path, path: Path, standing: Standing, *, is_coherent: bool = False
) -> None:
    """
    See that a path leads to the file that is written, and that it has what was written.

    Args:
        disk: Where they are.
        root: The shared directory, for the sentence.
        path: Where everybody finds the file.
        standing: What is to be found there.
        is_coherent: What is read by the open file is what is there, as on a local file system.

    Raises:
        UnreachableError: It does not, which may pass as it came.
        OSError: It cannot be seen.
    """
    try:
        if disk.identity(path) != standing.identity:
            raise _is_elsewhere(root, f"{path} is not the file that this broker writes")
        marks = standing.marks
        # The path leads to this very file, so on a local file system it need not be opened anew.
        has = _reads(standing.file, marks) if is_coherent else _has(disk, path, marks)
        if not has:
            raise _is_elsewhere(root, f"{path} has not what this broker wrote there")
    except FileNotFoundError as error:
        raise _is_elsewhere(root, f"{path} is not there") from error


def _reads(file: DiskFile, marks: tuple[tuple[int, bytes], ...]) -> bool:
    return all(file.read(len(mark), offset) == mark for offset, mark in marks)


def _has(disk: SharedDisk, path: Path, marks: tuple[tuple[int, bytes], ...]) -> bool:
    if not marks:
        return True
    # Opened anew: what a client of NFS reads from a file that was open may be what it knows.
    file = disk.open(path, writable=False)
    try:
        return _reads(file, marks)
    finally:
        file.close()


def _is_elsewhere(root: Path, reason: str) -> UnreachableError:
    return UnreachableError(
        f"{reason}: a copy of {root}, or an older state, has come in its place, and nothing is"
        f" confirmed in it; bring back the directory that was there, which is waited for. Stop all"
        f" brokers before one is replaced"
    )

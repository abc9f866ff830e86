"""
A disk that makes nothing durable: for files that may be lost and are made anew then.

What is written is in the page cache, so it outlives the process and not the machine. Whoever uses
it must find out after a power cut, by checksums or by the boot that wrote it, and start over.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from holdfast.environment.wrapped_disk import WrappedDisk, WrappedFile


class UnsyncedFile(WrappedFile):
    """An open file whose syncs do nothing."""

    __slots__ = ()

    def write_durable(self, buffers: Sequence[bytes], offset: int) -> None:
        """Write all buffers one after the other from `offset`; not durable."""
        self._file.write(buffers[0] if len(buffers) == 1 else b"".join(buffers), offset)

    def sync(self) -> None:
        """Do nothing."""


class UnsyncedDisk(WrappedDisk):
    """Files and directories of another disk, none of them ever synced."""

    def open(self, path: Path, *, create: bool = False, writable: bool = True) -> UnsyncedFile:
        """Open a file; FileNotFoundError if it is missing and `create` is false."""
        return UnsyncedFile(self._disk.open(path, create=create, writable=writable))

    def sync_directory(self, path: Path) -> None:
        """Do nothing."""

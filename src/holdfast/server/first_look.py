"""
The first look at a node's only directory: whether the disk under it answers at all.

A hard mount whose server is away, or a disk that is about to fail, answers no read: a start on it
went on for ever without a word. Of several directories each is looked at so in `mirrors.found`.
"""

from __future__ import annotations

from pathlib import Path

from holdfast.environment.bounded_disk import LOOK_SECONDS, BoundedDisk, HangingError
from holdfast.environment.disk import Disk
from holdfast.errors import StoreError

_READ: tuple[str, ...] = ("ballot", "mirror-set", "cache/boot")
"""A name that is there may be known without the disk; what is in a file rarely is."""

_READ_BYTES = 4096


def require_answer(directory: Path, disk: Disk, seconds: float = LOOK_SECONDS) -> None:
    """
    Wait until the disk under a directory answers; that it is waited for is said on the way.

    Nothing is made or written, and whether the directory can be used is for others to find out.

    Raises:
        StoreError: It has not answered for so long.
    """
    bounded = BoundedDisk(disk, directory)
    bounded.seconds = seconds
    try:
        bounded.ask(lambda: _look(directory, disk))
    except HangingError as error:
        raise StoreError(
            f"{directory} does not answer: {error.strerror}. Nothing was changed. See that its disk"
            f" is well, or, on a network, that its server answers, and start again"
        ) from error
    finally:
        bounded.end()


def _look(directory: Path, disk: Disk) -> None:
    try:
        if not disk.exists(directory):
            return
        disk.list_directory(directory)
    except OSError:
        return
    for name in _READ:
        try:
            file = disk.open(directory / name, writable=False)
        except OSError:
            continue
        try:
            file.read(_READ_BYTES, 0)
        except OSError:
            continue
        finally:
            file.close()

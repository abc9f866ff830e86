"""
A small file system of its own, so that a broker can really run out of room.

As root: an ext4 image in a sparse file, mounted through a loop device. It is unmounted when the
`with` block ends, and at the end of the program at the latest; a mount that is still busy goes away
with its last user. `fill` takes nearly all of its room, as somebody else's files would.
"""

from __future__ import annotations

import atexit
import errno
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final, Self

_BYTES_MIN: Final = 4 << 20
_STEP_BYTES_MIN: Final = 4096
_COMMAND_SECONDS: Final = 60
_BALLAST: Final = "ballast"


class SmallDiskError(RuntimeError):
    """There can be no small disk here; the sentence says why."""


class SmallDisk:
    """
    A file system of `size` bytes, mounted at `folder` within the `with` block.

    Put data folders into `folder`, not at it: `FaultyDisk` wants to keep hard links beside them.

    Raises:
        SmallDiskError: Not root, a tool is missing, or the machine does not let us.
    """

    def __init__(self, folder: Path, size: int) -> None:
        self.folder = folder.resolve()
        self.size = max(size, _BYTES_MIN)
        self.image = self.folder.with_name(f"{self.folder.name}.image")
        self._is_mounted = False

    def __enter__(self) -> Self:
        if os.geteuid() != 0:
            raise SmallDiskError("only root may mount a file system")
        self.folder.mkdir(parents=True, exist_ok=True)
        with self.image.open("wb") as file:
            file.truncate(self.size)
        atexit.register(self.close)
        try:
            # No room kept for root, no table that would be filled in the background.
            features = ["-m", "0", "-E", "lazy_itable_init=0,lazy_journal_init=0"]
            _run("mkfs.ext4", "-q", "-F", *features, str(self.image))
            _run("mount", "-o", "loop", str(self.image), str(self.folder))
            self._is_mounted = True
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def free_bytes(self) -> int:
        """How much may still be written."""
        found = os.statvfs(self.folder)
        return found.f_bavail * found.f_frsize

    def fill(self, leave: int = 0) -> None:
        """Take all the room but `leave` bytes; again to take what became free since."""
        step = self.free_bytes - leave
        with (self.folder / _BALLAST).open("ab") as file:
            # The last bytes go to the file system's own tables, and others write meanwhile.
            while step >= _STEP_BYTES_MIN:
                size = os.fstat(file.fileno()).st_size
                try:
                    os.posix_fallocate(file.fileno(), size, step)
                except OSError as error:
                    if error.errno != errno.ENOSPC:
                        raise
                    step //= 2
                step = min(step, self.free_bytes - leave)

    def make_room(self) -> None:
        """Give back what `fill` took."""
        (self.folder / _BALLAST).unlink(missing_ok=True)

    def close(self) -> None:
        """Unmount, and remove the image; harmless if that is done already."""
        atexit.unregister(self.close)
        if self._is_mounted:
            self._is_mounted = False
            try:
                _run("umount", str(self.folder))
            except SmallDiskError:
                _run("umount", "--lazy", str(self.folder))
        self.image.unlink(missing_ok=True)


def _run(name: str, *arguments: str) -> None:
    # mkfs and mount live where an ordinary user's search path does not lead.
    search = os.environ.get("PATH", os.defpath) + os.pathsep + "/sbin:/usr/sbin"
    program = shutil.which(name, path=search)
    if program is None:
        raise SmallDiskError(f"{name} is not installed")
    done = subprocess.run(  # noqa: S603 - a tool of the system, by its full path
        [program, *arguments], capture_output=True, text=True, check=False, timeout=_COMMAND_SECONDS
    )
    if done.returncode:
        raise SmallDiskError(f"{name} says: {done.stderr.strip() or done.returncode}")

"""
A small file system of its own, so that a broker can really run out of room.

As root: an ext4 image in a sparse file, mounted through a loop device. A guard of its own unmounts
it when the `with` block ends or the program does, however it ends; a mount that is still busy goes
away with its last user. `fill` takes nearly all of its room, as somebody else's files would.
"""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
from pathlib import Path
from typing import Final, Self

_BYTES_MIN: Final = 4 << 20
_STEP_BYTES_MIN: Final = 4096
_COMMAND_SECONDS: Final = 60
# Waits until the program closes the pipe, by intention or by its death.
_GUARD: Final = """
mount -o loop "$2" "$1" 2>&1 && echo mounted && exec > /dev/null 2>&1 && cat
fsfreeze --unfreeze "$1"
umount "$1" || umount -l "$1"
rm -f "$2"
"""
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
        self._guard: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        if os.geteuid() != 0:
            raise SmallDiskError("only root may mount a file system")
        self.folder.mkdir(parents=True, exist_ok=True)
        with self.image.open("wb") as file:
            file.truncate(self.size)
        try:
            # No room kept for root, no table that would be filled in the background.
            features = ["-m", "0", "-E", "lazy_itable_init=0,lazy_journal_init=0"]
            _run("mkfs.ext4", "-q", "-F", *features, str(self.image))
            self._guard = subprocess.Popen(  # noqa: S603 - a shell with two paths of ours
                ["/bin/sh", "-c", _GUARD, "guard", str(self.folder), str(self.image)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env={"PATH": _search_path()},
                start_new_session=True,  # a signal to our group must not end it
            )
            assert self._guard.stdout is not None
            said = self._guard.stdout.readline().decode().strip()
            if said != "mounted":
                raise SmallDiskError(f"mount says: {said}")
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

    def freeze(self) -> None:
        """
        Let everything that writes wait inside the kernel, as for a storage that is out of reach.

        Raises:
            SmallDiskError: The tool is missing, or the machine does not let us.
        """
        _run("fsfreeze", "--freeze", str(self.folder))

    def thaw(self) -> None:
        """Let it go on."""
        _run("fsfreeze", "--unfreeze", str(self.folder))

    def close(self) -> None:
        """Unmount, and remove the image; harmless if that is done already."""
        if self._guard is not None:
            self._guard.communicate(timeout=_COMMAND_SECONDS)
            self._guard = None
        self.image.unlink(missing_ok=True)


def _search_path() -> str:
    # mkfs and mount live where an ordinary user's search path does not lead.
    return os.environ.get("PATH", os.defpath) + os.pathsep + "/sbin:/usr/sbin"


def _run(name: str, *arguments: str) -> None:
    program = shutil.which(name, path=_search_path())
    if program is None:
        raise SmallDiskError(f"{name} is not installed")
    done = subprocess.run(  # noqa: S603 - a tool of the system, by its full path
        [program, *arguments], capture_output=True, text=True, check=False, timeout=_COMMAND_SECONDS
    )
    if done.returncode:
        raise SmallDiskError(f"{name} says: {done.stderr.strip() or done.returncode}")

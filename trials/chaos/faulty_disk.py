"""
A disk that can fail, lie, be slow and lose power, for a real process.

A small library in C stands between the process and its data folder (LD_PRELOAD); it knows at every
moment what would be left after a power cut. The orders of a test reach it through a page of shared
memory, so they work while the process runs, and stay for the next one started on the same disk.

A power cut is: kill the process with SIGKILL, then `power_cut`. Without that, what the kernel holds
stays, and is still lost by a later power cut unless it was synced since. Whoever changes the data
folder from outside (wipes it, rolls it back, flips a bit) says `forget` afterwards.

Needs Linux on 64 bits and a C compiler when first used; no rights of root.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import mmap
import os
import platform
import shutil
import struct
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from holdfast.environment.clock import SystemClock
from trials.chaos.power_cut import PowerCut, cut_power, link_names

if TYPE_CHECKING:
    from random import Random

SOURCES: Final = ("durable_image.h", "durable_image.c", "faulty_disk.c")
FLAGS: Final = ("-std=gnu11", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-pthread")

_MAGIC: Final = 0x314B534944544C46
_NANOSECONDS: Final = 1_000_000_000
_COMPILERS: Final = ("cc", "gcc", "clang")
_COMPILE_SECONDS: Final = 120
# struct control of durable_image.h, in this order; every field has eight bytes.
_FIELDS: Final = (
    "magic",
    "fail_sync",
    "fail_write",
    "lies",
    "sync_nanoseconds",
    "free_bytes",
    "clock_turn",
    "clock_since",
    "clock_offset",
    "clock_drift",
    "processes",
    "writes",
    "syncs",
    "directory_syncs",
    "bytes",
    "failed",
    "refused",
)
_COUNTS: Final = _FIELDS[_FIELDS.index("processes") :]


class FaultyDiskError(RuntimeError):
    """The disk cannot do that: no compiler, no room for hard links, or a process still runs."""


def build_layer(cache: Path | None = None) -> Path:
    """
    Give the compiled library; it is built once for each version of its sources and flags.

    Raises:
        FaultyDiskError: There is no C compiler, or it refuses.
    """
    here = Path(__file__).parent
    digest = hashlib.blake2b(repr((FLAGS, platform.machine())).encode(), digest_size=8)
    for name in SOURCES:
        digest.update((here / name).read_bytes())
    library = (cache or _cache_folder()) / f"faulty_disk-{digest.hexdigest()}.so"
    if library.exists():
        return library
    compiler = next((found for name in _COMPILERS if (found := shutil.which(name))), None)
    if compiler is None:
        raise FaultyDiskError(
            f"a faulty disk is a small library in C, and no compiler was found"
            f" ({', '.join(_COMPILERS)}); on Debian and Ubuntu install gcc and libc6-dev"
        )
    library.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        draft = Path(folder) / library.name
        inputs = [str(here / name) for name in SOURCES if name.endswith(".c")]
        command = [compiler, *FLAGS, *inputs, "-o", str(draft), "-ldl"]
        done = subprocess.run(  # noqa: S603 - our own sources
            command, capture_output=True, text=True, timeout=_COMPILE_SECONDS, check=False
        )
        if done.returncode:
            raise FaultyDiskError(f"{compiler} refuses the faulty disk:\n{done.stderr}")
        draft.replace(library)
    return library


def _cache_folder() -> Path:
    """Where the library is kept: ours alone, for it is loaded into programs."""
    home = os.environ.get("XDG_CACHE_HOME")
    folder = Path(home) if home else Path.home() / ".cache"
    try:
        folder = folder / "holdfast"
        folder.mkdir(parents=True, exist_ok=True)
        if os.access(folder, os.W_OK):
            return folder
    except OSError:
        pass
    return Path(tempfile.mkdtemp(prefix="holdfast-"))


def _wall_nanoseconds() -> int:
    return SystemClock().wall_microseconds() * 1000


class FaultyDisk:
    """
    The disk under one data folder, for one process at a time.

    Args:
        folder: Where the layer keeps its own files; made if it is missing, outside of `data`.
        data: The data folder. It need not exist yet. The directory it lies in must be on the same
            file system, for hard links.

    Raises:
        FaultyDiskError: There is no C compiler, or hard links are not possible.
    """

    def __init__(self, folder: Path, data: Path) -> None:
        self.data = data.resolve()
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder.resolve()
        if self.folder.is_relative_to(self.data):
            raise FaultyDiskError(f"{folder} lies in the data folder whose disk it is to be")
        self._library = build_layer()
        self._images = self.folder / "images"
        self._names = self._place_of_names()
        self._control_path = self.folder / "control"
        self._control = self._open_control()
        if not (self._names / "tree").is_dir() or not (self._names / "probe").exists():
            self.forget()

    def environment(self) -> dict[str, str]:
        """Give what the process needs in its environment to have this disk."""
        others = os.environ.get("LD_PRELOAD", "")
        return {
            "LD_PRELOAD": f"{self._library} {others}".strip(),
            "FAULTY_DISK_DATA": str(self.data),
            "FAULTY_DISK_IMAGES": str(self._images),
            "FAULTY_DISK_NAMES": str(self._names),
            "FAULTY_DISK_CONTROL": str(self._control_path),
        }

    @property
    def is_in_use(self) -> bool:
        """Whether a process that has this disk still runs."""
        with self._control_path.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
        return False

    # Faults that need a dead process.

    def power_cut(self, randomness: Random) -> PowerCut:
        """
        Leave in the data folder what a disk would hold that lost power; all of it is durable then.

        Raises:
            FaultyDiskError: The process still runs.
        """
        self._expect_end()
        cut = cut_power(self.data, self._names / "tree", self._images, randomness)
        self.forget()
        return cut

    def forget(self) -> None:
        """
        Take the data folder as durable just as it is.

        Raises:
            FaultyDiskError: The process still runs.
        """
        self._expect_end()
        for each in (self._images, self._names):
            shutil.rmtree(each, ignore_errors=True)
        self._images.mkdir()
        (self._names / "early").mkdir(parents=True)
        (self._names / "probe").touch()
        link_names(self.data, self._names / "tree")

    # Faults of the running disk.

    def fail_next_sync(self, number: int = errno.EIO) -> None:
        """Fail the next sync, or synced write, with this error; what it was for stays unsynced."""
        self._set("fail_sync", number)

    def fail_next_write(self, number: int = errno.EIO) -> None:
        """Fail the next write with this error; nothing of it is written."""
        self._set("fail_write", number)

    def slow(self, seconds_per_sync: float) -> None:
        """Make every sync last so much longer; 0 for a disk as it is."""
        self._set("sync_nanoseconds", int(seconds_per_sync * _NANOSECONDS))

    def hang(self, on: bool) -> None:
        """Let no sync return until told otherwise; those that wait go on then."""
        self._set("sync_nanoseconds", -1 if on else 0)

    def lie(self, on: bool) -> None:
        """Say that syncs succeeded while they make nothing durable; a later honest one does."""
        self._set("lies", int(on))

    def pretend_free(self, count: int | None) -> None:
        """Tell the process that so many bytes are free at most; None for the truth."""
        self._set("free_bytes", -1 if count is None else count)

    def step_clock(self, seconds: float, rate: float = 1.0) -> None:
        """
        Step the process's wall clock by so much, and let it run at `rate` from now on.

        Steps add up, and a drift so far stays. Monotonic clocks are never touched.
        """
        self._set_clock(self.clock_error() + seconds, rate)

    def true_clock(self) -> None:
        """Let the process's wall clock be right again."""
        self._set_clock(0.0, 1.0)

    def clock_error(self) -> float:
        """Give by how many seconds the process's wall clock is ahead."""
        drifted = (_wall_nanoseconds() - self._get("clock_since")) * self._get_drift()
        return (self._get("clock_offset") + drifted) / _NANOSECONDS

    def counts(self) -> dict[str, int]:
        """
        Give what passed through the layer so far, over all processes: proof that it is there.

        `processes` that loaded it, `writes` and their `bytes`, `syncs` of files (synced writes
        too) and `directory_syncs`, calls `failed` on order, and `refused` ones: these must be 0.
        """
        return {name: self._get(name) for name in _COUNTS}

    def _place_of_names(self) -> Path:
        """Hard links to the data: on its file system, but not in it."""
        beside = self.data.parent
        beside.mkdir(parents=True, exist_ok=True)
        device = self.data.stat().st_dev if self.data.exists() else beside.stat().st_dev
        if self.folder.stat().st_dev == device:
            return self.folder / "names"
        if beside.stat().st_dev == device:
            return beside / f".{self.data.name}.names"
        raise FaultyDiskError(
            f"{self.data} is a file system of its own; let the data folder be a folder in it"
        )

    def _open_control(self) -> mmap.mmap:
        if not self._control_path.exists():
            page = bytearray(mmap.PAGESIZE)
            struct.pack_into("<Q", page, 0, _MAGIC)
            struct.pack_into("<q", page, _FIELDS.index("free_bytes") * 8, -1)
            self._control_path.write_bytes(page)
        with self._control_path.open("r+b") as file:
            return mmap.mmap(file.fileno(), mmap.PAGESIZE)

    def _expect_end(self) -> None:
        if self.is_in_use:
            raise FaultyDiskError(f"a process still uses {self.data}: kill it, and wait for it")

    def _get(self, name: str) -> int:
        found: int = struct.unpack_from("<q", self._control, _FIELDS.index(name) * 8)[0]
        return found

    def _set(self, name: str, number: int) -> None:
        struct.pack_into("<q", self._control, _FIELDS.index(name) * 8, number)

    def _get_drift(self) -> float:
        found: float = struct.unpack_from("<d", self._control, _FIELDS.index("clock_drift") * 8)[0]
        return found

    def _set_clock(self, seconds: float, rate: float) -> None:
        turn = self._get("clock_turn")
        self._set("clock_turn", turn + 1)  # odd: readers wait
        self._set("clock_since", _wall_nanoseconds())
        self._set("clock_offset", int(seconds * _NANOSECONDS))
        struct.pack_into("<d", self._control, _FIELDS.index("clock_drift") * 8, rate - 1.0)
        self._set("clock_turn", turn + 2)

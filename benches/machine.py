"""
What a number depends on besides the code: the machine, its disk, the commit.

Every bench prints `heading()` above its results, because an absolute number means nothing without
them. `disk_rate()` measures what one fdatasync costs here at this moment, so that a rate of durable
messages can be told as a share of what the disk itself does.
"""

from __future__ import annotations

import os
import platform
import subprocess
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
KIB = 1024
_PREALLOCATED_BYTES = 16 * KIB * KIB


def load_average() -> float:
    """The load of the last minute: above 0.5 before a run, neighbours share the machine."""
    return os.getloadavg()[0]


def heading(directory: Path) -> dict[str, str]:
    """Machine, system, disk, Python and commit, as words; `directory` is where data will lie."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / KIB**3
    return {
        "machine": f"{_processor()}, {os.cpu_count()} cores, {memory:.0f} GiB memory",
        "system": f"{platform.system()} {platform.release()}, {_file_system(directory)}",
        "Python": f"{platform.python_implementation()} {platform.python_version()}",
        "commit": commit(),
        "when": time.strftime("%Y-%m-%d %H:%M UTC", time.gmtime()),
        "load average before": f"{load_average():.2f}",
    }


def commit() -> str:
    """The commit that is measured, and whether the product differs from it."""
    name = _output("git", "-C", str(ROOT), "rev-parse", "--short=12", "HEAD") or "unknown"
    changed = _output("git", "-C", str(ROOT), "status", "--porcelain", "--", "src")
    return f"{name} with uncommitted changes in src" if changed else name


def print_heading(directory: Path, **settings: object) -> None:
    """Print machine, commit and settings, one line each."""
    given = {name.replace("_", " "): str(value) for name, value in settings.items()}
    print_told({**heading(directory), **given})


def print_told(told: dict[str, str]) -> None:
    """Print what a table needs beside it, one line each."""
    for name, words in told.items():
        print(f"{name + ':':22}{words}")


def disk_rate(directory: Path, seconds: float = 1.0, size: int = KIB) -> float:
    """
    How often a second this disk makes `size` bytes durable, one after the other.

    pwrite and fdatasync into a file that was written with zeros and synced before: neither its
    length nor its blocks change, as in a segment of the journal.
    """
    path = directory / f"disk-rate-{os.getpid()}"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        for start in range(0, _PREALLOCATED_BYTES, KIB * KIB):
            os.pwrite(descriptor, bytes(KIB * KIB), start)
        os.fsync(descriptor)
        block = os.urandom(size)
        count = 0
        begin = time.perf_counter()
        while (elapsed := time.perf_counter() - begin) < seconds:
            os.pwrite(descriptor, block, count * size % (_PREALLOCATED_BYTES - size))
            os.fdatasync(descriptor)
            count += 1
        return count / elapsed
    finally:
        os.close(descriptor)
        path.unlink()


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _file_system(directory: Path) -> str:
    place = str(directory.resolve())
    kind, longest = "an unknown file system", -1
    for line in Path("/proc/mounts").read_text().splitlines():
        _, mounted, name, *_ = line.split(" ")
        inside = place == mounted or place.startswith(mounted.rstrip("/") + "/")
        if inside and len(mounted) >= longest:
            kind, longest = name, len(mounted)
    return f"data on {kind}"


def _output(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.stdout.strip()

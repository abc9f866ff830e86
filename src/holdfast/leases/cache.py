"""
The cache of a shared log: an ordinary journal in the broker's own directory, never synced.

Nothing confirmed depends on it. A process that dies leaves it whole, because the page cache
outlives it; after a restart of the machine nobody can tell, so it is read anew then. Damage in it
is mended from the medium like damage in any journal.

Layout: `cache/` in the data directory, a data directory itself, and in it `boot`, which names the
start of the machine under which it was written.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

from holdfast.environment.disk import Disk, is_no_room, read_all
from holdfast.environment.lock_holder import in_use
from holdfast.errors import ForeignDirectoryError, StoreError, StoreLockedError
from holdfast.journal.journal import Journal
from holdfast.journal.settings import JournalSettings

logger = logging.getLogger("holdfast.leases")

CACHE_DIRECTORY: Final = "cache"
_BOOT: Final = "boot"
_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


def boot_id() -> str:
    """Name this start of the machine; another one has another name."""
    try:
        return _BOOT_ID.read_text().strip()
    except OSError:
        return ""


def is_cache(data: Path, disk: Disk) -> bool:
    """Whether a data directory is that of a broker whose log is kept elsewhere."""
    return disk.exists(data / CACHE_DIRECTORY / _BOOT)


def open_cache(data: Path, disk: Disk, settings: JournalSettings, boot: str) -> Journal:
    """
    Open what an earlier process of this broker knew of the log, or nothing.

    Args:
        boot: See `boot_id`; an empty one is never the same as another.

    Raises:
        StoreLockedError: Another process has the directory.
        ForeignDirectoryError: It holds the log of a node of its own.
        StoreError: It cannot be used, or has no room for what it is to begin with.
    """
    try:
        return _open(data, disk, settings, boot)
    except OSError as error:
        raise _unusable(data, error) from error
    except StoreError as error:
        if isinstance(error.__cause__, OSError) and is_no_room(error.__cause__):
            raise _unusable(data, error.__cause__) from error
        raise


def _unusable(data: Path, error: OSError) -> StoreError:
    if is_no_room(error):
        return StoreError(
            f"--data ({data}) has no room for what a broker begins with: make room there, or give"
            f" another --data; it is no part of the log, of which nothing is lost"
        )
    return StoreError(f"--data ({data}) cannot be used: {error}")


def _open(data: Path, disk: Disk, settings: JournalSettings, boot: str) -> Journal:
    if disk.exists(data / "journal"):
        raise ForeignDirectoryError(
            f"{data} holds the log of a node of its own: nothing was changed. Give this broker"
            f" another --data; that log is served without --store and --shared"
        )
    directory = data / CACHE_DIRECTORY
    disk.make_directory(directory)
    if not boot or _read(directory / _BOOT, disk) != boot:
        _forget(directory, disk)
        _write(directory / _BOOT, disk, boot)
    try:
        return Journal.open(directory, disk, settings, resolve_unknown_tail=True)
    except StoreLockedError:
        raise
    except StoreError as error:
        logger.warning("the cache cannot be used and is read anew: %s", error)
        _forget(directory, disk)
        return Journal.open(directory, disk, settings, resolve_unknown_tail=True)


def _forget(directory: Path, disk: Disk) -> None:
    """Remove every file below, but for the lock of whoever has it."""
    try:
        disk.lock(directory / "lock").release()
    except BlockingIOError as error:
        raise in_use(directory, error) from None
    for name in disk.list_directory(directory):
        path = directory / name
        try:
            inner = disk.list_directory(path)
        except NotADirectoryError:
            if name not in (_BOOT, "lock"):
                disk.unlink(path)
            continue
        for each in inner:
            disk.unlink(path / each)


def _read(path: Path, disk: Disk) -> str:
    try:
        return read_all(disk, path).decode(errors="replace")
    except OSError:
        return ""


def _write(path: Path, disk: Disk, text: str) -> None:
    file = disk.open(path, create=True)
    try:
        file.truncate(0)
        file.write(text.encode(), 0)
    finally:
        file.close()

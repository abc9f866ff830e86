"""
A disk in memory that can lose power, tear writes, fail a sync, run full and rot.

Every file has two images: what programs see, and what survives a power cut. A sync copies the one
to the other; a power cut keeps, of what was not synced, each sector of 512 bytes and each change
of a name or not, as chance has it. That is all a real disk promises.

Invariants:
    Without `power_cut` it behaves as a perfect disk.
    The same seed and the same operations give the same disk.
    Where the power has failed nothing more is done until `power_cut`, whoever asks for it.

Every operation that changes something counts; `cut_at` names the one at which the power fails.
"""

from __future__ import annotations

import errno
import random
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from holdfast.environment.disk import SECTOR_BYTES, NoRoomError

PAGE_BYTES = 4096
"""The kernel writes back by pages: a sync of a range takes the rest of its pages along."""

_PLENTY = 1 << 40
_NAMES = {"sync": "fsync"}


class PowerCut(BaseException):
    """The power failed. No `except Exception` may survive it."""


class _Inode:
    """One file's bytes: as seen, as durable, and which sectors differ."""

    __slots__ = ("dirty", "durable", "forgotten", "is_size_dirty", "seen")

    def __init__(self) -> None:
        self.seen = bytearray()
        self.durable = bytearray()
        self.dirty: set[int] = set()
        self.forgotten: set[int] = set()
        """Sectors that a failed sync took for written: no later sync writes them."""
        self.is_size_dirty = False

    def copy(self) -> _Inode:
        """Return this file as it is now."""
        other = _Inode()
        other.seen[:] = self.seen
        other.durable[:] = self.durable
        other.dirty.update(self.dirty)
        other.forgotten.update(self.forgotten)
        other.is_size_dirty = self.is_size_dirty
        return other

    def forget_dirty(self) -> None:
        """A sync failed: what was to be written counts as written, and is not."""
        self.forgotten |= self.dirty
        self.dirty.clear()

    def dirty_in_pages(self, start: int, end: int) -> list[int]:
        """Return the dirty sectors of the pages that a range of bytes touches."""
        low = start // PAGE_BYTES * PAGE_BYTES // SECTOR_BYTES
        high = -(-end // PAGE_BYTES) * PAGE_BYTES // SECTOR_BYTES
        if high - low > len(self.dirty):
            return sorted(sector for sector in self.dirty if low <= sector < high)
        return [sector for sector in range(low, high) if sector in self.dirty]

    def make_range_durable(self, start: int, end: int) -> None:
        """A write that syncs itself succeeded: its pages are durable, the others as before."""
        sectors = self.dirty_in_pages(start, end)
        if len(self.durable) < end:
            self.durable.extend(bytes(end - len(self.durable)))
        for sector in sectors:
            low = sector * SECTOR_BYTES
            high = min(low + SECTOR_BYTES, len(self.seen), len(self.durable))
            self.durable[low:high] = self.seen[low:high]
        self.dirty.difference_update(sectors)
        self.is_size_dirty = len(self.durable) != len(self.seen)

    @property
    def is_clean(self) -> bool:
        """Whether all that is seen is durable."""
        return not (self.dirty or self.forgotten or self.is_size_dirty)

    def make_durable(self) -> None:
        """A sync succeeded: everything is durable but what an earlier one lost."""
        if not self.forgotten:
            self.durable[:] = self.seen
        else:
            size = len(self.seen)
            kept = self.durable[:size].ljust(size, b"\0")
            durable = bytearray(self.seen)
            for sector in sorted(self.forgotten):
                start = sector * SECTOR_BYTES
                durable[start : start + SECTOR_BYTES] = kept[start : start + SECTOR_BYTES]
            self.durable = durable
        self.dirty.clear()
        self.is_size_dirty = False


class SimulatedFile:
    """An open file of a `SimulatedDisk`; dead after a power cut."""

    __slots__ = ("_disk", "_inode", "_life")

    def __init__(self, disk: SimulatedDisk, inode: _Inode) -> None:
        self._disk = disk
        self._inode = inode
        self._life = disk.life

    def read(self, count: int, offset: int) -> bytes:
        """Return up to `count` bytes from `offset`; EIO where a sector is unreadable."""
        self._disk.check_readable(self._inode, offset, count)
        return bytes(self._inode.seen[offset : offset + count])

    def write(self, data: bytes, offset: int) -> None:
        """Write all of `data`; at a power cut some of its sectors."""
        self._put(data, offset)

    def _put(self, data: bytes, offset: int) -> int:
        """Write and return where it really went."""
        assert self._life == self._disk.life, "the file was opened before the power cut"
        is_cut = self._disk.step("write", self._growth(offset + len(data)))
        offset = self._disk.place_written(offset, self._inode)
        seen = self._inode.seen
        if len(seen) < offset + len(data):
            seen.extend(bytes(offset + len(data) - len(seen)))
            self._inode.is_size_dirty = True
        seen[offset : offset + len(data)] = data
        if data:
            first, last = offset // SECTOR_BYTES, (offset + len(data) - 1) // SECTOR_BYTES
            self._inode.dirty.update(range(first, last + 1))
            self._disk.mend_sectors(self._inode, offset, offset + len(data))
            if self._inode.forgotten:
                self._inode.forgotten.difference_update(range(first, last + 1))
        if is_cut:
            raise PowerCut
        return offset

    def write_durable(self, buffers: Sequence[bytes], offset: int) -> None:
        """
        Write and sync what is written, and no more; the power may fail in either.

        What was written elsewhere in the file before stays as durable as it was.
        """
        data = b"".join(buffers)
        inode = self._inode
        end = offset + len(data)
        if self._disk.is_calm and inode.is_clean and end <= len(inode.durable):
            assert self._life == self._disk.life, "the file was opened before the power cut"
            self._disk.before_step()
            self._disk.operations += 2
            inode.seen[offset:end] = inode.durable[offset:end] = data
            return
        offset = self._put(data, offset)
        try:
            is_cut = self._disk.step("sync")
        except OSError:
            sectors = inode.dirty_in_pages(offset, offset + len(data))
            inode.forgotten.update(sectors)
            inode.dirty.difference_update(sectors)
            raise
        if is_cut:
            raise PowerCut
        if self._disk.is_lying:
            self._disk.lied[inode] = True
        else:
            inode.make_range_durable(offset, offset + len(data))

    def sync(self) -> None:
        """Make the file durable; at a power cut before it is done."""
        try:
            is_cut = self._disk.step("sync")
        except OSError:
            self._inode.forget_dirty()
            raise
        if is_cut:
            raise PowerCut
        if self._disk.is_lying:
            self._disk.lied[self._inode] = True
        else:
            self._inode.make_durable()

    def truncate(self, size: int) -> None:
        """Cut or extend the file."""
        is_cut = self._disk.step("truncate", self._growth(size))
        seen = self._inode.seen
        del seen[size:]
        seen.extend(bytes(size - len(seen)))
        self._inode.is_size_dirty = True
        if is_cut:
            raise PowerCut

    def forget_cached(self) -> None:
        """Nothing is cached."""

    def size(self) -> int:
        """Return the bytes in the file."""
        return len(self._inode.seen)

    def identity(self) -> tuple[int, int]:
        """Return which file it is; of use while it is open."""
        return id(self._disk), id(self._inode)

    def close(self) -> None:
        """Nothing to give back."""

    def _growth(self, end: int) -> int:
        return max(0, end - len(self._inode.seen))


class SimulatedLock:
    """A lock that a power cut or `release` opens."""

    __slots__ = ("_copies", "_disk", "_path")

    def __init__(self, disk: SimulatedDisk, path: Path) -> None:
        self._disk = disk
        self._path = path
        self._copies = disk.copies

    def release(self) -> None:
        """Let others have it."""
        self._disk.locks.discard(self._path)

    def stands(self) -> bool:
        """Tell whether the disk is the one that was there when it was taken."""
        return self._disk.copies == self._copies


class SimulatedDisk:
    """Files and directories in memory, for tests of what must survive."""

    def __init__(self, seed: int = 0, *, capacity: int = _PLENTY) -> None:
        self._random = random.Random(seed)  # noqa: S311 - to be repeated from a seed
        self._capacity = capacity
        self._names: dict[Path, _Inode] = {}
        self._durable_names: dict[Path, _Inode] = {}
        self._changes: list[tuple[Path, Path | None, _Inode | None]] = []
        self._directories: set[Path] = set()
        self._unreadable: dict[int, set[int]] = {}
        self.locks: set[Path] = set()
        self.life = 0
        """How many power cuts there were."""
        self.copies = 0
        """How often a copy of all of it came in its place."""
        self.operations = 0
        """Changes made so far."""
        self.before_step: Callable[[], None] = lambda: None
        """Called before each change: somebody else may be at work just then."""
        self.cut_at = 0
        """The number of the operation at which the power fails; 0 for never."""
        self.is_off = False
        """It failed: what is still asked for is not done."""
        self.fail_next: dict[str, int] = {}
        """Operation ("write", "sync") to the errno that it fails with, once."""
        self.refuse_unlink: set[Path] = set()
        """Files that may not be removed, as on a file system that an operator made immutable."""
        self.refuse_rename: set[Path] = set()
        """Files that may not be renamed, nor another to their name."""
        self.misdirect_next = 0
        """By how many bytes the next write to a segment misses its place, once; 0 for never."""
        self.is_limit_hidden = False
        """There is less room than it says, as under a quota."""
        self.is_lying = False
        """Syncs succeed and do nothing."""
        self.lied: dict[_Inode, bool] = {}
        """Of these files it said that they are durable, in that order."""
        self.happened: Counter[str] = Counter()
        """What went wrong on it, by kind."""
        self.failures = 0
        """How many operations failed because a test wanted it."""
        self.refused = 0
        """Want of a descriptor or of room: no failure of the disk."""

    # The contract.

    def open(self, path: Path, *, create: bool = False, writable: bool = True) -> SimulatedFile:
        """Open a file; FileNotFoundError if it is missing and `create` is false."""
        self._fail_if_told("open")
        inode = self._names.get(path)
        if inode is None:
            if not create:
                raise FileNotFoundError(errno.ENOENT, "no such file", str(path))
            assert path.parent in self._directories, path
            is_cut = self.step("create")
            inode = self._names[path] = _Inode()
            self._changes.append((path, None, inode))
            if is_cut:
                raise PowerCut
        return SimulatedFile(self, inode)

    def exists(self, path: Path) -> bool:
        """Tell whether a file or directory has this name."""
        return path in self._names or path in self._directories

    def make_directory(self, path: Path) -> None:
        """Create a directory and its parents; durable at once, for simplicity."""
        if path not in self._directories:
            self._directories.add(path)
            self._directories.update(path.parents)

    def list_directory(self, path: Path) -> list[str]:
        """Return the sorted names in a directory."""
        if path not in self._directories:
            raise FileNotFoundError(errno.ENOENT, "no such directory", str(path))
        # As text: a machine has some dozen files, and paths are slow to compare.
        parent = str(path).rstrip("/") + "/"
        start = len(parent)
        names = [str(it) for it in [*self._names, *self._directories]]
        return sorted(
            name[start:] for name in names if name.startswith(parent) and "/" not in name[start:]
        )

    def rename(self, source: Path, target: Path) -> None:
        """Rename, replacing `target`; FileNotFoundError if `source` is missing."""
        if source not in self._names:
            raise FileNotFoundError(errno.ENOENT, "no such file", str(source))
        if any(it in self.refuse_rename for it in (source, target) if it in self._names):
            self.failures += 1
            raise PermissionError(errno.EPERM, "it may not be renamed", str(source))
        is_cut = self.step("rename")
        inode = self._names.pop(source)
        self._names[target] = inode
        if source in self.refuse_unlink:
            self.refuse_unlink.add(target)  # It is the file that is protected.
        self._changes.append((target, source, inode))
        if is_cut:
            raise PowerCut

    def unlink(self, path: Path) -> None:
        """Remove a file, fine if it is gone already."""
        if path not in self._names:
            return
        if path in self.refuse_unlink:
            raise PermissionError(errno.EPERM, "it may not be removed", str(path))
        is_cut = self.step("unlink")
        del self._names[path]
        self.refuse_rename.discard(path)  # It is the file that is protected.
        self._changes.append((path, None, None))
        if is_cut:
            raise PowerCut

    def sync_directory(self, path: Path) -> None:
        """Make the names in this directory durable, and no others."""
        if path not in self._directories:
            raise FileNotFoundError(errno.ENOENT, "no such directory", str(path))
        if self.step("sync_directory"):
            raise PowerCut
        if self.is_lying:
            return
        names = self._durable_names
        others = []
        directory = str(path).rstrip("/")  # As text: paths are slow to compare.
        for change in self._changes:
            target, source, inode = change
            if str(target).rpartition("/")[0] != directory:
                others.append(change)
                continue
            if source is not None and names.get(source) is inode:
                del names[source]
            if inode is None:
                names.pop(target, None)
            else:
                names[target] = inode
        self._changes = others

    def free_bytes(self, path: Path) -> int:
        """Return what is left of the capacity."""
        is_plenty = self._capacity == _PLENTY or self.is_limit_hidden
        return _PLENTY if is_plenty else self._capacity - self._used()

    def lock(self, path: Path) -> SimulatedLock:
        """Take the exclusive lock of this name; BlockingIOError if taken."""
        if path in self.locks:
            raise BlockingIOError(errno.EWOULDBLOCK, "taken", str(path))
        self.locks.add(path)
        return SimulatedLock(self, path)

    # What a test does to it.

    def stop_lying(self, *, is_kept: bool) -> None:
        """Be an honest disk again; `is_kept`: and make true what was said meanwhile."""
        if self.is_lying and is_kept:
            for inode in self.lied:
                inode.make_durable()
            self._durable_names = dict(self._names)
            self._changes.clear()
        self.is_lying = False
        self.lied.clear()

    def power_cut(self) -> None:
        """Lose what was not synced: every sector and every name change by chance."""
        self.stop_lying(is_kept=True)
        names = dict(self._durable_names)
        for target, source, inode in self._changes:
            if self._random.random() < 0.5:
                self.happened["lost unsynced name"] += 1
                continue
            if inode is None:
                names.pop(target, None)
            elif source is None or names.get(source) is inode:
                if source is not None:
                    del names[source]
                names[target] = inode
        for inode in dict.fromkeys(names.values()):  # a set has no order to repeat
            self._lose_unsynced(inode)
        self._names = names
        self._durable_names = dict(names)
        self._changes.clear()
        self.cut_at = 0
        self.kill_process()

    def kill_process(self) -> None:
        """The process is gone, and all that it had written by then is there."""
        self.locks.clear()
        self.life += 1
        self.is_off = False

    def put_copy_in_place(self) -> None:
        """Let every path lead to a copy, durable as it is seen; open files stay what they were."""
        copies = {inode: _Inode() for inode in self._names.values()}
        for inode, copy in copies.items():
            copy.seen[:] = inode.seen
            copy.durable[:] = inode.seen
        self._names = {path: copies[inode] for path, inode in self._names.items()}
        self._durable_names = dict(self._names)
        self._changes.clear()
        self.copies += 1

    def flip_bit(self, path: Path, bit: int) -> None:
        """Let one bit of a file rot, counted from its start; one that lies may not have it yet."""
        inode = self._names[path]
        for content in (inode.seen, inode.durable):
            if bit // 8 < len(content):
                content[bit // 8] ^= 1 << bit % 8

    def make_unreadable(self, path: Path, sector: int) -> None:
        """Let every read of this sector fail with EIO."""
        self._unreadable.setdefault(id(self._names[path]), set()).add(sector)

    def content(self, path: Path) -> bytes:
        """Return what a program sees in a file."""
        return bytes(self._names[path].seen)

    def replace_content(self, path: Path, data: bytes) -> None:
        """Put other bytes into a file, durably, behind everyone's back."""
        inode = self._names[path]
        inode.seen[:] = data
        inode.durable[:] = data

    def durable_content(self, path: Path) -> bytearray | None:
        """Return what a power cut would surely leave of a file, not to be changed; None if gone."""
        inode = self._durable_names.get(path)
        return None if inode is None else inode.durable

    def durable_paths(self) -> list[Path]:
        """Return the names that a power cut would surely leave, sorted."""
        return sorted(self._durable_names, key=str)

    def snapshot(self) -> dict[Path, bytes]:
        """Return all durable files, as a copy of the machine's disk would hold them."""
        return {path: bytes(inode.durable) for path, inode in self._durable_names.items()}

    def restore(self, snapshot: dict[Path, bytes]) -> None:
        """Put an older copy of the whole disk in its place."""
        self._names = {}
        for path, content in snapshot.items():
            inode = self._names[path] = _Inode()
            inode.seen[:] = content
            inode.durable[:] = content
        self._durable_names = dict(self._names)
        self._changes.clear()
        self._unreadable.clear()
        self.kill_process()

    def limit(self, free_bytes: int | None) -> None:
        """Leave so much room and no more; None for plenty."""
        self._capacity = _PLENTY if free_bytes is None else self._used() + free_bytes

    # For its files.

    @property
    def is_calm(self) -> bool:
        """Whether nothing out of the ordinary is in store for the next operations."""
        return not (
            self.cut_at
            or self.is_off
            or self.is_lying
            or self.fail_next
            or self.misdirect_next
            or self._unreadable
            or self._capacity != _PLENTY
        )

    def place_written(self, offset: int, inode: _Inode) -> int:
        """Return where a write really goes: a misdirected one misses its place."""
        if not self.misdirect_next or len(inode.seen) < 2 * self.misdirect_next:
            return offset
        miss, self.misdirect_next = self.misdirect_next, 0
        self.happened["misdirected write"] += 1
        return offset - miss if offset >= miss else offset + miss

    def step(self, kind: str, growth: int = 0) -> bool:
        """Count an operation; return whether the power fails in it, raise if it is to fail."""
        if self.is_off:
            raise PowerCut
        self.before_step()
        self.operations += 1
        self._fail_if_told(kind)
        if growth and self._capacity != _PLENTY and self._used() + growth > self._capacity:
            self.happened["disk full"] += 1
            raise NoRoomError(errno.ENOSPC, "no space left on the simulated disk")
        self.is_off = self.operations == self.cut_at
        return self.is_off

    def _fail_if_told(self, kind: str) -> None:
        number = self.fail_next.pop(kind, None)
        if number is not None:
            is_full = number in (errno.ENOSPC, errno.EDQUOT) and "sync" not in kind
            if is_full or number in (errno.EMFILE, errno.ENFILE):
                self.refused += 1
            else:
                self.failures += 1
            self.happened[f"{_NAMES.get(kind, kind)} {errno.errorcode[number]}"] += 1
            raise (NoRoomError if is_full else OSError)(number, f"simulated failure of {kind}")

    def mend_sectors(self, inode: _Inode, start: int, end: int) -> None:
        """Let sectors that are written to be readable again: a drive puts them elsewhere."""
        bad = self._unreadable.get(id(inode))
        if bad:
            first, last = start // SECTOR_BYTES, -(-end // SECTOR_BYTES)
            bad.difference_update(range(first, last))

    @property
    def is_unreadable(self) -> bool:
        """Whether any sector cannot be read."""
        return any(self._unreadable.values())

    def check_readable(self, inode: _Inode, offset: int, count: int) -> None:
        """Raise EIO if the range touches an unreadable sector."""
        bad = self._unreadable.get(id(inode))
        if bad and any(
            offset < (sector + 1) * SECTOR_BYTES and sector * SECTOR_BYTES < offset + count
            for sector in bad
        ):
            raise OSError(errno.EIO, "simulated unreadable sector")

    def _used(self) -> int:
        return sum(len(inode.seen) for inode in self._names.values())

    def _lose_unsynced(self, inode: _Inode) -> None:
        size = len(inode.durable)
        if inode.is_size_dirty and self._random.random() < 0.5:
            size = len(inode.seen)
        kept = inode.durable[:size].ljust(size, b"\0")
        kept_count = 0
        for sector in sorted(inode.dirty):
            if self._random.random() < 0.5:
                kept_count += 1
                start = sector * SECTOR_BYTES
                piece = inode.seen[start : start + SECTOR_BYTES][: max(0, size - start)]
                kept[start : start + len(piece)] = piece
        if kept_count < len(inode.dirty):
            self.happened["lost unsynced write"] += 1
            if kept_count:
                self.happened["torn write"] += 1
        inode.seen = kept
        inode.durable = bytearray(kept)
        inode.dirty.clear()
        inode.forgotten.clear()
        inode.is_size_dirty = False

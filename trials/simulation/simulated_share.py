"""
A directory that several simulated machines reach, each through caches that lie as NFS's may.

What close-to-open promises is kept and no more: a file that is opened anew shows what was synced
before; what is read while it is open may be of then or of now, page by page. Names that were not
there, listings and sizes may be remembered for a minute. A link or a new name is judged by the
server, and its answer may be lost. What was written and not synced arrives at some time, or never.
Where the path leads to is a `Mount`: a copy may come in the place of what was there, and what was
open stays open there.

Invariants:
    `SimulatedSharedDisk` alone is what the machines of one coherent file system see.
    The same seed and the same operations give the same share.
"""

from __future__ import annotations

import errno
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from holdfast.environment.disk import FileId, NoRoomError
from trials.simulation.simulated_disk import PowerCut, SimulatedDisk, SimulatedFile

Place = tuple["SimulatedSharedDisk", Path]
REMEMBERED_SECONDS = 60.0
PAGE_BYTES = 4096


class SimulatedSharedLock:
    """A lock by one owner of one file; the file may have several names."""

    def __init__(self, disk: SimulatedSharedDisk, held: object) -> None:
        self._disk = disk
        self._held = held

    def release(self) -> None:
        """Let others have it."""
        self._disk.held.discard(self._held)

    def stands(self) -> bool:
        """Tell whether it is held: of a share the directory itself is looked at."""
        return self._held in self._disk.held


class SimulatedSharedDisk(SimulatedDisk):
    """A simulated disk with what `SharedDisk` adds; without power cut it is coherent."""

    def __init__(self, seed: int = 0) -> None:
        super().__init__(seed)
        self.held: set[object] = set()
        """Locked files."""

    @contextmanager
    def within(self, root: Path) -> Iterator[FileId]:
        """It leads here and nowhere else."""
        if root not in self._directories:
            raise FileNotFoundError(errno.ENOENT, "no such directory", str(root))
        yield 0, id(self)

    def identity(self, path: Path) -> FileId:
        """Return which file has this name."""
        return self.open(path).identity()

    def copy(self, seed: int = 0) -> SimulatedSharedDisk:
        """Return a copy as it is now: other files, that nobody has open or has locked."""
        other = SimulatedSharedDisk(seed)
        copies = {inode: inode.copy() for inode in dict.fromkeys(self._names.values())}
        for inode in copies.values():
            inode.make_durable()
        other._names = {path: copies[inode] for path, inode in self._names.items()}
        other._durable_names = dict(other._names)
        other._directories = set(self._directories)
        return other

    def create(self, path: Path) -> SimulatedFile:
        """Make a file that was not there."""
        if path in self._names:
            raise FileExistsError(errno.EEXIST, "it is there already", str(path))
        return self.open(path, create=True)

    def open_through(self, path: Path, *, create: bool = False) -> SimulatedFile:
        """Open a file of which others write other parts."""
        return self.open(path, create=create)

    def link(self, source: Path, target: Path) -> None:
        """Give a file a second name, as one step."""
        is_cut = self.step("link")
        if target in self._names:
            raise FileExistsError(errno.EEXIST, "it is there already", str(target))
        if source not in self._names:
            raise FileNotFoundError(errno.ENOENT, "no such file", str(source))
        self._names[target] = self._names[source]
        self._changes.append((target, None, self._names[source]))
        if is_cut:
            raise PowerCut

    def hold(self, path: Path) -> SimulatedSharedLock:
        """Lock a file that is there."""
        if path not in self._names:
            raise FileNotFoundError(errno.ENOENT, "no such file", str(path))
        inode = self._names[path]
        if inode in self.held:
            raise BlockingIOError(errno.EWOULDBLOCK, "held", str(path))
        self.held.add(inode)
        return SimulatedSharedLock(self, inode)

    def is_held(self, path: Path) -> bool:
        """Tell whether somebody has locked this file."""
        if path not in self._names:
            raise FileNotFoundError(errno.ENOENT, "no such file", str(path))
        return self._names[path] in self.held

    def kill_process(self) -> None:
        """All are gone."""
        super().kill_process()
        self.held.clear()


class Mount:
    """Where the path leads to, on every machine."""

    def __init__(self, server: SimulatedSharedDisk) -> None:
        self.server = server
        self.is_away = False
        """It leads to nothing; what was open stays so."""

    def found(self, path: Path) -> SimulatedSharedDisk:
        """Return what it leads to; `path` is what is asked for there."""
        if self.is_away:
            raise FileNotFoundError(errno.ENOENT, "no such file or directory", str(path))
        return self.server


class Machine:
    """One machine's kernel: its caches, and what it has not sent yet. It outlives processes."""

    def __init__(self, mount: Mount, seed: int) -> None:
        self.mount = mount
        self.random = random.Random(seed)  # noqa: S311 - to be repeated from a seed
        self.is_coherent = False
        """The file system is: nothing is remembered, and what is written is there for all."""
        self.pending: dict[Place, list[tuple[int, bytes]]] = {}
        """Written since the last sync, by file."""
        self.absent: dict[Place, float] = {}
        """Names that were not there, and until when that is remembered."""
        self.listings: dict[Place, tuple[float, list[str]]] = {}
        self.happened: Counter[str] = Counter()

    def chance(self, probability: float) -> bool:
        """Whether something happens this time."""
        return not self.is_coherent and self.random.random() < probability

    def send(self, place: Place) -> None:
        """Let what was written arrive at the server, which has not made it durable."""
        server, path = place
        if server.exists(path):
            file = server.open(path)
            for offset, data in self.pending.get(place, []):
                file.write(data, offset)

    def crash(self) -> None:
        """The machine loses what it has not sent; some of it was on its way."""
        for place in list(self.pending):
            if self.random.random() < 0.5:
                self.happened["late write"] += 1
                with suppress(NoRoomError):
                    self.send(place)
        self.pending.clear()
        self.absent.clear()
        self.listings.clear()


class ShareFile:
    """A file that one process on one machine has open."""

    def __init__(self, client: ShareClient, path: Path) -> None:
        self._client = client
        self._machine = client.machine
        self._server = client.server(path)
        self._path = path
        self._place = self._server, path
        self._opened = self._server_content()

    def read(self, count: int, offset: int) -> bytes:
        """Read what was there when it was opened, or is now: each page by itself."""
        self._client.step("read")
        now = self._server_content()
        data = bytearray(now[offset : offset + count])
        if self._opened != now:
            first = offset // PAGE_BYTES
            for page in range(first, (offset + count - 1) // PAGE_BYTES + 1):
                if self._machine.chance(0.5):
                    self._put_old(data, page, offset, count)
        for place, piece in self._machine.pending.get(self._place, []):
            _overlay(data, offset, count, place, piece)
        return bytes(data)

    def _put_old(self, data: bytearray, page: int, offset: int, count: int) -> None:
        start = max(page * PAGE_BYTES, offset)
        end = min((page + 1) * PAGE_BYTES, offset + count)
        old = self._opened[start:end]
        if len(old) < end - start and end < offset + len(data):
            old = old.ljust(end - start, b"\0")
        is_last = start + len(data[start - offset : end - offset]) == offset + len(data)
        if is_last:
            del data[start - offset :]
            data += old
        else:
            data[start - offset : end - offset] = old.ljust(end - start, b"\0")
        self._machine.happened["old page"] += 1

    def write(self, data: bytes, offset: int) -> None:
        """Write; it arrives at the server now or with the next sync."""
        self._client.step("write")
        self._require()
        self._machine.pending.setdefault(self._place, []).append((offset, data))
        if self._machine.is_coherent or self._machine.chance(0.5):
            self._server.open(self._path).write(data, offset)

    def write_durable(self, buffers: Sequence[bytes], offset: int) -> None:
        """Write and sync."""
        self.write(b"".join(buffers), offset)
        self.sync()

    def sync(self) -> None:
        """Make durable what this machine has written to the file."""
        self._client.step("sync")
        self._require()
        self._machine.send(self._place)
        self._client.step("sync")
        if self._place in self._machine.pending:
            # A server that lost its power meanwhile is sent all of it again.
            self._machine.send(self._place)
            self._server.open(self._path).sync()
            self._machine.pending.pop(self._place, None)
        self._client.step("sync")

    def truncate(self, size: int) -> None:
        """Nobody does this to a file that is shared."""
        raise AssertionError(self._path)

    def forget_cached(self) -> None:
        """Only a wish."""

    def size(self) -> int:
        """Return the size, as it was when it was opened."""
        return len(self._opened)

    def identity(self) -> FileId:
        """Return which file it is; each has its name for good here."""
        return id(self._server), hash(self._path)

    def close(self) -> None:
        """What was not synced is sent."""
        if not self._client.is_dead:
            self._machine.send(self._place)

    def _server_content(self) -> bytes:
        self._require()
        return self._server.content(self._path)

    def _require(self) -> None:
        if not self._server.exists(self._path):
            raise OSError(errno.ESTALE, "stale file handle", str(self._path))


def _overlay(data: bytearray, offset: int, count: int, place: int, piece: bytes) -> None:
    """Put what this machine has written itself over what it read."""
    start, end = max(place, offset), min(place + len(piece), offset + count)
    if start < end:
        if len(data) < end - offset:
            data.extend(bytes(end - offset - len(data)))
        data[start - offset : end - offset] = piece[start - place : end - place]


class ShareClient:
    """One process's view of the share: a `SharedDisk`."""

    def __init__(
        self, machine: Machine, step: Callable[[str], None], now: Callable[[], float]
    ) -> None:
        """Take the machine; `step` is called around each operation and may wait or raise."""
        self.machine = machine
        self.step = step
        self.is_dead = False
        self._now = now
        self._locks: list[SimulatedSharedLock] = []
        self._within: list[SimulatedSharedDisk] = []
        self.looked_at = machine.mount.server
        """Which directory it was within last."""
        self.on_within: Callable[[SimulatedSharedDisk], None] = lambda _server: None
        """Called with each directory that it is within."""

    @contextmanager
    def within(self, root: Path) -> Iterator[FileId]:
        """Do all that is done meanwhile in the directory that the path leads to now."""
        self.step("open")
        server = self.looked_at = self.machine.mount.found(root)
        self.on_within(server)
        self._within.append(server)
        try:
            with server.within(root) as found:
                yield found
        finally:
            self._within.pop()

    def server(self, path: Path) -> SimulatedSharedDisk:
        """Where the path leads to, or led to when that was asked for what is being done."""
        return self._within[-1] if self._within else self.machine.mount.found(path)

    def open(self, path: Path, *, create: bool = False, writable: bool = True) -> ShareFile:
        """Open a file afresh."""
        self.step("open")
        server = self.server(path)
        if create and not server.exists(path):
            server.open(path, create=True)
            server.sync_directory(path.parent)
        elif not create:
            self._require(path)
        self.machine.absent.pop((server, path), None)
        return ShareFile(self, path)

    def identity(self, path: Path) -> FileId:
        """Return which file has this name."""
        self.step("open")
        self._require(path)
        return id(self.server(path)), hash(path)

    def create(self, path: Path) -> ShareFile:
        """Make a file that was not there."""
        self.step("create")
        self.server(path).create(path)
        self.server(path).sync_directory(path.parent)
        self.step("create")
        return ShareFile(self, path)

    def open_through(self, path: Path, *, create: bool = False) -> ShareFile:
        """Open a file of which others write other parts."""
        return self.open(path, create=create)

    def exists(self, path: Path) -> bool:
        """Tell whether it is there, or was not a while ago."""
        try:
            self._require(path)
        except FileNotFoundError:
            return False
        return True

    def make_directory(self, path: Path) -> None:
        """Create a directory."""
        self.server(path).make_directory(path)

    def list_directory(self, path: Path) -> list[str]:
        """Return the names, or those of a while ago."""
        self.step("list")
        until, names = self.machine.listings.get((self.server(path), path), (0.0, []))
        if self._now() < until and self.machine.chance(0.7):
            self.machine.happened["old listing"] += 1
            return names
        names = self.server(path).list_directory(path)
        self.machine.listings[self.server(path), path] = (self._now() + REMEMBERED_SECONDS, names)
        return names

    def rename(self, source: Path, target: Path) -> None:
        """Nobody renames what is shared."""
        raise AssertionError(source)

    def unlink(self, path: Path) -> None:
        """Remove a file."""
        self.step("unlink")
        if path.suffix == ".seg":
            self.machine.happened["segment removed"] += 1
        self.server(path).unlink(path)
        self.server(path).sync_directory(path.parent)
        self.step("unlink")

    def sync_directory(self, path: Path) -> None:
        """Nothing: a server answers for names when they are durable."""
        self.step("sync_directory")

    def free_bytes(self, path: Path) -> int:
        """Return what the server has free."""
        return self.server(path).free_bytes(path)

    def lock(self, path: Path) -> SimulatedSharedLock:
        """Take a lock, created if need be."""
        self.open(path, create=True)
        return self.hold(path)

    def link(self, source: Path, target: Path) -> None:
        """Give a file a second name; the answer may be lost."""
        self.step("link")
        self.server(source).link(source, target)
        self.server(target).sync_directory(target.parent)
        self.step("link")
        if self.machine.random.random() < 0.2:
            self.machine.happened["lost reply of a link"] += 1
            self.server(source).link(source, target)

    def hold(self, path: Path) -> SimulatedSharedLock:
        """Lock a file that is there."""
        self.step("hold")
        lock = self.server(path).hold(path)
        self._locks.append(lock)
        return lock

    def is_held(self, path: Path) -> bool:
        """Tell whether somebody has locked it."""
        self.step("is_held")
        return self.server(path).is_held(path)

    def die(self) -> None:
        """The process has ended: its locks are free."""
        self.is_dead = True
        for lock in self._locks:
            lock.release()

    def _require(self, path: Path) -> None:
        remembered = self.machine.absent.get((self.server(path), path), 0.0)
        if self._now() < remembered and self.machine.chance(0.7):
            self.machine.happened["name remembered as absent"] += 1
        elif self.server(path).exists(path):
            return
        else:
            self.machine.absent[self.server(path), path] = self._now() + REMEMBERED_SECONDS
        raise FileNotFoundError(errno.ENOENT, "no such file", str(path))

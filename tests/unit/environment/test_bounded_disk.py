"""A disk that may hang: each call ends, and what came too late is let go."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.environment import bounded, bounded_disk
from holdfast.environment.bounded_disk import BoundedDisk, CallsInTurn, HangingError
from holdfast.environment.disk import Disk, DiskFile
from holdfast.environment.wrapped_disk import WrappedDisk
from trials.simulation.simulated_disk import SimulatedDisk

ROOT = Path("/d")
FILE = ROOT / "x"


class Stuck(WrappedDisk):
    """A disk of which every call waits at a gate, once that is shut; and is done afterwards."""

    def __init__(self, disk: Disk) -> None:
        super().__init__(disk)
        self.gate = threading.Event()
        self.gate.set()
        self.opened: list[DiskFile] = []

    def open(self, path: Path, *, create: bool = False, writable: bool = True) -> DiskFile:
        """Open a file, late."""
        self.gate.wait()
        file = super().open(path, create=create, writable=writable)
        self.opened.append(file)
        return file

    def exists(self, path: Path) -> bool:
        """Tell late."""
        self.gate.wait()
        return super().exists(path)

    def lock(self, path: Path) -> Any:
        """Lock late."""
        self.gate.wait()
        return super().lock(path)


@pytest.fixture
def simulated() -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_directory(ROOT)
    return disk


@pytest.fixture
def stuck(simulated: SimulatedDisk) -> Iterator[Stuck]:
    made = Stuck(simulated)
    yield made
    made.gate.set()


@pytest.fixture
def disk(stuck: Stuck) -> BoundedDisk:
    made = BoundedDisk(stuck, ROOT)
    made.seconds = 0.05
    return made


def hang(stuck: Stuck, disk: BoundedDisk, call: Callable[[], object]) -> None:
    """Have this call hang, and be given up: on a busy machine it may not even begin at first."""
    stuck.gate.clear()
    while not disk.is_hanging:
        with pytest.raises(HangingError, match=r"it has not answered for 0\.05 s"):
            call()


def let_it_end(stuck: Stuck, disk: BoundedDisk) -> None:
    """What hangs is done, and what is to be done after it."""
    stuck.gate.set()
    while disk.is_hanging:
        threading.Event().wait(0.001)
    disk.seconds = 60
    disk.exists(ROOT)  # It is done by the same thread, after what was undone.


def test_all_that_is_asked_is_done(disk: BoundedDisk, simulated: SimulatedDisk) -> None:
    """As by the disk itself, with its errors."""
    disk.seconds = 60
    disk.make_directory(ROOT / "in")
    lock = disk.lock(ROOT / "lock")
    file = disk.open(FILE, create=True)
    file.write(b"hello world", 0)
    file.truncate(5)
    file.sync()
    file.write_durable([b"J"], 0)
    file.forget_cached()
    assert (file.size(), file.read(9, 0)) == (5, b"Jello")
    file.close()
    disk.rename(FILE, ROOT / "y")
    disk.sync_directory(ROOT)
    assert disk.exists(ROOT / "y")
    assert disk.list_directory(ROOT) == ["in", "y"]
    disk.unlink(ROOT / "y")
    assert disk.free_bytes(ROOT) > 0
    assert lock.stands()
    lock.release()
    assert not simulated.locks
    with pytest.raises(FileNotFoundError):
        disk.open(FILE)
    assert not disk.has_hung
    disk.end()


def test_nobody_waits_for_one_that_hangs(stuck: Stuck, disk: BoundedDisk) -> None:
    """The call that hangs is waited for so long, and those after it not at all."""
    hang(stuck, disk, lambda: disk.exists(FILE))
    disk.seconds = 600
    with pytest.raises(HangingError):
        disk.list_directory(ROOT)
    assert disk.has_hung
    disk.end()
    let_it_end(stuck, disk)
    assert disk.has_hung
    assert not disk.is_hanging


def test_a_lock_that_came_too_late_is_nobodys(
    stuck: Stuck, disk: BoundedDisk, simulated: SimulatedDisk
) -> None:
    """Else this process would be in its own way for as long as it lives."""
    hang(stuck, disk, lambda: disk.lock(ROOT / "lock"))
    let_it_end(stuck, disk)
    assert not simulated.locks


def test_what_was_had_before_stays_with_the_process(
    stuck: Stuck, disk: BoundedDisk, simulated: SimulatedDisk
) -> None:
    """To close a file of a disk that hangs may hang as well."""
    disk.seconds = 60
    lock, file = disk.lock(ROOT / "lock"), disk.open(FILE, create=True)
    disk.seconds = 0.05
    hang(stuck, disk, lambda: disk.exists(FILE))
    lock.release()
    file.close()
    assert simulated.locks
    let_it_end(stuck, disk)
    lock.release()
    file.close()
    assert not simulated.locks


def test_one_that_is_left_is_asked_nothing_more(disk: BoundedDisk) -> None:
    """Another one answered long ago, so this one is not waited for."""
    disk.seconds = 60
    disk.exists(FILE)
    disk.leave()
    with pytest.raises(HangingError):
        disk.exists(FILE)
    assert disk.has_hung
    assert not disk.is_hanging


def test_who_waits_is_told(
    stuck: Stuck,
    disk: BoundedDisk,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Nobody wonders what a start waits for, and on which directory."""
    monkeypatch.setattr(bounded, "TELL_SECONDS", 0.01)
    hang(stuck, disk, lambda: disk.exists(FILE))
    assert "/d: it has not answered for" in caplog.text
    assert "that its server answers" in caplog.text


def test_without_threads_it_is_done_here() -> None:
    """For simulations, and disks that never hang."""
    disk = BoundedDisk(SimulatedDisk(), ROOT, CallsInTurn())
    disk.make_directory(ROOT)
    assert disk.exists(ROOT)
    assert isinstance(disk.unbounded, SimulatedDisk)
    disk.end()
    assert bounded_disk.LOOK_SECONDS == 60.0

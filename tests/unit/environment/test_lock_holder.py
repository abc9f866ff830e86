"""Who holds a lock, and whether it can be ended."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.environment.disk import RealDisk
from holdfast.environment.lock_holder import LockTakenError, holder_of, in_use

HELD = 4711


class Proc:
    """What the kernel tells of one process that holds the lock of a file."""

    def __init__(self, path: Path, lock: Path) -> None:
        self.path = path
        self.lock = lock
        lock.touch()
        self.descriptor = os.open(lock, os.O_RDWR)
        found = os.fstat(self.descriptor)
        device = f"{os.major(found.st_dev):02x}:{os.minor(found.st_dev):02x}"
        self.say_locked(f"{device}:{found.st_ino}")
        (path / str(HELD) / "fd").mkdir(parents=True)
        (path / str(HELD) / "comm").write_text("holdfast\n")

    def say_locked(self, file: str) -> None:
        """Tell that it holds the lock of this file, for which others wait."""
        self.path.mkdir(exist_ok=True)
        (self.path / "locks").write_text(
            f"1: POSIX  ADVISORY  WRITE 1 {file} 0 EOF\n"
            f"2: FLOCK  ADVISORY  WRITE {HELD} {file} 0 EOF\n"
            f"2: -> FLOCK  ADVISORY  WRITE 12 {file} 0 EOF\n"
        )

    def say_state(self, task: int, state: str) -> None:
        """Tell how one of its threads is."""
        folder = self.path / str(HELD) / "task" / str(task)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "stat").write_text(f"{task} (a) D) {state} 1 {task}")

    def sentence(self) -> str:
        """What whoever comes second is told."""
        holder = holder_of(self.descriptor, proc=self.path, rest=lambda _seconds: None)
        return str(in_use(Path("/data"), LockTakenError(self.lock, holder)))


@pytest.fixture
def proc(tmp_path: Path) -> Iterator[Proc]:
    """One process, of which a thread sleeps."""
    made = Proc(tmp_path / "proc", tmp_path / "lock")
    made.say_state(HELD, "S")
    yield made
    os.close(made.descriptor)


def test_who_holds_it_is_named(proc: Proc) -> None:
    """Whoever is told to stop it knows which one to stop."""
    assert proc.sentence() == (
        "/data is in use by another process (process 4711, holdfast); stop it, or use another"
        " directory"
    )


def test_a_thread_that_waits_in_the_kernel_is_told(proc: Proc) -> None:
    """A process that was killed is a zombie whose other threads may wait for a disk still."""
    proc.say_state(HELD, "Z")
    proc.say_state(HELD + 1, "D")

    told = proc.sentence()

    assert "(process 4711, holdfast), which waits inside the kernel" in told
    assert "keeps its locks, also if it is killed" in told
    assert "restart the machine" in told
    assert "stop it" not in told


def test_whoever_waits_for_a_moment_is_not_stuck(proc: Proc) -> None:
    """Each thread that reads or syncs is in that state now and then."""
    states = iter("DSDD")

    def pass_time(_seconds: float) -> None:
        proc.say_state(HELD, next(states))

    proc.say_state(HELD, "D")
    holder = holder_of(proc.descriptor, proc=proc.path, rest=pass_time)

    assert holder is not None
    assert not holder.is_stuck


def test_a_file_system_that_tells_of_another_device(proc: Proc) -> None:
    """It is the file's number then, and the name by which the process has it open."""
    number = os.fstat(proc.descriptor).st_ino
    proc.say_locked(f"00:63:{number}")
    assert "in use by another process; stop it" in proc.sentence()
    (proc.path / str(HELD) / "fd" / "3").symlink_to(proc.lock)
    assert "process 4711" in proc.sentence()


def test_what_cannot_be_seen_is_not_named(tmp_path: Path, proc: Proc) -> None:
    """As where another machine has it, or another container."""
    assert holder_of(proc.descriptor, proc=tmp_path / "none") is None
    assert str(in_use(Path("/data"), BlockingIOError(), by="a node", remedy="wait")) == (
        "/data is in use by a node; wait"
    )


def test_a_real_lock_names_its_process(tmp_path: Path) -> None:
    """What the kernel of this machine tells is read as it is."""
    lock = RealDisk().lock(tmp_path / "lock")
    with pytest.raises(LockTakenError) as caught:
        RealDisk().lock(tmp_path / "lock")
    lock.release()

    assert caught.value.holder is not None
    assert caught.value.holder.process == os.getpid()
    assert not caught.value.holder.is_stuck

"""A disk that fans out: written on every mirror, read from one."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from pathlib import Path

import pytest

from holdfast.environment.disk import NoRoomError
from holdfast.mirrors.disk import MirroredDisk
from trials.mirrors.logs import Machine
from trials.simulation.simulated_disk import SimulatedDisk

FILE = Path("/a/x")


@pytest.fixture
def machine() -> Machine:
    machine = Machine("a", "b")
    machine.open_disk()
    return machine


@pytest.fixture
def disk(machine: Machine) -> MirroredDisk:
    return machine.caretaker.disk


def contents(machine: Machine, name: str = "x") -> list[bytes]:
    return [machine.disks[it].content(it / name) for it in machine.directories]


def disk_of(machine: Machine, place: int) -> SimulatedDisk:
    return machine.disks[machine.directories[place]]


def put(disk: MirroredDisk, data: bytes, path: Path = FILE) -> None:
    file = disk.open(path, create=True)
    file.write(data, 0)
    file.sync()
    file.close()
    disk.sync_directory(path.parent)


def test_what_is_written_is_on_each(machine: Machine, disk: MirroredDisk) -> None:
    """After the sync a power cut takes it from none."""
    put(disk, b"hello")
    machine.cut_power()
    assert contents(machine) == [b"hello", b"hello"]


@pytest.mark.parametrize("kind", ["write", "sync", "create", "rename", "sync_directory", "unlink"])
@pytest.mark.parametrize("place", [0, 1])
def test_one_that_fails_is_left_behind(
    machine: Machine, disk: MirroredDisk, kind: str, place: int
) -> None:
    """L23: whatever fails on one of two, the call succeeds and the other one goes on alone."""
    disk_of(machine, place).fail_next[kind] = errno.EIO
    put(disk, b"hello")
    disk.rename(FILE, FILE.with_name("y"))
    disk.unlink(FILE.with_name("z"))
    put(disk, b"z", FILE.with_name("z"))
    disk.unlink(FILE.with_name("z"))
    assert machine.states()[place] == "failed"
    assert machine.states()[1 - place] == "active"
    left = machine.directories[1 - place]
    assert machine.disks[left].content(left / "y") == b"hello"


def test_full_one_is_no_failure(machine: Machine, disk: MirroredDisk) -> None:
    """L23, no room on one: as on a single disk, and the same write succeeds once there is room."""
    file = disk.open(FILE, create=True)
    disk_of(machine, 1).limit(0)
    with pytest.raises(NoRoomError):
        file.write(bytes(8192), 0)
    assert machine.states() == ["active", "active"]
    assert disk.free_bytes(FILE) == 0
    disk_of(machine, 1).limit(None)
    file.write(bytes(8192), 0)
    assert contents(machine) == [bytes(8192)] * 2


def test_failure_of_all_is_that_of_a_single_disk(machine: Machine, disk: MirroredDisk) -> None:
    """Nobody is left behind for it: the process ends, and the next start judges."""
    file = disk.open(FILE, create=True)
    for place in (0, 1):
        disk_of(machine, place).fail_next["sync"] = errno.EIO
    with pytest.raises(OSError, match="simulated failure of sync"):
        file.sync()
    assert machine.states() == ["active", "active"]


def test_missing_file_is_missing_on_all(disk: MirroredDisk) -> None:
    """That is an answer, and no mirror's fault."""
    for writable in (False, True):
        with pytest.raises(FileNotFoundError):
            disk.open(FILE, writable=writable)


def test_file_that_is_missing_on_one_is_that_mirrors_fault(
    machine: Machine, disk: MirroredDisk
) -> None:
    """Somebody removed it there: what is written to it would not be on both."""
    put(disk, b"hello")
    disk_of(machine, 1).unlink(Path("/b/x"))
    disk.open(FILE).write(b"there", 0)
    assert machine.states() == ["active", "failed"]


def test_no_descriptor_left_says_nothing_of_the_mirror(
    machine: Machine, disk: MirroredDisk
) -> None:
    """The caller waits it out, as ever."""
    disk_of(machine, 1).fail_next["open"] = errno.EMFILE
    with pytest.raises(OSError) as refused:
        disk.open(FILE, create=True)
    assert refused.value.errno == errno.EMFILE
    assert machine.states() == ["active", "active"]


def test_unreadable_sector_is_read_from_the_other_and_written_again(
    machine: Machine, disk: MirroredDisk
) -> None:
    """L28: an EIO of a read costs nothing, and the place can be read again."""
    put(disk, b"hello" * 1000)
    disk_of(machine, 0).make_unreadable(FILE, 2)
    file = disk.open(FILE, writable=False)
    assert file.read(5000, 0) == b"hello" * 1000
    assert not disk_of(machine, 0).is_unreadable
    assert disk.mended_total == 1
    assert machine.states() == ["active", "active"]


@pytest.mark.parametrize("place", [0, 1])
def test_bad_copy_is_mended_by_a_good_one(machine: Machine, disk: MirroredDisk, place: int) -> None:
    """L28: whichever is rotten."""
    put(disk, b"hello")
    disk_of(machine, place).flip_bit(machine.directories[place] / "x", 3)
    assert disk.mend(FILE, 0, 5, b"hello".__eq__) == b"hello"
    assert contents(machine) == [b"hello", b"hello"]


def test_bad_on_all_stays_bad(machine: Machine, disk: MirroredDisk) -> None:
    """L28: nothing is made up."""
    put(disk, b"hello")
    for place, directory in enumerate(machine.directories):
        disk_of(machine, place).flip_bit(directory / "x", place)
    before = contents(machine)
    assert disk.mend(FILE, 0, 5, b"hello".__eq__) is None
    assert contents(machine) == before


def test_file_that_is_renamed_while_open_is_written_on(
    machine: Machine, disk: MirroredDisk
) -> None:
    """A segment gets its name while the writer has it open."""
    file = disk.open(FILE, create=True)
    disk.rename(FILE, FILE.with_name("y"))
    file.write(b"hello", 0)
    assert file.path.name == "y"
    assert contents(machine, "y") == [b"hello", b"hello"]


def test_locks_of_all_are_one(machine: Machine, disk: MirroredDisk) -> None:
    """They were taken at the start, and go together."""
    assert [len(it.locks) for it in machine.disks.values()] == [1, 1]
    disk.lock(Path("/a/lock")).release()
    assert [len(it.locks) for it in machine.disks.values()] == [0, 0]


def test_late_write_of_a_failed_mirror_hurts_nobody() -> None:
    """L31: what hung comes to the disk after all; a start goes by the other one."""
    machine = Machine("a", "b")
    log = machine.open()
    log.append(b"both")
    late: list[tuple[bytes, int]] = []
    mirror = machine.caretaker.disk.keeper.active[1]
    file = log.writer._end.file
    assert file is not None
    real = file.on(mirror)  # type: ignore[attr-defined]

    class Hanging:
        def write_durable(self, buffers: Sequence[bytes], offset: int) -> None:
            late.append((b"".join(buffers), offset))
            raise OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT))

        def close(self) -> None:
            real.close()

    file.take(mirror, Hanging())  # type: ignore[attr-defined]
    log.append(b"one")
    assert machine.states() == ["active", "failed"]
    machine.kill()
    log = machine.open(machine.directories[0])
    log.truncate(1)
    other = log.append(b"another", term=2)
    machine.kill()
    path = machine.directories[1] / "journal" / log.segment_path().name
    machine.disks[machine.directories[1]].open(path).write(*late[0])
    log = machine.open()
    machine.fill()
    assert machine.states() == ["active", "active"]
    assert log.journal.entry(2).raw == other.raw
    copies = [machine.disks[it].content(it / "journal" / path.name) for it in machine.directories]
    assert copies[0] == copies[1]


def test_nothing_is_made_where_a_directory_is_gone(machine: Machine, disk: MirroredDisk) -> None:
    """L29: else what is made there is in the way of whatever takes its place."""
    disk_of(machine, 1).unlink(Path("/b/mirror-set"))
    disk.make_directory(Path("/a/checkpoints"))
    assert machine.states() == ["active", "failed"]
    assert not disk_of(machine, 1).exists(Path("/b/checkpoints"))

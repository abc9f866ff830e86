"""The simulated disk: perfect while it has power, and no more than honest when it loses it."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from holdfast.environment.disk import Disk
from trials.simulation.simulated_disk import PowerCut, SimulatedDisk

ROOT = Path("/d")


@pytest.fixture
def disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_directory(ROOT)
    return disk


def make(disk: SimulatedDisk, name: str, data: bytes) -> Path:
    """A durable file under a durable name."""
    file = disk.open(ROOT / name, create=True)
    file.write_durable([data], 0)
    disk.sync_directory(ROOT)
    return ROOT / name


def test_it_keeps_the_contract_of_a_disk(disk: SimulatedDisk) -> None:
    """With power it reads back what was written, like any disk."""
    contract: Disk = disk
    file = contract.open(ROOT / "a", create=True)
    file.write(b"hello", 3)
    file.truncate(6)
    file.forget_cached()
    assert file.read(100, 0) == b"\0\0\0hel"
    assert file.size() == 6
    file.close()
    contract.rename(ROOT / "a", ROOT / "b")
    assert contract.list_directory(ROOT) == ["b"]
    contract.unlink(ROOT / "b")
    contract.unlink(ROOT / "b")
    assert not contract.exists(ROOT / "b")
    with pytest.raises(FileNotFoundError):
        contract.open(ROOT / "b")
    with pytest.raises(FileNotFoundError):
        contract.list_directory(Path("/nowhere"))


def test_what_is_synced_survives(disk: SimulatedDisk) -> None:
    """Synced bytes under a synced name are there after any number of power cuts."""
    path = make(disk, "a", b"x" * 2000)
    for _ in range(5):
        disk.power_cut()
        assert disk.content(path) == b"x" * 2000


def test_what_is_not_synced_survives_by_sectors_and_by_chance() -> None:
    """Each sector is old or new as a whole; over many seeds some are lost and some kept."""
    outcomes = set()
    for seed in range(30):
        disk = SimulatedDisk(seed)
        disk.make_directory(ROOT)
        path = make(disk, "a", b"o" * 2048)
        disk.open(path).write(b"n" * 1024, 300)
        disk.power_cut()
        data = disk.content(path)
        for sector in range(4):
            piece = data[sector * 512 : sector * 512 + 512]
            start = max(0, min(512, 300 - sector * 512))
            end = max(0, min(512, 1324 - sector * 512))
            new = b"o" * start + b"n" * (end - start) + b"o" * (512 - end)
            assert piece in (b"o" * 512, new)
        outcomes.add(data)
    assert len(outcomes) > 4


def test_a_size_that_is_not_synced_may_be_lost() -> None:
    """A file that grew may have its old size again, and may have a tail of zeros."""
    sizes = set()
    for seed in range(20):
        disk = SimulatedDisk(seed)
        disk.make_directory(ROOT)
        path = make(disk, "a", b"o" * 512)
        disk.open(path).write(b"n" * 512, 512)
        disk.power_cut()
        sizes.add(len(disk.content(path)))
    assert sizes == {512, 1024}


def test_names_that_are_not_synced_may_be_lost() -> None:
    """A rename, a new name, a removal: each may have happened or not, never half."""
    seen = set()
    for seed in range(40):
        disk = SimulatedDisk(seed)
        disk.make_directory(ROOT)
        make(disk, "old", b"1")
        make(disk, "gone", b"2")
        disk.rename(ROOT / "old", ROOT / "new")
        disk.unlink(ROOT / "gone")
        disk.open(ROOT / "fresh", create=True)
        disk.power_cut()
        names = disk.list_directory(ROOT)
        assert ("old" in names) != ("new" in names)
        seen.add(tuple(names))
    assert len(seen) == 8


def test_a_rename_of_a_name_that_was_lost_does_nothing() -> None:
    """A file whose first name never became durable does not appear under its second."""
    for seed in range(20):
        disk = SimulatedDisk(seed)
        disk.make_directory(ROOT)
        disk.open(ROOT / "a", create=True)
        disk.rename(ROOT / "a", ROOT / "b")
        disk.power_cut()
        assert disk.list_directory(ROOT) in ([], ["a"], ["b"])


@pytest.mark.parametrize("operation", range(1, 8))
def test_the_power_fails_at_the_operation_named(operation: int) -> None:
    """Every kind of change can be the last one; nothing after it is done."""
    disk = SimulatedDisk()
    disk.make_directory(ROOT)
    disk.cut_at = operation
    with pytest.raises(PowerCut):
        file = disk.open(ROOT / "a", create=True)
        file.write(b"x", 0)
        file.truncate(10)
        file.sync()
        disk.rename(ROOT / "a", ROOT / "b")
        disk.sync_directory(ROOT)
        disk.unlink(ROOT / "b")
    assert disk.operations == operation
    disk.power_cut()
    assert disk.life == 1


def test_without_power_nothing_more_is_done(disk: SimulatedDisk) -> None:
    """Whoever goes on after the operation at which it failed changes nothing, until it is back."""
    file = disk.open(ROOT / "a", create=True)
    file.write(b"old", 0)
    file.sync()
    disk.sync_directory(ROOT)
    disk.cut_at = disk.operations + 1
    with pytest.raises(PowerCut):
        disk.rename(ROOT / "a", ROOT / "b")
    done = disk.operations
    disk.cut_at = done + 9  # what is planned anew does not bring it back
    changes = [
        lambda: file.write(b"new", 0),
        lambda: file.write_durable([b"new"], 0),
        lambda: file.truncate(1),
        file.sync,
        lambda: disk.open(ROOT / "c", create=True),
        lambda: disk.rename(ROOT / "b", ROOT / "c"),
        lambda: disk.unlink(ROOT / "b"),
        lambda: disk.sync_directory(ROOT),
    ]
    for change in changes:
        with pytest.raises(PowerCut):
            change()
    assert disk.operations == done
    disk.power_cut()
    (name,) = disk.list_directory(ROOT)
    assert disk.content(ROOT / name) == b"old"
    make(disk, "c", b"on again")


def test_a_process_that_was_killed_in_a_write_leaves_what_it_wrote(disk: SimulatedDisk) -> None:
    """The power did not fail: what the last operation did stays, and the next process goes on."""
    file = disk.open(ROOT / "a", create=True)
    disk.lock(ROOT / "lock")
    disk.cut_at = disk.operations + 1
    with pytest.raises(PowerCut):
        file.write(b"x", 0)
    disk.kill_process()
    assert disk.content(ROOT / "a") == b"x"
    assert disk.life == 1
    disk.lock(ROOT / "lock")
    disk.open(ROOT / "a").sync()


def test_an_operation_can_be_made_to_fail_once(disk: SimulatedDisk) -> None:
    """EIO on one sync; the next one succeeds, which is what makes it treacherous."""
    file = disk.open(ROOT / "a", create=True)
    disk.fail_next["sync"] = errno.EIO
    with pytest.raises(OSError) as caught:
        file.sync()
    assert caught.value.errno == errno.EIO
    file.sync()


def test_it_runs_full() -> None:
    """Beyond its capacity a write that grows a file is refused; overwriting still works."""
    disk = SimulatedDisk(capacity=1000)
    disk.make_directory(ROOT)
    file = disk.open(ROOT / "a", create=True)
    file.write(b"x" * 900, 0)
    assert disk.free_bytes(ROOT) == 100
    with pytest.raises(OSError) as caught:
        file.write(b"y" * 200, 900)
    assert caught.value.errno == errno.ENOSPC
    file.write(b"y" * 200, 0)


def test_rot_and_unreadable_sectors(disk: SimulatedDisk) -> None:
    """A flipped bit survives power cuts; an unreadable sector fails the reads that touch it."""
    path = make(disk, "a", bytes(2048))
    disk.flip_bit(path, 8 * 700 + 3)
    disk.power_cut()
    assert disk.content(path)[700] == 8
    disk.make_unreadable(path, 2)
    file = disk.open(path)
    assert len(file.read(1024, 0)) == 1024
    with pytest.raises(OSError, match="unreadable"):
        file.read(10, 1500)
    disk.replace_content(path, b"new")
    assert disk.content(path) == b"new"


def test_a_lock_is_held_until_released_or_power_is_lost(disk: SimulatedDisk) -> None:
    """As with flock: the holder's end frees it."""
    disk.lock(ROOT / "lock")
    with pytest.raises(BlockingIOError):
        disk.lock(ROOT / "lock")
    disk.power_cut()
    disk.lock(ROOT / "lock").release()
    disk.lock(ROOT / "lock")


def test_a_write_that_syncs_itself_syncs_only_its_pages() -> None:
    """What was written elsewhere in the file may still be lost, as with RWF_DSYNC."""
    outcomes = set()
    for seed in range(20):
        disk = SimulatedDisk(seed)
        disk.make_directory(Path("/d"))
        file = disk.open(Path("/d/f"), create=True)
        file.write(b"o" * 3 * 4096, 0)
        file.sync()
        disk.sync_directory(Path("/d"))
        file.write(b"n" * 512, 512)
        file.write(b"n" * 512, 4096)
        file.write_durable([b"n" * 512], 0)
        disk.power_cut()
        data = disk.content(Path("/d/f"))
        assert data[:1024] == b"n" * 1024, "the page of what was synced"
        outcomes.add(data[4096:4608])
    assert outcomes == {b"n" * 512, b"o" * 512}


def test_a_directorys_sync_keeps_its_own_names_only() -> None:
    """What was made, renamed or removed elsewhere stays at the mercy of a power cut."""
    lost = set()
    for seed in range(20):
        disk = SimulatedDisk(seed)
        here, there = Path("/a"), Path("/b")
        for directory in (here, there):
            disk.make_directory(directory)
            disk.open(directory / "draft", create=True)
            disk.rename(directory / "draft", directory / "file")
        disk.sync_directory(here)
        assert disk.durable_paths() == [here / "file"]
        disk.power_cut()
        assert disk.list_directory(here) == ["file"]
        lost.add(tuple(disk.list_directory(there)))
    assert len(lost) > 1

"""One mirror is filled while the others go on being written."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from holdfast.journal.rescue import rescued
from holdfast.mirrors.filling import PIECE_BYTES, Filling, files_below
from holdfast.mirrors.gate import Gate
from trials.mirrors.logs import Machine
from trials.simulation.simulated_disk import PowerCut, SimulatedDisk


def half_filled() -> tuple[Machine, Filling]:
    """One mirror with a file of several pieces, another one that has the first of them."""
    machine = Machine("a", "b")
    machine.open_disk(machine.directories[0])
    disk = machine.caretaker.disk
    disk.open(Path("/a/ballot"), create=True)
    file = disk.open(Path("/a/x"), create=True)
    file.write(b"1" * (2 * PIECE_BYTES + 100), 0)
    file.sync()
    machine.caretaker.enable(machine.directories[1])
    filling = Filling(disk, disk.keeper.targets[1], rescued)
    while filling.step() == 0:
        pass
    return machine, filling


def finish(filling: Filling) -> None:
    while not filling.is_over:
        filling.step()


def same(machine: Machine, name: str) -> bool:
    one, two = machine.directories
    return machine.disks[one].content(one / name) == machine.disks[two].content(two / name)


def test_own_files_are_no_copies() -> None:
    """Lock, set and token are each mirror's own; all else is listed, folders too."""
    disk = SimulatedDisk()
    disk.make_directory(Path("/a/journal"))
    for name in ("lock", "mirror-set", "admin-token", "ballot", "journal/lock"):
        disk.open(Path("/a") / name, create=True)
    assert files_below(disk, Path("/a")) == [Path("/a/ballot"), Path("/a/journal/lock")]


def test_what_is_written_meanwhile_comes_to_both() -> None:
    """Before the place that is copied, behind it, and into a file that is new."""
    machine, filling = half_filled()
    disk = machine.caretaker.disk
    file = disk.open(Path("/a/x"))
    file.write(b"2", 5)
    file.write(b"3", 2 * PIECE_BYTES)
    disk.open(Path("/a/new"), create=True).write(b"4", 0)
    finish(filling)
    assert machine.states() == ["active", "active"]
    assert same(machine, "x")
    assert same(machine, "new")


def test_renamed_and_removed_files_end_alike() -> None:
    """Names change while it is copied, of what it has and of what it has not."""
    machine, filling = half_filled()
    disk = machine.caretaker.disk
    disk.rename(Path("/a/x"), Path("/a/y"))
    disk.open(Path("/a/z"), create=True)
    disk.unlink(Path("/a/z"))
    finish(filling)
    one, two = machine.directories
    names = [path.name for path in files_below(machine.disks[two], two)]
    assert names == [path.name for path in files_below(machine.disks[one], one)]
    assert same(machine, "y")


def test_it_is_never_read_before_it_is_whole() -> None:
    """L29: the first one cannot be read for a moment, and nobody turns to the half copy."""
    machine, filling = half_filled()
    disk = machine.caretaker.disk
    assert [it.directory for it in disk.keeper.active] == machine.directories[:1]
    disk.keeper.mirrors[1].have.clear()
    assert disk.open(Path("/a/x"), writable=False).size() == 2 * PIECE_BYTES + 100
    assert filling.mirror.state == "joining"


def test_copy_that_is_broken_off_is_begun_again() -> None:
    """L29: killed while copying; the next start serves by the whole one, and fills the other."""
    machine, _ = half_filled()
    machine.kill()
    machine.open_disk()
    assert machine.states() == ["active", "joining"]
    machine.fill()
    assert machine.states() == ["active", "active"]
    assert same(machine, "x")


def test_power_cut_while_copying_loses_nothing() -> None:
    """L29: at any operation of the one that is being filled."""
    for cut in range(1, 40):
        machine, filling = half_filled()
        target = machine.disks[machine.directories[1]]
        target.cut_at = target.operations + cut
        with suppress(PowerCut):
            finish(filling)
        machine.cut_power()
        machine.open_disk()
        machine.fill()
        assert machine.states() == ["active", "active"]
        assert same(machine, "x")


def test_what_stood_there_before_is_removed() -> None:
    """A directory that comes back may have files that the others removed meanwhile."""
    machine = Machine("a", "b")
    disk = machine.open_disk().disk
    disk.open(Path("/a/old"), create=True)
    disk.keeper.fail({disk.keeper.active[1]: "away"})
    disk.unlink(Path("/a/old"))
    machine.caretaker.enable(machine.directories[1])
    machine.fill()
    assert machine.states() == ["active", "active"]
    assert not machine.disks[machine.directories[1]].exists(Path("/b/old"))


def test_target_that_cannot_be_written_fails_and_the_store_goes_on() -> None:
    """Nothing is lost with it."""
    machine, filling = half_filled()
    machine.disks[machine.directories[1]].fail_next["write"] = errno.EIO
    finish(filling)
    assert machine.states() == ["active", "failed"]
    machine.caretaker.disk.open(Path("/a/x")).write(b"5", 0)


def test_what_a_failed_sync_left_in_the_cache_is_written_again() -> None:
    """L29: a mirror that failed shows the right bytes, and does not have them on its disk."""
    machine = Machine("a", "b")
    disk = machine.open_disk().disk
    file = disk.open(Path("/a/x"), create=True)
    file.write(b"1" * 4096, 0)
    file.sync()
    disk.sync_directory(Path("/a"))
    file.write(b"2" * 4096, 0)
    machine.disks[machine.directories[1]].fail_next["sync"] = errno.EIO
    file.sync()
    assert machine.states() == ["active", "failed"]
    machine.caretaker.enable(machine.directories[1])
    machine.fill()
    assert machine.states() == ["active", "active"]
    machine.cut_power()
    assert same(machine, "x")


def test_what_is_made_again_is_copied_and_not_taken_for_new() -> None:
    """Opened to be made where it is there already: it comes whole, with all its bytes."""
    machine = Machine("a", "b")
    disk = machine.open_disk().disk
    a, b = machine.directories
    spare = a / "spare"
    file = disk.open(spare, create=True)
    file.write(bytes(10_000), 0)
    file.sync()
    machine.caretaker.disable(b)
    machine.caretaker.enable(b)
    machine.caretaker.turn()
    again = disk.open(spare, create=True)
    again.write(b"x", 0)
    machine.fill()
    assert machine.states() == ["active", "active"]
    contents = [machine.disks[it].content(it / "spare") for it in (a, b)]
    assert contents[0] == contents[1] == b"x" + bytes(9_999)


def test_a_slow_mirror_is_filled_in_smaller_pieces() -> None:
    """Nobody writes while one is copied; it takes larger ones again when it is not slow."""
    machine = Machine("a", "b")
    machine.open_disk(machine.directories[0])
    disk = machine.caretaker.disk
    disk.open(Path("/a/x"), create=True).write(b"1" * (4 * PIECE_BYTES), 0)
    machine.caretaker.enable(machine.directories[1])
    times = [0.0]
    pace = [0.7]

    def clock() -> float:
        times.append(times[-1] + pace[0])
        return times[-1]

    filling = Filling(disk, disk.keeper.targets[1], rescued, clock=clock)
    sizes = []
    while len(sizes) < 8:
        if len(sizes) == 5:
            pace[0] = 0.01
        sizes += [size] if (size := filling.step()) else []
    kib = [size // 1024 for size in sizes]
    assert kib[:5] == [512, 256, 128, 64, 64]
    assert kib[5:] == [64, 128, 256]
    finish(filling)
    assert same(machine, "x")


def test_old_files_are_removed_a_few_at_a_time_with_one_sync(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """3,000 of them, each with a sync of its own, stopped whoever writes for nine seconds."""
    machine = Machine("a", "b")
    caretaker = machine.open_disk()
    disk, old = caretaker.disk, machine.disks[Path("/b")]
    caretaker.disable(Path("/b"))
    for number in range(50):
        old.open(Path(f"/b/journal/{number}.old"), create=True)
    seconds = iter(range(10_000))
    caretaker.enable(Path("/b"))
    filling = Filling(disk, disk.keeper.targets[1], rescued, clock=lambda: next(seconds) / 100)
    removed: list[int] = []
    syncs = 0

    @contextmanager
    def alone(_self: Gate) -> Iterator[None]:
        before = len(old.list_directory(Path("/b/journal")))
        yield
        removed.append(before - len(old.list_directory(Path("/b/journal"))))

    def sync_directory(self: SimulatedDisk, path: Path) -> None:
        nonlocal syncs
        syncs += path == Path("/b/journal")
        sync_really(self, path)

    sync_really = SimulatedDisk.sync_directory
    monkeypatch.setattr(Gate, "alone", alone)
    monkeypatch.setattr(SimulatedDisk, "sync_directory", sync_directory)
    finish(filling)
    assert [] == old.list_directory(Path("/b/journal"))
    assert 50 == sum(removed)
    assert max(removed) <= 3
    assert syncs <= 2


def test_file_made_anew_by_the_name_of_an_old_one_is_not_removed() -> None:
    """Nothing of the old one is in it: it comes to both from the moment it is made."""
    machine = Machine("a", "b")
    caretaker = machine.open_disk()
    disk, there = caretaker.disk, machine.disks[Path("/b")]
    caretaker.disable(Path("/b"))
    there.open(Path("/b/x"), create=True).write(b"old and long", 0)
    caretaker.enable(Path("/b"))
    filling = Filling(disk, disk.keeper.targets[1], rescued)
    filling.step()
    disk.open(Path("/a/x"), create=True).write(b"new", 0)
    finish(filling)
    assert machine.states() == ["active", "active"]
    assert same(machine, "x")

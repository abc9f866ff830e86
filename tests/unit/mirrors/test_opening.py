"""Several directories at start: judged, made alike, and given as one disk."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from holdfast.errors import MirrorError, MirrorHistoriesError, MirrorsMissingError
from holdfast.mirrors.found import look
from holdfast.mirrors.opening import accept_found, is_of_a_set
from trials.mirrors.logs import Machine
from trials.simulation.local_journal import LocalJournal
from trials.simulation.simulated_disk import PowerCut, SimulatedDisk

A, B = Path("/a"), Path("/b")


def accept(machine: Machine, *directories: Path, mark: str = "mark") -> None:
    found = look(directories, lambda path: machine.disks[path])
    accept_found(found, mark)
    found.release()


def test_new_directories_are_alike_from_the_first_entry_on() -> None:
    """Nothing is confirmed by one of them alone."""
    machine = Machine("a", "b")
    machine.open()
    assert machine.states() == ["active", "active"]


def test_directory_that_was_single_is_mirrored() -> None:
    """What it holds is kept, and copied to the new one."""
    machine = Machine("a", "b")
    single = LocalJournal(machine.disks[A], directory=A)
    single.append(b"before")
    single.close()
    log = machine.open()
    assert machine.states() == ["active", "joining"]
    machine.fill()
    assert log.journal.last_index == 1
    machine.kill()
    assert machine.open(B, A).journal.last_index == 1


def test_two_single_directories_are_refused() -> None:
    """L30: neither is a mirror of the other."""
    machine = Machine("a", "b")
    for path in (A, B):
        LocalJournal(machine.disks[path], directory=path).close()
    with pytest.raises(MirrorError, match="both hold a log"):
        machine.open_disk()
    assert not machine.disks[A].locks


def test_foreign_directory_is_refused() -> None:
    """L30: a log without a set beside a set, and a mirror of another set."""
    machine, other = Machine("a", "b"), Machine("b")
    machine.open_disk(A)
    machine.kill()
    other.open()
    other.kill()
    machine.disks[B] = other.disks[B]
    with pytest.raises(MirrorError, match="two different sets"):
        machine.open_disk()
    machine.disks[B] = SimulatedDisk()
    LocalJournal(machine.disks[B], directory=B).close()
    with pytest.raises(MirrorError, match="two different sets"):
        machine.open_disk()


def test_one_missing_at_start_needs_an_operators_word() -> None:
    """L25: of two, one alone is refused; accepted it starts, and the other is filled by it."""
    machine = Machine("a", "b")
    machine.open().append(b"both")
    machine.kill()
    with pytest.raises(MirrorsMissingError, match="/b cannot be used"):
        machine.open_disk(A)
    accept(machine, A)
    machine.open(A).append(b"one")
    machine.kill()
    assert machine.open().journal.last_index == 2
    assert machine.states() == ["active", "joining"]
    machine.fill()
    assert machine.states() == ["active", "active"]


def test_stale_one_never_starts_alone() -> None:
    """L26: the other one went on without it."""
    machine = Machine("a", "b")
    machine.open().append(b"both")
    keeper = machine.caretaker.disk.keeper
    keeper.fail({keeper.active[1]: "broken"})
    machine.log.append(b"one")
    machine.kill()
    with pytest.raises(MirrorsMissingError):
        machine.open_disk(B)
    assert machine.open(A).journal.last_index == 2


def test_halves_that_were_accepted_apart_are_two_histories() -> None:
    """L27: both went on by somebody's word, and neither is filled over by the other."""
    machine = Machine("a", "b")
    machine.open().append(b"both")
    machine.kill()
    for path in (A, B):
        accept(machine, path, mark=str(path))
        machine.open(path).append(b"on " + bytes(path))
        machine.kill()
    with pytest.raises(MirrorHistoriesError, match="/a and /b went on apart"):
        machine.open_disk()


def test_logs_that_differ_are_refused_and_the_fork_is_named() -> None:
    """L27: though their sets agree, one log is no beginning of the other."""
    machine = Machine("a", "b")
    log = machine.open()
    log.append(b"both")
    machine.kill()
    for path in (A, B):
        single = LocalJournal(machine.disks[path], directory=path)
        single.append(b"only on " + bytes(path))
        machine.kill()
    with pytest.raises(MirrorHistoriesError, match="their logs differ from entry 2 on"):
        machine.open_disk()


@pytest.mark.parametrize("place", [0, 1])
def test_power_cut_between_the_writes_of_two(place: int) -> None:
    """L24: in either order, at each operation; what was stored is there, on both."""
    for cut in range(1, 25):
        machine = Machine("a", "b", seed=cut)
        log = machine.open()
        log.append(b"first" * 300)
        disk = machine.disks[machine.directories[place]]
        disk.cut_at = disk.operations + cut
        try:
            for _ in range(9):
                log.append(b"more" * 900)
        except PowerCut:
            pass
        stored = dict(log.stored)
        machine.cut_power()
        log = machine.open()
        assert machine.states() == ["active", "active"]
        assert all(log.journal.entry(it).raw == entry.raw for it, entry in stored.items())
        for name in ("ballot", "journal/" + log.segment_path().name):
            assert machine.disks[A].content(A / name) == machine.disks[B].content(B / name)


def test_power_cut_at_each_operation_of_a_start() -> None:
    """The next one is as good, and the set stays one."""
    for cut in range(1, 30):
        machine = Machine("a", "b", seed=cut)
        machine.open().append(b"first")
        machine.kill()
        disk = machine.disks[machine.directories[cut % 2]]
        disk.cut_at = disk.operations + cut
        try:
            machine.open()
        except PowerCut:
            pass
        machine.cut_power()
        assert machine.open().journal.last_index == 1
        assert machine.states() == ["active", "active"]


def test_whole_set_moves_to_other_directories() -> None:
    """Another machine, other mount points, another order: it is the same set."""
    machine = Machine("a", "b")
    machine.open().append(b"first")
    machine.kill()
    assert machine.open(B, A).journal.last_index == 1
    assert sorted(machine.states()) == ["active", "active"]


def test_directory_that_is_of_a_set_is_told() -> None:
    """A single one may have been one of several."""
    machine = Machine("a")
    assert not is_of_a_set(A, machine.disks[A])
    machine.open_disk()
    assert is_of_a_set(A, machine.disks[A])


def test_a_set_that_can_be_written_nowhere_is_said_so() -> None:
    """Of each directory why; it was no sentence at all where none was left."""
    machine = Machine("a", "b")
    machine.open_disk()
    machine.kill()
    for disk in machine.disks.values():
        disk.fail_next["sync"] = errno.EROFS
    with pytest.raises(MirrorError, match=r"/[ab] cannot be written: simulated failure"):
        machine.open_disk()

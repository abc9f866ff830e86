"""What is found in directories, before anything of it is believed."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.errors import MirrorError, MirrorsMissingError, StoreLockedError
from holdfast.mirrors.found import look, require_apart
from trials.mirrors.logs import Machine
from trials.simulation.simulated_disk import SimulatedDisk

A, B = Path("/a"), Path("/b")


@pytest.fixture
def machine() -> Machine:
    machine = Machine("a", "b")
    machine.open_disk()
    machine.kill()
    return machine


def test_members_and_empty_ones_are_told_apart(machine: Machine) -> None:
    """An empty directory is locked as well."""
    machine.disks[B] = SimulatedDisk()
    found = look([A, B], lambda path: machine.disks[path])
    assert [it.is_empty for it in found.each] == [False, True]
    assert len(found.copies) == 1
    assert machine.disks[B].locks
    found.release()
    assert not machine.disks[A].locks | machine.disks[B].locks


def test_directory_in_use_is_refused_and_the_others_let_go(machine: Machine) -> None:
    """A lock in each: no second process has any of them."""
    machine.disks[B].locks.add(B / "lock")
    with pytest.raises(StoreLockedError, match="/b is in use"):
        look([A, B], lambda path: machine.disks[path])
    assert not machine.disks[A].locks


def test_copy_of_a_mirror_is_no_mirror(machine: Machine) -> None:
    """Two directories of one member would count twice."""
    content = machine.disks[A].content(A / "mirror-set")
    machine.disks[B].replace_content(B / "mirror-set", content)
    with pytest.raises(MirrorError, match="/b is a copy of /a"):
        look([A, B], lambda path: machine.disks[path])


def test_unreadable_set_is_a_problem_of_that_directory(machine: Machine) -> None:
    """The others may do without it."""
    machine.disks[B].replace_content(B / "mirror-set", b"\xff" * 8192)
    found = look([A, B], lambda path: machine.disks[path])
    assert "unreadable" in found.each[1].problem
    assert list(found.members) == [found.each[0].member]


def test_errors_name_directories(machine: Machine) -> None:
    """Whoever reads it knows directories, and is told the command."""
    found = look([A], lambda path: machine.disks[path])
    (mine,) = found.copies
    (other,) = found.copies[mine].active - {mine}
    told = str(found.named(MirrorsMissingError([other], [mine])))
    assert "/b cannot be used, and /a alone may lack messages" in told
    assert "'holdfast mirror accept --data /a'" in told


def test_one_that_was_left_behind_is_told_that_only_others_help(machine: Machine) -> None:
    """No acceptance makes it one that has what was confirmed, so none is named."""
    found = look([A], lambda path: machine.disks[path])
    (mine,) = found.copies
    (other,) = found.copies[mine].active - {mine}
    told = str(found.named(MirrorsMissingError([other], [])))
    assert "/b cannot be used, and none alone may lack messages" in told
    assert told.endswith("lacks what was confirmed since: give one of them")
    assert "accept" not in told


def test_mirrors_stand_apart(tmp_path: Path) -> None:
    """One inside another would be copied into itself without end; one twice is none."""
    (tmp_path / "a" / "b").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "a")
    for second, sentence in (
        (tmp_path / "a" / "b" / "c", "is inside .*a: mirrors must stand apart"),
        (tmp_path / "link" / "b", "is inside .*a: mirrors must stand apart"),
        (tmp_path / "link", "are the same directory: give each mirror one of its own"),
    ):
        for order in ([tmp_path / "a", second], [second, tmp_path / "a"]):
            with pytest.raises(MirrorError, match=sentence):
                look(order, lambda _: SimulatedDisk())
    require_apart([(it, it) for it in (tmp_path / "a", tmp_path / "ab")])

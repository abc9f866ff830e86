"""Who looks after running mirrors, and what an operator may ask."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.errors import MirrorError, StoreError
from holdfast.mirrors.set_file import FILE_NAME
from trials.mirrors.logs import Machine
from trials.simulation.simulated_disk import SimulatedDisk

A, B, C = Path("/a"), Path("/b"), Path("/c")


@pytest.fixture
def machine() -> Machine:
    machine = Machine("a", "b")
    machine.disks[C] = SimulatedDisk()
    machine.open_disk()
    return machine


def test_directory_that_is_gone_is_left_behind(machine: Machine) -> None:
    """What is written to its open files would be nowhere."""
    machine.disks[B].unlink(B / FILE_NAME)
    machine.caretaker.look()
    assert machine.states() == ["active", "failed"]


def test_directories_that_are_there_are_left_alone(machine: Machine) -> None:
    """A look changes nothing."""
    machine.caretaker.look()
    assert machine.states() == ["active", "active"]


def test_disabled_one_is_not_written_and_not_filled_at_a_start(machine: Machine) -> None:
    """Until an operator enables it."""
    machine.caretaker.disable(B)
    machine.caretaker.disk.open(A / "x", create=True)
    assert not machine.disks[B].exists(B / "x")
    machine.kill()
    machine.open_disk()
    machine.fill()
    assert machine.states() == ["active", "disabled"]
    machine.caretaker.enable(B)
    machine.fill()
    assert machine.states() == ["active", "active"]
    assert machine.disks[B].exists(B / "x")


def test_last_one_cannot_be_disabled(machine: Machine) -> None:
    """There would be nothing to write to."""
    machine.caretaker.disable(B)
    with pytest.raises(StoreError, match="the only mirror"):
        machine.caretaker.disable(A)


def test_unknown_directory_is_told_with_those_there_are(machine: Machine) -> None:
    """A typing error, and what it might have been."""
    with pytest.raises(StoreError, match="/x is none of the mirrors, which are /a, /b: name"):
        machine.caretaker.disable(Path("/x"))


def test_another_directory_takes_the_place(machine: Machine) -> None:
    """L29: the old one is no member any more, and never counts again."""
    disk = machine.caretaker.disk
    with pytest.raises(StoreError, match="disable it before"):
        machine.caretaker.replace(B, C)
    disk.keeper.fail({disk.keeper.active[1]: "broken"})
    machine.caretaker.replace(B, C)
    machine.fill()
    views = {it.directory: it.state for it in machine.caretaker.views()}
    assert views == {"/a": "active", "/c": "active"}
    assert len(disk.keeper.holding.current.states) == 2


def test_mirror_in_use_takes_no_other_ones_place(machine: Machine) -> None:
    """A slip: it was emptied and filled anew, or, as the only one left, ended the node."""
    disk = machine.caretaker.disk
    machine.caretaker.disable(B)
    with pytest.raises(StoreError, match="/a is in use already, as a mirror that is active: give"):
        machine.caretaker.replace(B, A)
    assert machine.states() == ["active", "disabled"]
    assert not disk.keeper.is_lost
    assert machine.disks[A].locks


def test_empty_directory_in_the_same_place_takes_it_over(machine: Machine) -> None:
    """L29: a new disk is mounted where the old one was."""
    disk = machine.caretaker.disk
    disk.keeper.fail({disk.keeper.active[1]: "broken"})
    machine.disks[B] = SimulatedDisk()
    machine.caretaker.enable(B)
    machine.fill()
    assert machine.states() == ["active", "active"]
    assert len(disk.keeper.holding.current.states) == 2


def test_directory_of_others_is_not_filled_over(machine: Machine) -> None:
    """L30: it holds a log, or is of another set."""
    machine.disks[C].make_directory(C)
    machine.disks[C].open(C / "ballot", create=True)
    with pytest.raises(MirrorError, match="no mirror of this store"):
        machine.caretaker.enable(C)
    other = Machine("c")
    other.open_disk()
    other.kill()
    machine.disks[C] = other.disks[C]
    with pytest.raises(MirrorError, match="a mirror of another store"):
        machine.caretaker.enable(C)
    assert not machine.disks[C].locks


def test_one_that_still_hangs_is_not_filled(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """L31: what is under way there could write over what is new."""
    disk = machine.caretaker.disk
    disk.keeper.fail({disk.keeper.active[1]: "hangs"})
    monkeypatch.setattr(disk.keeper.lanes, "is_hanging", lambda _key: True)
    with pytest.raises(StoreError, match="still hangs"):
        machine.caretaker.enable(B)


def test_one_inside_another_is_not_taken_in(machine: Machine) -> None:
    """It would be filled with itself."""
    with pytest.raises(MirrorError, match="/a/inside is inside /a"):
        machine.caretaker.enable(A / "inside")


def test_a_mirror_is_known_by_any_of_its_names(machine: Machine) -> None:
    """A link, or a way round: no other directory."""
    machine.caretaker.disable(Path("/c/../b"))
    assert machine.states() == ["active", "disabled"]
    machine.caretaker.enable(Path("/c/../b"))
    machine.fill()
    assert machine.states() == ["active", "active"]

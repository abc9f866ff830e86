"""The last mirror that has everything is waited for where it is away."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest

from holdfast.environment.disk import RealDisk
from holdfast.environment.standing_disk import AwayError
from holdfast.errors import StoreError
from holdfast.mirrors.away import are_all_away, done_once_one_is_back
from holdfast.mirrors.caretaker import Caretaker
from holdfast.mirrors.mirror import Mirror
from holdfast.mirrors.settings import MirrorSettings
from holdfast.server.mirrors import open_set
from trials.mirrors.logs import Machine
from trials.simulation.simulated_disk import SimulatedDisk

A, B = Path("/a"), Path("/b")


def mirror(directory: Path, state: str = "active") -> Mirror:
    return Mirror(directory.name, directory, SimulatedDisk(), A, state)  # type: ignore[arg-type]


def test_only_active_ones_are_asked() -> None:
    """One that is being filled has not what was confirmed; none at all are not away."""
    away, well = (None, AwayError()), (None, None)
    assert are_all_away(((mirror(A), mirror(B, "joining")), [away, well]))
    assert not are_all_away(((mirror(A), mirror(B)), [away, well]))
    assert not are_all_away(((mirror(A),), [(None, OSError())]))
    assert not are_all_away(((), []))


def test_it_is_done_once_one_is_back(caplog: pytest.LogCaptureFixture) -> None:
    """However often that is tried: once it is told that it is away, and once that it is back."""
    caplog.set_level(logging.INFO, logger="holdfast.mirrors")
    outcomes = [AwayError(), AwayError(), None]
    rests: list[float] = []
    told = done_once_one_is_back(lambda: ((mirror(A),), [(None, outcomes.pop(0))]), rests.append)
    assert [(None, None)] == told[1]
    assert 2 == len(rests)
    assert ["CRITICAL", "WARNING"] == [it.levelname for it in caplog.records]
    assert "/a: replaced, moved or removed while in use" in caplog.text


def test_of_two_mirrors_the_one_that_is_away_is_left_behind_and_the_last_is_waited_for() -> None:
    """Nothing is written into a copy, and what was confirmed is on one that is where it was."""
    machine = Machine("a", "b")
    disk = machine.open_disk().disk
    file = disk.open(A / "x", create=True)
    machine.disks[B].put_copy_in_place()
    before = machine.disks[B].snapshot()
    file.write(b"one", 0)
    file.sync()
    assert ["active", "failed"] == machine.states()
    assert before == machine.disks[B].snapshot()
    machine.disks[A].put_copy_in_place()
    rests: list[float] = []

    def bring_back(seconds: float) -> None:
        rests.append(seconds)
        machine.disks[A].copies = 0

    disk.rest = bring_back
    file.write(b"two", 0)
    file.sync()
    assert 1 == len(rests)
    assert ["active", "failed"] == machine.states()


def test_one_that_is_away_is_seen_where_nobody_writes() -> None:
    """Each second it is looked at; before, only whether a set of the same member is there."""
    machine = Machine("a", "b")
    machine.open_disk()
    machine.disks[B].put_copy_in_place()
    machine.caretaker.look()
    assert ["active", "failed"] == machine.states()


def test_last_mirror_is_waited_for_whatever_asks() -> None:
    """Names that are asked for too; but the loop asks how much room there is, and may not wait."""
    machine = Machine("a", "b")
    disk = machine.open_disk().disk
    disk.open(A / "x", create=True).sync()
    machine.disks[B].put_copy_in_place()
    disk.open(A / "x").sync()
    assert ["active", "failed"] == machine.states()
    free, names = disk.free_bytes(A), disk.list_directory(A)
    rests: list[float] = []

    def bring_back(seconds: float) -> None:
        rests.append(seconds)
        machine.disks[A].copies = 0

    disk.rest = bring_back
    machine.disks[A].put_copy_in_place()
    assert free == disk.free_bytes(A)
    assert not rests
    assert disk.exists(A / "x")
    assert 1 == len(rests)
    machine.disks[A].put_copy_in_place()
    assert names == disk.list_directory(A)
    assert 2 == len(rests)
    assert ["active", "failed"] == machine.states()


def test_backup_that_is_brought_back_into_one_is_seen_where_nobody_writes(tmp_path: Path) -> None:
    """Its set and its lock are as they were: the file that is open there has no name any more."""
    directories = [tmp_path / "a", tmp_path / "b"]
    caretaker = open_set(directories, RealDisk(), MirrorSettings())
    lock = caretaker.disk.lock(directories[0] / "lock")
    file = caretaker.disk.open(directories[0] / "x", create=True)
    file.sync()
    caretaker.look()
    assert ["active", "active"] == [it.state for it in caretaker.views()]
    (tmp_path / "draft").write_bytes(b"")
    (tmp_path / "draft").replace(directories[1] / "x")
    caretaker.look()
    assert ["active", "failed"] == [it.state for it in caretaker.views()]
    assert "x in it is another file" in caretaker.views()[1].reason
    file.write_durable([b"one"], 0)
    file.close()
    lock.release()
    assert b"one" == (directories[0] / "x").read_bytes()
    assert b"" == (directories[1] / "x").read_bytes()


def one_being_filled(top: Path) -> Caretaker:
    """A has everything, B is being filled, and what is open of A stays open."""
    caretaker = open_set([top / "a", top / "b"], RealDisk(), MirrorSettings())
    disk = caretaker.disk
    disk.lock(top / "a" / "lock")
    for name in ("ballot", "x", "y"):
        file = disk.open(top / "a" / name, create=True)
        file.write(b"x" * 100, 0)
        file.sync()
    caretaker.disable(top / "b")
    caretaker.enable(top / "b")
    disk.rest = disk.keeper.rest = lambda _seconds: None
    return caretaker


def states_of(caretaker: Caretaker) -> list[str]:
    return [it.state for it in caretaker.views()]


def test_what_is_filled_begins_anew_once_its_source_is_back(tmp_path: Path) -> None:
    """That is no fault of its own, and the set is not changed: none would be left."""
    caretaker = one_being_filled(tmp_path)
    for _ in range(4):
        caretaker.turn()
    (tmp_path / "a").rename(tmp_path / "away")
    for _ in range(3):
        caretaker.turn()
    assert states_of(caretaker) == ["active", "joining"]
    (tmp_path / "away").rename(tmp_path / "a")
    for _ in range(60):
        caretaker.turn()
    assert states_of(caretaker) == ["active", "active"]
    assert not caretaker.disk.keeper.is_lost
    for name in ("ballot", "x", "y"):
        assert (tmp_path / "b" / name).read_bytes() == b"x" * 100
    caretaker.disk.close()


def test_operator_changes_nothing_while_the_last_one_is_away(tmp_path: Path) -> None:
    """To enable an empty one, or to take one out, would end the process with the only copy."""
    caretaker = one_being_filled(tmp_path)
    caretaker.disable(tmp_path / "b")
    (tmp_path / "a").rename(tmp_path / "away")
    (tmp_path / "c").mkdir()
    for act in (
        lambda: caretaker.enable(tmp_path / "b"),
        lambda: caretaker.enable(tmp_path / "c"),
        lambda: caretaker.replace(tmp_path / "b", tmp_path / "c"),
    ):
        with pytest.raises(StoreError, match="no other mirror has everything: nothing is changed"):
            act()
    assert not caretaker.disk.keeper.is_lost
    (tmp_path / "away").rename(tmp_path / "a")
    caretaker.enable(tmp_path / "b")
    assert states_of(caretaker) == ["active", "joining"]
    caretaker.disk.close()


def test_set_is_written_once_the_last_one_is_back(tmp_path: Path) -> None:
    """Another one failed in that moment."""
    caretaker = one_being_filled(tmp_path)
    keeper = caretaker.disk.keeper
    (tmp_path / "a").rename(tmp_path / "away")

    def bring_back(_seconds: float) -> None:
        if not (tmp_path / "a").exists():
            (tmp_path / "away").rename(tmp_path / "a")

    keeper.rest = bring_back
    keeper.fail({keeper.mirrors[1]: "it is worn out"})
    assert states_of(caretaker) == ["active", "failed"]
    assert not keeper.is_lost
    caretaker.disk.close()

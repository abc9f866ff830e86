"""Spare segments are filled ahead, old ones removed, a full disk survived."""

from __future__ import annotations

import errno
import time
from pathlib import Path

import pytest

from holdfast.journal.housekeeper import Housekeeper, Note
from holdfast.journal.segment import segment_name
from holdfast.journal.settings import JournalSettings, KiB, MiB
from trials.simulation.simulated_disk import SimulatedDisk

DIRECTORY = Path("/log")
SETTINGS = JournalSettings(segment_bytes=16 * KiB, spare_segments=2)


@pytest.fixture
def disk() -> SimulatedDisk:
    disk = SimulatedDisk()
    disk.make_directory(DIRECTORY)
    return disk


def test_spares_are_filled_until_there_are_enough(disk: SimulatedDisk) -> None:
    """A spare is offered once it is full of zeros; when one is taken another is made."""
    housekeeper = Housekeeper(DIRECTORY, disk, SETTINGS)
    assert housekeeper.take_spare() is None
    while housekeeper.turn():
        pass
    assert housekeeper.spare_count == 2
    path = housekeeper.take_spare()
    assert path is not None
    assert disk.content(path) == bytes(16 * KiB)
    assert housekeeper.turn()
    assert housekeeper.spare_count == 2


def test_a_large_spare_is_filled_in_steps(disk: SimulatedDisk) -> None:
    """One turn writes a bounded piece, so that the writer's syncs are not held up."""
    settings = JournalSettings(segment_bytes=10 * MiB)
    housekeeper = Housekeeper(DIRECTORY, disk, settings)
    turns = 0
    while housekeeper.turn():
        turns += 1
    assert turns == 10


def test_a_full_disk_is_told_and_tried_again(disk: SimulatedDisk) -> None:
    """Without room nothing is left behind; with room again a spare is made."""
    housekeeper = Housekeeper(DIRECTORY, disk, SETTINGS)
    disk.fail_next["write"] = errno.ENOSPC
    assert not housekeeper.turn()
    assert housekeeper.is_out_of_space
    assert disk.list_directory(DIRECTORY) == []
    assert housekeeper.turn()
    assert not housekeeper.is_out_of_space


def test_what_cannot_be_removed_is_told_and_tried_again(
    disk: SimulatedDisk, caplog: pytest.LogCaptureFixture
) -> None:
    """It costs its room: the others go, a note that speaks of it stays, and it is said once."""
    paths = [DIRECTORY / name for name in ("1", "2", "3")]
    note = DIRECTORY / "note"
    for path in (*paths, note):
        disk.open(path, create=True)
    housekeeper = Housekeeper(DIRECTORY, disk, SETTINGS)
    disk.refuse_unlink = {paths[1]}
    housekeeper.drop(paths, 9, note=Note(note, DIRECTORY / "note of what goes"))
    assert disk.list_directory(DIRECTORY) == ["2", "note of what goes"]
    housekeeper.drop([], 9)
    assert {paths[1]} == housekeeper.unremovable
    assert 1 == caplog.text.count("cannot remove")

    disk.refuse_unlink.clear()
    housekeeper.drop([], 9)
    assert (set(), []) == (housekeeper.unremovable, disk.list_directory(DIRECTORY))


def test_in_turns_what_cannot_be_removed_waits_until_all_else_is_done(disk: SimulatedDisk) -> None:
    """It never keeps a spare file from being made, and is tried once each time round."""
    stuck = DIRECTORY / "1"
    disk.open(stuck, create=True)
    housekeeper = Housekeeper(DIRECTORY, disk, SETTINGS)
    housekeeper.is_driven = True
    disk.refuse_unlink = {stuck}
    housekeeper.drop([stuck], 2)
    for _ in range(3):
        turns = 0
        while housekeeper.turn():
            turns += 1
            assert turns < 10
        assert (2, {stuck}) == (housekeeper.spare_count, housekeeper.unremovable)
    disk.refuse_unlink.clear()
    while housekeeper.turn():
        pass
    assert not housekeeper.unremovable
    assert not disk.exists(stuck)


@pytest.mark.parametrize("number", [errno.EMFILE, errno.ENFILE])
def test_too_many_open_files_are_waited_out(
    disk: SimulatedDisk, number: int, caplog: pytest.LogCaptureFixture
) -> None:
    """A descriptor that is not to be had says nothing about the disk: later it is, and all goes on.

    It is said once, however often it is tried; and no name is dropped before the last one durably
    is.
    """
    housekeeper, told = Housekeeper(DIRECTORY, disk, SETTINGS), []
    housekeeper.on_failure = told.append
    for _ in range(3):
        disk.fail_next["open"] = number
        assert not housekeeper.turn()
        assert housekeeper.is_out_of_descriptors
    assert len(caplog.messages) == 1
    assert not housekeeper.is_out_of_space
    while housekeeper.turn():
        pass
    assert (housekeeper.spare_count, housekeeper.is_out_of_descriptors) == (2, False)

    for name in ("1", "2"):
        disk.open(DIRECTORY / name, create=True)
    disk.fail_next["sync_directory"] = number
    housekeeper.drop([DIRECTORY / "1", DIRECTORY / "2"], 9)
    assert disk.exists(DIRECTORY / "2")
    while housekeeper.turn():
        pass
    assert not disk.exists(DIRECTORY / "2")
    assert (told, housekeeper.failure) == ([], None)


@pytest.mark.parametrize("step", ["sync_directory", "sync", "write"])
def test_a_failed_sync_ends_all_work_on_the_disk(disk: SimulatedDisk, step: str) -> None:
    """The kernel tells of it once, and it may have covered what the writer is to sync next."""
    housekeeper, told = Housekeeper(DIRECTORY, disk, SETTINGS), []
    housekeeper.on_failure = told.append
    for name in ("1", "2"):
        disk.open(DIRECTORY / name, create=True)
    disk.fail_next[step] = errno.EIO
    if step == "sync_directory":
        housekeeper.drop([DIRECTORY / "1", DIRECTORY / "2"], 9)
        assert disk.list_directory(DIRECTORY) == ["2"]
    assert not housekeeper.turn()
    assert told == [housekeeper.failure]
    with pytest.raises(OSError, match=r"sync|write|EIO|error"):
        housekeeper.sync_directory()
    assert not housekeeper.turn()
    assert len(told) == 1


def test_where_somebody_takes_its_turns_a_drop_waits_for_one(disk: SimulatedDisk) -> None:
    """As with the thread: the one who drops a file goes on before it is gone."""
    housekeeper = Housekeeper(DIRECTORY, disk, SETTINGS)
    housekeeper.is_driven = True
    path = DIRECTORY / "1.segment"
    disk.open(path, create=True)
    housekeeper.drop([path], 2)
    assert disk.exists(path)
    assert housekeeper.turn()
    assert not disk.exists(path)
    disk.open(path, create=True)
    housekeeper.drop([path], 2)
    housekeeper.close()
    assert not disk.exists(path)


def test_closing_leaves_no_spares(disk: SimulatedDisk) -> None:
    """A clean stop takes spare and half-filled files away."""
    settings = JournalSettings(segment_bytes=2 * MiB)
    housekeeper = Housekeeper(DIRECTORY, disk, settings)
    housekeeper.turn()
    housekeeper.close()
    assert disk.list_directory(DIRECTORY) == []


def test_the_thread_does_the_same(disk: SimulatedDisk) -> None:
    """Started, it fills spares and removes files by itself, and stops when told."""
    disk.open(DIRECTORY / "1", create=True)
    housekeeper = Housekeeper(DIRECTORY, disk, SETTINGS)
    housekeeper.start()
    housekeeper.drop([DIRECTORY / "1"], 9)
    deadline = time.monotonic() + 10
    while housekeeper.spare_count < 2 or disk.exists(DIRECTORY / "1"):
        assert time.monotonic() < deadline
    housekeeper.close()
    assert disk.list_directory(DIRECTORY) == []


def test_the_thread_waits_while_the_disk_is_full(disk: SimulatedDisk) -> None:
    """A full disk does not end the thread."""
    disk.fail_next["write"] = errno.ENOSPC
    housekeeper = Housekeeper(DIRECTORY, disk, SETTINGS)
    housekeeper.start()
    deadline = time.monotonic() + 10
    while not housekeeper.is_out_of_space:
        assert time.monotonic() < deadline
    housekeeper.take_spare()
    while housekeeper.spare_count < 2:
        assert time.monotonic() < deadline
    housekeeper.close()


def test_only_a_file_of_the_log_says_where_the_log_begins(disk: SimulatedDisk) -> None:
    """What was kept elsewhere, or put aside, goes when the log may have been begun anew."""
    housekeeper, noted = Housekeeper(DIRECTORY, disk, SETTINGS), []
    housekeeper.note_first = noted.append
    stuck = DIRECTORY / segment_name(1)
    elsewhere = DIRECTORY.parent / "kept" / segment_name(5)
    disk.make_directory(elsewhere.parent)
    for path in (stuck, elsewhere):
        disk.open(path, create=True)
    disk.refuse_unlink = {stuck}
    housekeeper.drop([stuck], 9)
    housekeeper.drop([elsewhere], 200)
    assert [9] == noted
    assert not disk.exists(elsewhere)
    assert {aside.name for aside in housekeeper.unremovable} == {f"spare-{stuck.stem}-0.tmp"}


def test_a_note_that_cannot_be_renamed_keeps_no_file(disk: SimulatedDisk) -> None:
    """Their room is worth more than what its name says."""
    paths = [DIRECTORY / "1", DIRECTORY / "2"]
    note = Note(DIRECTORY / "note", DIRECTORY / "note of what goes")
    for path in (*paths, note.path):
        disk.open(path, create=True)
    housekeeper = Housekeeper(DIRECTORY, disk, SETTINGS)
    disk.refuse_rename = {note.path}
    housekeeper.drop(paths, 0, note=note)
    assert disk.list_directory(DIRECTORY) == []

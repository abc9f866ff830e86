"""What one mirror has lost and another has whole is brought back, before bytes go to all."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.errors import MirrorHistoriesError
from holdfast.journal.ballot import NO_CLAIM
from holdfast.journal.checkpoint import CheckpointStore, checkpoint_name, whole_checkpoints
from holdfast.journal.segment import SEGMENT_HEADER_BYTES
from holdfast.server import mirrored_log
from holdfast.server.mirror_mending import (
    judge,
    mend_checkpoints,
    mend_log,
    restore_files,
)
from trials.mirrors.logs import Machine, lost_by

A, B = Path("/a"), Path("/b")
COUNT = 30


def with_entries() -> tuple[Machine, dict[int, bytes]]:
    """Two mirrors of several segments, the process gone; what each entry is."""
    machine = Machine("a", "b")
    log = machine.open()
    for number in range(COUNT):
        log.append(bytes([number]) * 1500)
    entries = {index: log.journal.entry(index).raw for index in range(1, COUNT + 1)}
    machine.kill()
    return machine, entries


def spoil(machine: Machine, directory: Path, first: int, last: int) -> None:
    """Let everything of these entries rot, their headers too."""
    journal = machine.log.journal
    path, start, _ = journal.place_of(first)
    _, end, size = journal.place_of(last)
    disk = machine.disks[directory]
    for byte in range(start, end + size):
        disk.flip_bit(directory / "journal" / path.name, byte * 8)


def in_one_segment(machine: Machine) -> tuple[int, int]:
    """The second and the last but one entry of a segment in the middle."""
    journal = machine.log.journal
    name = journal.place_of(COUNT // 2)[0].name
    inside = [it for it in range(1, COUNT + 1) if journal.place_of(it)[0].name == name]
    return inside[1], inside[-2]


def alike(machine: Machine) -> bool:
    """Whether the files of both mirrors are the same."""
    names = machine.disks[A].list_directory(A / "journal")
    return all(
        machine.disks[A].content(A / "journal" / it) == machine.disks[B].content(B / "journal" / it)
        for it in names
        if it.endswith(".segment")
    )


@pytest.mark.parametrize("longer", [A, B])
def test_a_run_of_entries_is_mended_headers_and_all(longer: Path) -> None:
    """L28: also where the rotten one is longer, by an entry that came to it alone."""
    machine, entries = with_entries()
    first, last = in_one_segment(machine)
    shorter = B if longer == A else A
    spoil(machine, longer, first, last)
    journal = machine.log.journal
    path, start, size = journal.place_of(COUNT)
    disk = machine.disks[shorter]
    there = shorter / "journal" / path.name
    content = disk.content(there)
    disk.replace_content(there, content[:start] + bytes(size) + content[start + size :])

    journal = machine.open().journal

    assert journal.damage == []
    assert {index: journal.entry(index).raw for index in entries} == entries
    assert alike(machine)


def test_runs_in_different_places_are_mended_on_both() -> None:
    """L28: each has what the other lacks, and one has lost the head of a file besides."""
    machine, entries = with_entries()
    first, last = in_one_segment(machine)
    spoil(machine, A, first, first)
    spoil(machine, B, first + 1, last)
    path = machine.log.journal.place_of(last)[0]
    for byte in range(SEGMENT_HEADER_BYTES):
        machine.disks[A].flip_bit(A / "journal" / path.name, byte * 8)

    journal = machine.open().journal

    assert journal.damage == []
    assert {index: journal.entry(index).raw for index in entries} == entries
    assert alike(machine)


def test_files_that_each_has_lost_come_back() -> None:
    """Neither log can be read as it is; together they are whole."""
    machine, entries = with_entries()
    names = [it for it in machine.disks[A].list_directory(A / "journal") if "segment" in it]
    assert len(names) > 4
    for directory, name in ((A, names[1]), (B, names[3])):
        machine.disks[directory].unlink(directory / "journal" / name)
        machine.disks[directory].sync_directory(directory / "journal")

    journal = machine.open().journal

    assert {index: journal.entry(index).raw for index in entries} == entries
    assert alike(machine)


def test_rot_does_not_hide_that_two_logs_differ() -> None:
    """Where the last entry of one cannot be read, the one before it is compared."""
    machine = Machine("a", "b")
    other = Machine("a", "b")
    for number, each in enumerate((machine, other)):
        log = each.open()
        for entry in range(5):
            log.append(bytes([entry, number]) * 700)
        each.kill()
    path = machine.log.journal.place_of(5)[0]
    content = other.disks[B].content(B / "journal" / path.name)
    machine.disks[B].replace_content(B / "journal" / path.name, content)
    spoil(machine, A, 5, 5)
    with pytest.raises(MirrorHistoriesError, match="differ from entry 1 on"):
        machine.open()


def test_a_checkpoint_comes_back_from_whoever_has_it() -> None:
    """A log that was cleaned cannot be read without one."""
    machine, _ = with_entries()
    places = [(it, machine.disks[it]) for it in (A, B)]
    for directory, disk in places:
        store = CheckpointStore(directory, disk)
        for index in (3, 7):
            store.save(index, 1, bytes(16), index + 1, 1, [b"state"])
    machine.disks[A].flip_bit(A / "checkpoints" / checkpoint_name(3), 700)
    machine.disks[B].unlink(B / "checkpoints" / checkpoint_name(7))
    best, other = (judge(it, NO_CLAIM) for it in places)

    assert mend_checkpoints(best, [other]) == 1
    assert whole_checkpoints(A, machine.disks[A]) == {3, 7}
    assert mend_checkpoints(best, [other]) == 0


def test_a_whole_log_is_left_as_it_is() -> None:
    """Nothing is written where nothing is wrong."""
    machine, _ = with_entries()
    best, other = (judge((it, machine.disks[it]), NO_CLAIM) for it in (A, B))

    assert mend_log(best, [other]) == 0
    assert restore_files(best, [other], 1) == 0


def test_a_seed_loses_without_the_mending(monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulator draws it: runs of rot while no process is there."""
    assert lost_by(2) == ""
    monkeypatch.setattr(mirrored_log, "mend_log", lambda *_: 0)
    assert lost_by(2) != ""


@pytest.mark.parametrize("is_restarted", [True, False])
def test_filling_takes_what_the_one_to_be_filled_has_whole(is_restarted: bool) -> None:
    """The trouble of a RAID that is rebuilt: what it writes over was the only good copy."""
    machine, entries = with_entries()
    machine.open()
    machine.caretaker.disable(B)
    first, last = in_one_segment(machine)
    spoil(machine, A, first, last)
    if is_restarted:
        machine.kill()
        machine.open()
    machine.caretaker.enable(B)
    machine.fill()
    assert machine.states() == ["active", "active"]
    assert alike(machine)
    machine.kill()
    journal = machine.open().journal
    assert journal.damage == []
    assert {index: journal.entry(index).raw for index in entries} == entries

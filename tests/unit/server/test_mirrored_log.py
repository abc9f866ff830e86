"""The logs of several mirrors are made alike at start, each damage by another one's copy."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.errors import CorruptEntryError
from trials.mirrors.logs import Machine

A, B = Path("/a"), Path("/b")


def with_entries() -> Machine:
    machine = Machine("a", "b")
    log = machine.open()
    for number in range(6):
        log.append(bytes([number]) * 1500)
    machine.kill()
    return machine


def rot(machine: Machine, directory: Path, index: int) -> None:
    path, byte, size = machine.log.journal.place_of(index)
    there = directory / "journal" / path.name
    machine.disks[directory].flip_bit(there, (byte + size // 2) * 8)


def test_damage_in_different_entries_is_mended_on_both() -> None:
    """L28: each has what the other lacks."""
    machine = with_entries()
    rot(machine, A, 2)
    rot(machine, B, 5)
    journal = machine.open().journal
    assert journal.damage == []
    name = journal.place_of(2).path.name
    for index in range(1, 7):
        assert journal.entry(index).raw[-8:] is not None
    contents = [machine.disks[it].content(it / "journal" / name) for it in (A, B)]
    assert contents[0] == contents[1]


def test_damage_in_the_same_entry_is_told() -> None:
    """L28: nobody has it, and it is refused as on a single disk."""
    machine = with_entries()
    rot(machine, A, 2)
    rot(machine, B, 2)
    journal = machine.open().journal
    assert [it.index for it in journal.damage] == [2]
    with pytest.raises(CorruptEntryError):
        journal.entry(2)


@pytest.mark.parametrize("directory", [A, B])
def test_damage_that_is_found_while_reading_is_mended(directory: Path) -> None:
    """L28: a reader gets the entry, and the bad copy is written again."""
    machine = with_entries()
    journal = machine.open().journal
    rot(machine, directory, 3)
    assert journal.entry(3).index == 3
    path, byte, size = journal.place_of(3)
    disk = machine.caretaker.disk
    disk.mend(path, byte, size, journal.entry(3).raw.__eq__)  # as the scrubber does
    contents = [machine.disks[it].content(it / "journal" / path.name) for it in (A, B)]
    assert contents[0] == contents[1]
    assert disk.mended_total == 1


def test_missing_file_comes_from_the_other_mirror() -> None:
    """One that lost its segments is made anew, not taken for an empty log."""
    machine = with_entries()
    name = machine.log.segment_path().name
    machine.disks[B].unlink(B / "journal" / name)
    machine.disks[B].sync_directory(B / "journal")
    assert machine.open().journal.last_index == 6
    assert machine.disks[A].content(A / "journal" / name) == machine.disks[B].content(
        B / "journal" / name
    )


def test_newest_ballot_is_that_of_all() -> None:
    """A vote that came to one of them only counts: it may have been told."""
    machine = with_entries()
    spoiled = bytes(4096 * 2)
    machine.disks[A].replace_content(A / "ballot", spoiled)
    journal = machine.open().journal
    assert journal.ballot_error is None
    assert journal.ballot_file.current is not None
    assert machine.disks[A].content(A / "ballot") != spoiled

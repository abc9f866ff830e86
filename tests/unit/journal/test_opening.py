"""A data directory at start: taken by one process, and brought to a good state."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.environment.disk import RealDisk
from holdfast.errors import (
    BallotLostError,
    StoreError,
    StoreLockedError,
)
from holdfast.journal.journal import Journal
from holdfast.journal.settings import KiB
from trials.simulation.local_journal import SMALL, LocalJournal
from trials.simulation.simulated_disk import SimulatedDisk


def fill(log: LocalJournal, count: int = 12) -> None:
    """Append entries with 0, 1, 2, 0, 1, 2 ... records, four to a segment or so."""
    for number in range(count):
        log.append(*[bytes([65 + number]) * 1500] * (number % 3))


def test_one_process_per_directory(log: LocalJournal, disk: SimulatedDisk) -> None:
    """The second is told who is in its way; after a close the directory is free."""
    with pytest.raises(StoreLockedError, match="in use by another process"):
        Journal.open(Path("/node"), disk, SMALL)
    log.close()
    Journal.open(Path("/node"), disk, SMALL).close()


def test_a_failed_open_frees_the_directory(log: LocalJournal, disk: SimulatedDisk) -> None:
    """After a refusal the operator can mend and try again."""
    log.close()
    disk.open(Path("/node/journal/foreign"), create=True)
    with pytest.raises(StoreError, match="foreign"):
        log._open()
    disk.unlink(Path("/node/journal/foreign"))
    log._open()


def test_a_path_that_cannot_be_a_directory_is_named(tmp_path: Path) -> None:
    """A file where the directory should be is no crash."""
    (tmp_path / "data").write_text("hello")
    with pytest.raises(StoreError, match="cannot be used as a data directory"):
        Journal.open(tmp_path / "data", RealDisk(), SMALL)


def test_a_lost_ballot_does_not_keep_the_log_from_opening(
    log: LocalJournal, disk: SimulatedDisk
) -> None:
    """The log can be read and verified; that the vote is lost is told."""
    fill(log, 3)
    log.close()
    for slot in (0, 1):
        disk.flip_bit(Path("/node/ballot"), slot * 4096 * 8 + 99)
    log._open()
    assert isinstance(log.journal.ballot_error, BallotLostError)
    assert log.journal.last_index == 3


def test_spare_files_of_an_earlier_life_are_removed(log: LocalJournal, disk: SimulatedDisk) -> None:
    """Whether a left-over spare is full of zeros nobody knows, so it is not used."""
    while log.journal.housekeeper.turn():
        pass
    assert log.journal.bytes_on_disk == 2 * 16 * KiB
    log.journal.close()
    disk.open(Path("/node/journal/spare-000001.tmp"), create=True)
    log._open()
    assert disk.list_directory(Path("/node/journal")) == []


@pytest.mark.parametrize("failing", range(3))
def test_a_segment_that_could_not_be_removed_is_no_part_of_the_log(
    log: LocalJournal, disk: SimulatedDisk, failing: int
) -> None:
    """
    Others behind it are gone: together they would look like a log with files missing.

    Each goes on being tried, and takes nothing along but its own room.
    """
    fill(log, 24)
    first = log.journal.segments()[3].base_index
    disk.refuse_unlink = {log.segment_path(failing)}
    log.journal.drop_before(first)
    log.writer.save_floor()

    for _ in range(2):
        log.reopen_after_power_cut()
        assert (first, []) == (log.journal.first_index, log.journal.damage)
        assert 1 == len(log.journal.housekeeper.unremovable)
        assert 24 == log.journal.last_index
    disk.refuse_unlink = set()
    log.reopen_after_power_cut()
    assert not log.journal.housekeeper.unremovable
    assert not [
        it
        for it in disk.durable_paths()
        if it.name < log.segment_path().name and it.suffix == ".segment"
    ]


def test_a_spare_that_cannot_be_removed_keeps_nobody_from_starting(
    log: LocalJournal, disk: SimulatedDisk
) -> None:
    """Nor is it taken for a fresh one: what stands in it may be anything."""
    left = Path("/node/journal/spare-000001.tmp")
    disk.open(left, create=True)
    disk.refuse_unlink = {left}
    log.reopen()
    assert {left} == log.journal.housekeeper.unremovable
    assert left != log.journal.housekeeper.new_path()

"""The log as the rest of the program sees it."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from holdfast.environment.disk import RealDisk
from holdfast.errors import (
    JournalFailedError,
    RecordNotFoundError,
)
from holdfast.journal.entry import FIRST_CHAIN
from holdfast.journal.segment import file_digest
from holdfast.journal.settings import JournalSettings, KiB, MiB
from trials.simulation.local_journal import SMALL, LocalJournal
from trials.simulation.simulated_disk import SimulatedDisk


def test_an_empty_log_has_a_beginning_and_no_end(log: LocalJournal) -> None:
    """Index 1 and record 1 come first; nothing is on disk before the first entry."""
    journal = log.journal
    assert (journal.first_index, journal.last_index, journal.stored_index) == (1, 0, 0)
    assert (journal.last_term, journal.last_chain) == (0, FIRST_CHAIN)
    assert (journal.next_record_number, journal.last_timestamp) == (1, 0)
    assert journal.previous(1) == (0, FIRST_CHAIN, 1)
    assert log.disk.list_directory(Path("/node/journal")) == []


def test_indexes_outside_the_log_are_refused(log: LocalJournal) -> None:
    """Neither before the first nor after the last entry is there anything."""
    log.fill(3)
    for read in (log.journal.entry, log.journal.term_at, log.journal.place_of):
        with pytest.raises(RecordNotFoundError, match="entry 4 is not in the log"):
            read(4)
    assert log.journal.term_at(0) == 0


def test_the_same_log_has_the_same_files_on_every_node(log: LocalJournal) -> None:
    """Sealed segments are identical however the entries were grouped into writes."""
    log.fill()
    other = LocalJournal(SimulatedDisk(7), settings=SMALL)
    other.perform(other.journal.stage([log.stored[i] for i in range(1, 6)]))
    for index in range(6, 13):
        other.perform(other.journal.stage([log.stored[index]]))
    sealed = [it.path for it in log.journal.segments() if it.sealed]
    assert sealed
    for path in sealed:
        assert file_digest(log.disk, path) == file_digest(other.disk, path)


def test_a_log_can_begin_at_any_index(log: LocalJournal) -> None:
    """A replica too far behind starts from the leader's first kept segment."""
    log.fill()
    log.perform(log.journal.stage_reset(1_000, 7, b"c" * 16, 5_000))
    log.stored.clear()
    journal = log.journal
    assert (journal.first_index, journal.last_index) == (1_000, 999)
    assert (journal.stored_index, journal.last_term) == (999, 7)
    assert journal.previous(1_000) == (7, b"c" * 16, 5_000)
    entry = log.append(b"x")
    assert entry.index == 1_000
    reopened = log.reopen()
    assert (reopened.first_index, reopened.last_index) == (1_000, 1_000)
    assert reopened.previous(1_000) == (7, b"c" * 16, 5_000)
    assert reopened.locate_record(5_000) == (entry, 0)


@pytest.mark.promise("F17")
def test_space_runs_low_before_it_runs_out(log: LocalJournal) -> None:
    """Low under the reserve, ok again only a segment above it, looked up now and then."""
    reserve = 64 * KiB
    settings = JournalSettings(segment_bytes=16 * KiB, reserve_bytes=reserve)
    disk = SimulatedDisk(capacity=1 * MiB)
    log = LocalJournal(disk, settings=settings)
    assert log.journal.space_state(0.0) == "ok"
    hog = disk.open(Path("/node/hog"), create=True)
    hog.truncate(disk.free_bytes(Path("/node")) - reserve + 1)
    assert log.journal.space_state(0.1) == "ok"
    assert log.journal.space_state(1.0) == "low"
    hog.truncate(hog.size() - 2)
    assert log.journal.space_state(2.0) == "low"
    hog.truncate(hog.size() - 16 * KiB)
    assert log.journal.space_state(3.0) == "ok"


@pytest.mark.promise("F15")
def test_after_a_failure_nothing_is_staged(log: LocalJournal, disk: SimulatedDisk) -> None:
    """The journal says so at once, to every caller, for ever."""
    log.fill(2)
    disk.fail_next["sync"] = errno.EIO
    log.perform(log.stage(b"x"))
    for _ in range(2):
        with pytest.raises(JournalFailedError):
            log.stage(b"y")
        with pytest.raises(JournalFailedError):
            log.journal.stage_truncate(1)
        with pytest.raises(JournalFailedError):
            log.journal.stage_reset(1, 0, FIRST_CHAIN, 1)
    assert log.journal.stored_index == 2


def test_a_data_directory_can_be_moved(tmp_path: Path) -> None:
    """Nothing in it names its own place: renamed, it opens with everything, on a real disk."""
    log = LocalJournal(RealDisk(), directory=tmp_path / "one", settings=SMALL)
    log.fill()
    log.close()
    (tmp_path / "one").rename(tmp_path / "two")
    moved = LocalJournal(RealDisk(), directory=tmp_path / "two", settings=SMALL)
    assert [moved.journal.entry(i) for i in range(1, 13)] == list(log.stored.values())
    moved.close()

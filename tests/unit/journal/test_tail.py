"""The growing end of a log."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.journal.settings import JournalSettings, KiB
from trials.simulation.local_journal import LocalJournal
from trials.simulation.simulated_disk import SimulatedDisk


def test_a_staged_entry_is_readable_before_it_is_stored(log: LocalJournal) -> None:
    """Reads never wait for the disk; stored is said only after the sync."""
    job = log.stage(b"hello")
    journal = log.journal
    assert bytes(journal.entry(1).body) == b"hello"
    assert (journal.last_index, journal.stored_index) == (1, 0)
    log.perform(job)
    assert journal.stored_index == 1
    assert job.is_done


def test_recent_entries_stay_in_memory_within_their_limit(disk: SimulatedDisk) -> None:
    """The cache drops the oldest stored entries, never one that is not stored."""
    settings = JournalSettings(segment_bytes=16 * KiB, tail_cache_bytes=4000)
    log = LocalJournal(disk, settings=settings)
    log.fill()
    assert log.journal.memory.bytes <= 4000 + len(log.stored[12].raw)
    jobs = [log.stage(b"x" * 2000) for _ in range(5)]
    assert set(range(13, 18)) <= set(log.journal.memory.tail)
    log.perform(*jobs)
    log.append(b"y")
    assert log.journal.memory.bytes <= 4000


def test_a_cut_log_goes_on_from_there(log: LocalJournal) -> None:
    """After a truncation the end is that of the entry kept; the new entry takes the place."""
    log.fill()
    kept = log.stored[5]
    log.truncate(5)
    journal = log.journal
    assert (journal.last_index, journal.last_chain) == (5, kept.chain)
    assert (journal.next_record_number, journal.last_timestamp) == (kept.next_record, 5)
    entry = log.append(b"other", term=4)
    assert (journal.term_at(5), journal.term_at(6), journal.last_term) == (1, 4, 4)
    reopened = log.reopen()
    assert reopened.last_index == 6
    assert reopened.entry(6) == entry
    assert reopened.damage == []


def test_cut_entries_never_come_back(log: LocalJournal) -> None:
    """Good entries beyond the new end are zeroed, so that recovery cannot find them again."""
    log.fill()
    log.truncate(5)
    log.journal.close()
    log._open()
    assert log.journal.last_index == 5
    assert log.journal.tail_state == "clean"


def test_stored_never_counts_what_is_being_cut(log: LocalJournal) -> None:
    """An append that is still under way does not make its cut successor look stored."""
    log.fill(4)
    slow = log.stage(b"old 5")
    cut = log.journal.stage_truncate(3)
    log.perform(slow)
    assert log.journal.stored_index == 3
    new = [log.stage(b"new 4"), log.stage(b"new 5")]
    assert log.journal.stored_index == 3
    log.perform(cut, new[0])
    assert log.journal.stored_index == 4
    log.perform(new[1])
    assert log.journal.stored_index == 5


def test_cutting_everything_starts_the_same_log_anew(log: LocalJournal) -> None:
    """Back to before the first entry: nothing is left and nothing forgotten of what was before."""
    log.fill(6)
    log.truncate(0)
    assert (log.journal.last_index, log.journal.stored_index) == (0, 0)
    log.append(b"first")
    assert log.reopen().last_index == 1


@pytest.mark.parametrize("how", ["stage", "truncate", "reset"])
def test_an_unknown_tail_is_replaced_by_what_the_leader_says(
    log: LocalJournal, disk: SimulatedDisk, how: str
) -> None:
    """Whatever the cluster decides, the doubtful bytes are kept and the place is clean."""
    log.fill(5)
    place = log.journal.place_of(5)
    disk.flip_bit(place.path, (place.byte + 100) * 8)
    log.journal.close()
    log._open()
    journal = log.journal
    assert (journal.tail_state, journal.last_index) == ("unknown", 4)
    if how == "stage":
        log.perform(journal.stage([log.stored[5]]))
    elif how == "truncate":
        log.truncate(4)
    else:
        log.perform(journal.stage_reset(5, 1, journal.last_chain, journal.next_record_number))
        log.stored.clear()
    assert (journal.tail_state, journal.unknown_through) == ("clean", 0)
    log.append(b"next")
    if how != "reset":
        assert len(disk.list_directory(Path("/node/lost+found"))) == 1
    assert log.reopen().tail_state == "clean"


@pytest.mark.promise("F22")
def test_missing_entries_below_the_floor_are_fetched_again(
    log: LocalJournal, disk: SimulatedDisk
) -> None:
    """F22: the claim to have had them stands through restarts until they are back."""
    log.fill(8)
    log.writer.save_floor()
    place = log.journal.place_of(7)
    image = disk.content(place.path)
    disk.replace_content(place.path, image[: place.byte])
    log.journal.close()
    log._open()
    assert (log.journal.last_index, log.journal.unknown_through) == (6, 8)
    log.perform(log.journal.stage([log.stored[7]]))
    assert log.journal.tail_state == "unknown"
    log.journal.close()
    log._open()
    assert (log.journal.last_index, log.journal.unknown_through) == (7, 8)
    log.perform(log.journal.stage([log.stored[8]]))
    assert log.journal.tail_state == "clean"
    assert log.journal.damage == []
    assert log.reopen().damage == []

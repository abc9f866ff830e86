"""The segments of a log, found by entry and dropped from the old end."""

from __future__ import annotations

import pytest

from holdfast.errors import (
    RecordNotFoundError,
)
from holdfast.journal.settings import KiB
from trials.simulation.local_journal import LocalJournal


def test_segments_are_described(log: LocalJournal) -> None:
    """Indexes without gaps, all but the last sealed, bytes as on disk."""
    log.fill()
    segments = log.journal.segments()
    assert [it.sealed for it in segments] == [True] * (len(segments) - 1) + [False]
    assert [it.base_index for it in segments] == list(log.journal.table.bases())
    assert [it.last_index + 1 for it in segments[:-1]] == [it.base_index for it in segments[1:]]
    assert log.journal.bytes_on_disk == len(segments) * 16 * KiB
    assert log.journal.sealed_through == segments[-1].base_index - 1
    assert log.journal.last_base == log.journal.segments()[-1].base_index


def test_a_segment_is_sealed_only_when_all_of_it_is_stored(log: LocalJournal) -> None:
    """A roll that is only staged seals nothing: the file may not hold its last entries yet."""
    jobs = [log.stage(b"x" * 9_000), log.stage(b"y" * 9_000)]
    assert [it.sealed for it in log.journal.segments()] == [False, False]
    log.perform(*jobs)
    assert [it.sealed for it in log.journal.segments()] == [True, False]


def test_a_segment_is_sealed_only_when_all_of_it_is_durable(log: LocalJournal) -> None:
    """
    A segment whose last entry is only staged is still written: whoever reads the file, the
    scrubber or the digest, would find a place where there is no entry.
    """
    jobs = [log.stage(bytes([65 + number]) * 6000) for number in range(6)]
    journal = log.journal
    assert len(journal.segments()) > 2
    assert journal.sealed_through == 0
    assert [segment.sealed for segment in journal.segments()].count(True) == 0
    log.perform(*jobs)
    sealed = [segment for segment in journal.segments() if segment.sealed]
    assert sealed == journal.segments()[:-1]
    assert journal.sealed_through == sealed[-1].last_index


def test_dropping_removes_whole_segments_from_the_old_end(log: LocalJournal) -> None:
    """Only segments with nothing at or after the index go, and never the newest."""
    log.fill()
    base = log.journal.segments()[1].base_index
    assert log.journal.drop_before(base - 1) == 0
    assert log.journal.drop_before(base + 1) == 1
    assert log.journal.first_index == base
    with pytest.raises(RecordNotFoundError):
        log.journal.entry(base - 1)
    with pytest.raises(RecordNotFoundError):
        log.journal.locate_record(1)
    assert log.journal.term_at(base - 1) == 1
    log.journal.drop_before(10_000)
    assert len(log.journal.segments()) == 1
    assert log.reopen().last_index == 12


def test_the_last_file_stays_until_the_next_one_is_there(log: LocalJournal) -> None:
    """A power cut between the two would leave a node that had a log without any."""
    while len(log.journal.segments()) == 1:
        before, job = log.journal.last_index, log.stage(bytes(1500))
        if len(log.journal.segments()) == 1:
            log.perform(job)
    assert log.journal.drop_before(before + 1) == 0
    assert log.reopen_after_power_cut().last_index == before
    log.append(bytes(1500))
    assert log.journal.drop_before(before + 1) == 1

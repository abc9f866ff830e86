"""
Tests of journal/end_file.py: the file that is written, through the writer that it serves.
"""

from __future__ import annotations

import errno

import pytest

from holdfast.errors import JournalFailedError
from holdfast.journal.settings import KiB
from trials.simulation.local_journal import LocalJournal
from trials.simulation.simulated_disk import SimulatedDisk


@pytest.mark.promise("F15")
def test_a_failed_roll_fails(begun: LocalJournal, disk: SimulatedDisk) -> None:
    """What was stored stays stored."""
    job = begun.stage(b"x" * 62_000)
    disk.fail_next["rename"] = errno.EIO
    begun.perform(job)
    assert begun.results[-1].failure is not None
    assert begun.results[-1].stored_index == 1


def test_a_spare_is_used_for_rolling(begun: LocalJournal, disk: SimulatedDisk) -> None:
    """With a spare ready, rolling writes a header and a name, not a segment of zeros."""
    while begun.journal.housekeeper.turn():
        pass
    before = disk.operations
    begun.append(b"x" * 62_000)
    assert disk.operations - before < 10
    assert begun.journal.housekeeper.spare_count == 0
    assert begun.reopen().last_index == 2


def test_an_oversized_entry_gets_a_segment_of_its_size(begun: LocalJournal) -> None:
    """The file is as large as the entry needs, also when made from a spare."""
    while begun.journal.housekeeper.turn():
        pass
    entry = begun.append(b"x" * 200_000)
    assert begun.reopen().entry(2) == entry


def test_a_sync_that_fails_while_a_file_is_removed_fails_the_writer(begun: LocalJournal) -> None:
    """It may have covered the name of the writer's own new segment: nothing is claimed any more."""
    while len(begun.journal.segments()) < 3:
        begun.append(bytes(8 * KiB))
    begun.disk.fail_next["sync_directory"] = errno.EIO
    begun.journal.drop_before(begun.journal.last_index)
    assert begun.writer.failure is not None
    with pytest.raises(JournalFailedError):
        begun.stage(b"x")


def test_a_file_is_opened_once_for_a_segment(begun: LocalJournal, disk: SimulatedDisk) -> None:
    """Behind a segment's first entry only writes and syncs are paid."""
    end = begun.writer._end
    segment = begun.journal.tail.segments.last
    file = end.of(segment)

    assert end.of(segment) is file
    end.close()
    assert (end.file, end.segment) == (None, None)
    assert end.of(segment) is not file

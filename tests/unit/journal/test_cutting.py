"""
Tests of journal/cutting.py: a log cut, begun anew, and mended in its place.

What a power cut leaves in between is tried in tests/property/journal and in test_kept_log.py.
"""

from __future__ import annotations

import pytest

from holdfast.journal import cutting
from holdfast.journal.jobs import RepairJob
from trials.simulation.local_journal import LocalJournal
from trials.simulation.simulated_disk import SimulatedDisk


def test_a_log_begun_anew_and_still_empty_opens_again(begun: LocalJournal) -> None:
    """No floor is noted before the first entry: it would claim entries that stood in no file."""
    begun.perform(begun.journal.stage_reset(1_000, 7, b"c" * 16, 5_000))
    begun.writer.save_floor()

    journal = begun.reopen_after_power_cut()

    assert journal.damage == []
    assert journal.last_index == 0


def test_a_cut_makes_zeros_of_what_stood_behind(begun: LocalJournal, disk: SimulatedDisk) -> None:
    """Recovery must find nothing there that looks like an entry."""
    second = begun.append(b"second" * 100)
    place = begun.journal.place_of(second.index)

    begun.truncate(1)

    content = disk.content(place.path)
    assert not any(content[place.byte :])
    assert (1, 1) == (begun.journal.durable_index, begun.reopen().last_index)


def test_a_void_repair_touches_nothing(disk: SimulatedDisk, begun: LocalJournal) -> None:
    """The file may be gone by then; its removal is another thread's."""
    entry = begun.journal.entry(1)
    place = begun.journal.place_of(1)
    before = disk.content(place.path)
    job = RepairJob(entry, begun.journal.tail.segments.last, place.byte + 8)
    job.is_void = True

    cutting.repair(disk, job)

    assert before == disk.content(place.path)


def test_a_repair_that_reads_back_wrong_is_a_failure(
    disk: SimulatedDisk, begun: LocalJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that takes bytes and gives others has nothing that could be relied on."""
    entry = begun.journal.entry(1)
    place = begun.journal.place_of(1)
    job = RepairJob(entry, begun.journal.tail.segments.last, place.byte)
    file = disk.open(place.path)
    monkeypatch.setattr(type(file), "read", lambda _self, size, _start: bytes(size))

    with pytest.raises(OSError, match="reads back wrong"):
        cutting.repair(disk, job)

"""Damaged entries are mended with the copies of peers."""

from __future__ import annotations

import errno

import pytest

from holdfast.errors import (
    CorruptEntryError,
    JournalFailedError,
    StoreError,
)
from holdfast.journal.damage import Damage
from holdfast.journal.settings import KiB
from trials.simulation.local_journal import LocalJournal
from trials.simulation.simulated_disk import SimulatedDisk


def test_a_repair_restores_the_very_bytes(log: LocalJournal, disk: SimulatedDisk) -> None:
    """With the entry of a peer the file is again what it was, and stays so."""
    log.fill()
    place = log.journal.place_of(3)
    image = disk.content(place.path)
    disk.flip_bit(place.path, (place.byte + 80) * 8)
    with pytest.raises(CorruptEntryError):
        log.journal.entry(3)
    log.repair(log.stored[3])
    assert disk.content(place.path) == image
    assert log.journal.entry(3) == log.stored[3]
    assert log.journal.damage == []
    log.reopen_after_power_cut()
    assert log.journal.damage == []


def test_a_repair_with_another_entry_is_refused(log: LocalJournal, disk: SimulatedDisk) -> None:
    """A peer whose log differs cannot change ours."""
    log.fill()
    other = LocalJournal(SimulatedDisk())
    for number in range(12):
        other.append(*[bytes([97 + number]) * 1500] * (number % 3))
    place = log.journal.place_of(3)
    disk.flip_bit(place.path, (place.byte + 80) * 8)
    with pytest.raises(CorruptEntryError):
        log.journal.entry(3)
    with pytest.raises(StoreError, match="not the entry that was here"):
        log.repair(other.stored[3])


@pytest.mark.promise("F6")
@pytest.mark.parametrize("operation", ["write", "sync"])
def test_a_repair_that_the_disk_refuses_is_final(
    log: LocalJournal, disk: SimulatedDisk, operation: str
) -> None:
    """What the disk holds is unknown then, as after every other failed write or sync."""
    log.fill()
    place = log.journal.place_of(3)
    disk.flip_bit(place.path, (place.byte + 80) * 8)
    with pytest.raises(CorruptEntryError):
        log.journal.entry(3)
    disk.fail_next[operation] = errno.EIO
    assert not log.repair(log.stored[3])
    assert [3] == [damage.index for damage in log.journal.damage]
    with pytest.raises(JournalFailedError):
        log.journal.stage_repair(log.stored[3])
    with pytest.raises(JournalFailedError):
        log.stage(b"more")


def test_a_repair_of_what_goes_meanwhile_is_given_up(
    log: LocalJournal, disk: SimulatedDisk
) -> None:
    """Cut or cleaned away before the writer came to it: nothing is written, nothing fails."""
    log.fill()
    first, last = log.stored[1], log.stored[12]
    for index in (1, 12):
        log.journal.report_damage(Damage("x.segment", 10, index, "rot"))
    job = log.journal.stage_repair(first)
    log.journal.drop_before(log.journal.segments()[1].base_index)
    log.perform(job)
    assert (job.is_done, log.journal.finish_repair(job)) == (True, False)

    job = log.journal.stage_repair(last)
    log.truncate(11)
    log.append(b"another")
    image = disk.content(log.segment_path(-1))
    log.perform(job)
    assert (job.is_done, log.journal.finish_repair(job)) == (True, False)
    assert (disk.content(log.segment_path(-1)), log.journal.failure) == (image, None)


def test_neighbours_whose_bounds_are_lost_are_repaired_in_order(
    log: LocalJournal, disk: SimulatedDisk
) -> None:
    """Several headers gone, a change of term among them: repairs in order restore everything."""
    for number in range(1, 8):
        log.append(bytes([number]) * 1200, term=2 if number > 2 else 1)
    log.writer.save_floor()
    images = [disk.content(it.path) for it in log.journal.segments()]
    for index in (2, 3, 4):
        place = log.journal.place_of(index)
        disk.flip_bit(place.path, place.byte * 8 + 300)
    log.journal.close()
    log._open()
    assert [it.index for it in log.journal.damage] == [2, 3, 4]
    for index in (2, 3, 4):
        log.repair(log.stored[index])
    assert [disk.content(it.path) for it in log.journal.segments()] == images
    assert [log.journal.term_at(index) for index in range(1, 8)] == [1, 1, 2, 2, 2, 2, 2]
    for number in range(1, 8):
        assert log.journal.locate_record(number) == (log.stored[number], 0)


@pytest.mark.parametrize("lost", [1, 2])
def test_the_end_of_a_sealed_segment_is_repaired_though_it_ends_in_zeros(
    log: LocalJournal, disk: SimulatedDisk, lost: int
) -> None:
    """
    A lost header's entry was taken to end where only zeros follow, and then its peers' copy, which
    is longer, was refused for ever.
    """
    while len(log.journal.segments()) < 3:
        log.append(b"x" + bytes(2_000))
    sealed = log.journal.segments()[0]
    image = disk.content(sealed.path)
    damaged = range(sealed.last_index - lost + 1, sealed.last_index + 1)
    for index in damaged:
        place = log.journal.place_of(index)
        disk.flip_bit(place.path, place.byte * 8)
    log.reopen()
    assert [it.index for it in log.journal.damage] == list(damaged)
    for index in damaged:
        assert log.repair(log.stored[index])
    assert disk.content(sealed.path) == image
    assert log.journal.segments()[0] == sealed
    assert log.reopen().damage == []


def test_a_damaged_last_entry_is_repaired_with_the_logs_end(
    log: LocalJournal, disk: SimulatedDisk
) -> None:
    """Below the floor the last entry keeps its index; its repair restores the end's values."""
    log.fill(3)
    log.writer.save_floor()
    place = log.journal.place_of(3)
    disk.flip_bit(place.path, (place.byte + 100) * 8)
    log.journal.close()
    log._open()
    assert [it.index for it in log.journal.damage] == [3]
    log.repair(log.stored[3])
    assert log.journal.last_chain == log.stored[3].chain
    log.append(b"more")
    assert log.reopen().damage == []


def test_what_is_lost_with_damaged_neighbours_is_bounded(
    log: LocalJournal, disk: SimulatedDisk
) -> None:
    """Their own bounds may be lost; those of the good ones around them are not."""
    for number in range(1, 8):
        log.append(*[bytes([number]) * 600] * 2)
    assert log.journal.damaged_run(2) is None
    log.writer.save_floor()
    for index in (2, 3, 4, 7):
        place = log.journal.place_of(index)
        disk.flip_bit(place.path, (place.byte + 200) * 8)
    log.journal.close()
    log._open()
    assert (4, 3, 9) == log.journal.damaged_run(2)
    assert (7, 13, 15) == log.journal.damaged_run(7)
    assert log.journal.damaged_run(5) is None
    assert log.journal.damaged_run(99) is None
    assert (4, 3, 9) == log.journal.damaged_run(3)


def test_where_the_log_begins_with_damage_its_first_record_is_not_guessed(
    log: LocalJournal, disk: SimulatedDisk
) -> None:
    """Too high a guess would let entries be cleaned away in which messages live."""
    for number in range(1, 13):
        log.append(bytes([number]) * 2500)
    log.writer.save_floor()
    first = log.journal.segments()[1].base_index
    log.journal.drop_before(first)
    places = [log.journal.place_of(index) for index in (first, first + 1)]
    record = log.journal.entry(first).first_record
    log.journal.close()
    disk.flip_bit(places[0].path, 100)
    for place in places:
        disk.flip_bit(place.path, place.byte * 8 + 300)
    log._open()

    run = log.journal.damaged_run(first)

    assert run is not None
    last, first_record, next_record = run
    assert first + 1 == last
    assert 1 <= first_record <= record  # Number 0 stands for messages that are gone.
    assert record + 2 == next_record


@pytest.mark.promise("F22")
def test_a_log_without_one_readable_header_is_fetched_again(
    log: LocalJournal, disk: SimulatedDisk
) -> None:
    """
    All of the first segment is gone: until the copies come, no term is known but the least, and
    that of the last, which the next segment states.
    """
    log.fill(24)
    second = log.journal.segments()[1].base_index
    log.writer.save_floor()
    paths = [segment.path for segment in log.journal.segments()]
    for path in paths:
        disk.replace_content(path, disk.content(path)[:4096].ljust(16 * KiB, b"\0"))
    log.journal.close()
    log._open()
    assert log.journal.last_index >= second - 1
    known = [*[0] * (second - 1), log.stored[second - 1].term]
    assert [log.journal.term_at(index) for index in range(second)] == known
    for index in range(1, second):
        log.repair(log.stored[index])
    term = log.stored[1].term
    assert [log.journal.term_at(index) for index in range(second)] == [0, *[term] * (second - 1)]

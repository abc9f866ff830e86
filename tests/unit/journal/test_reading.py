"""Entries are read from memory or disk, verified, and what is damaged is refused."""

from __future__ import annotations

import errno

import pytest

from holdfast.errors import (
    CorruptEntryError,
    RecordNotFoundError,
)
from holdfast.journal.entry import FIRST_CHAIN
from holdfast.journal.settings import JournalSettings, KiB, MiB
from trials.simulation.local_journal import LocalJournal
from trials.simulation.simulated_disk import SimulatedDisk


def test_entries_are_read_back_from_disk_verified(log: LocalJournal) -> None:
    """With the caches tiny, each entry comes from its segment as it was sealed."""
    log.fill()
    assert len(log.journal.segments()) > 1
    for index, entry in log.stored.items():
        assert log.journal.entry(index) == entry
        assert log.journal.chain_at(index) == entry.chain
        assert log.journal.term_at(index) == 1
    assert log.journal.chain_at(0) == FIRST_CHAIN


def test_a_range_is_read_up_to_a_number_of_bytes(log: LocalJournal) -> None:
    """At least one entry, then as many as fit; none beyond the end."""
    log.fill()
    one = len(log.stored[3].raw)
    assert [it.index for it in log.journal.entries(3, 1)] == [3]
    assert [it.index for it in log.journal.entries(3, one + 72)] == [3, 4]
    assert [it.index for it in log.journal.entries(10, 1 * MiB)] == [10, 11, 12]
    assert log.journal.entries(13, 1 * MiB) == []


def test_every_record_is_found_in_its_entry(log: LocalJournal) -> None:
    """Entries without records are passed over; numbers outside are refused with the range."""
    log.fill()
    for number in range(1, log.journal.next_record_number):
        entry, ordinal = log.journal.locate_record(number)
        assert entry.first_record + ordinal == number
        assert ordinal < entry.record_count
    for number in (0, log.journal.next_record_number):
        with pytest.raises(RecordNotFoundError, match="holds 1 to 12"):
            log.journal.locate_record(number)


def test_what_stands_before_any_entry_is_known(log: LocalJournal) -> None:
    """Term, chain and record number before an index, for comparing and for new replicas."""
    log.fill()
    for index in range(2, 13):
        before = log.stored[index - 1]
        expected = (before.term, before.chain, before.next_record)
        assert log.journal.previous(index) == expected
    last = log.stored[12]
    assert log.journal.previous(13) == (1, last.chain, last.next_record)


def test_a_damaged_entry_is_refused_with_its_place(log: LocalJournal, disk: SimulatedDisk) -> None:
    """Rot that appears while running is found on reading, named, and listed."""
    log.fill()
    place = log.journal.place_of(3)
    disk.flip_bit(place.path, (place.byte + 80) * 8)
    for _ in range(2):
        with pytest.raises(CorruptEntryError, match="body checksum") as caught:
            log.journal.entry(3)
    error = caught.value
    assert (error.index, error.byte, error.segment) == (3, place.byte, place.path.name)
    assert [it.index for it in log.journal.damage] == [3]
    assert [index for index in range(1, 6) if log.journal.is_damaged(index)] == [3]
    assert [it.index for it in log.journal.entries(1, MiB)] == [1, 2]
    with pytest.raises(CorruptEntryError):
        log.journal.entries(3, MiB)


def test_a_damaged_header_hides_its_chain(log: LocalJournal, disk: SimulatedDisk) -> None:
    """What stands in a header that cannot be read is not guessed."""
    log.fill()
    place = log.journal.place_of(3)
    disk.flip_bit(place.path, place.byte * 8 + 300)
    with pytest.raises(CorruptEntryError, match="header checksum"):
        log.journal.chain_at(3)


def test_another_entry_in_its_place_is_damage(log: LocalJournal, disk: SimulatedDisk) -> None:
    """A misdirected write has good checksums and the wrong index."""
    for number in range(4):
        log.append(bytes([number]) * 1500)
    first, second = log.journal.place_of(1), log.journal.place_of(2)
    image = disk.content(first.path)
    raw = image[first.byte : first.byte + first.size]
    disk.replace_content(
        first.path, image[: second.byte] + raw + image[second.byte + second.size :]
    )
    with pytest.raises(CorruptEntryError, match="another entry stands here"):
        log.journal.chain_at(2)
    log.journal._damage.forget_after(0)
    with pytest.raises(CorruptEntryError, match="another entry stands here"):
        log.journal.entry(2)


def test_an_unreadable_sector_is_damage(log: LocalJournal, disk: SimulatedDisk) -> None:
    """EIO on a read is damage at that entry, not the end of the node."""
    log.fill()
    place = log.journal.place_of(3)
    disk.make_unreadable(place.path, place.byte // 512 + 1)
    with pytest.raises(CorruptEntryError, match="the disk cannot read it"):
        log.journal.entry(3)


def test_few_files_are_kept_open(disk: SimulatedDisk) -> None:
    """Reading all over a long log keeps a bounded number of handles."""
    settings = JournalSettings(
        segment_bytes=8 * KiB, open_files_max=2, tail_cache_bytes=0, read_cache_bytes=0
    )
    log = LocalJournal(disk, settings=settings)
    log.fill(20)
    for index in (1, 20, 5, 15, 10):
        assert log.journal.entry(index) == log.stored[index]
    assert len(log.journal._reader.files) == 2


def test_an_entry_that_cannot_be_read_for_want_of_a_descriptor_is_not_damaged(
    disk: SimulatedDisk,
) -> None:
    """It is withheld and tried again: no peer is asked to repair what is whole."""
    settings = JournalSettings(segment_bytes=8 * KiB, tail_cache_bytes=0, read_cache_bytes=0)
    log = LocalJournal(disk, settings=settings)
    log.fill(20)
    disk.fail_next["open"] = errno.EMFILE
    with pytest.raises(CorruptEntryError, match="it cannot be read now"):
        log.journal.entry(1)
    assert log.journal.damage == []
    assert log.journal.entry(1) == log.stored[1]

"""What is known of entries that were stored and cannot be read."""

from __future__ import annotations

import pytest

from holdfast.errors import (
    CorruptEntryError,
)
from holdfast.journal.damage import Damage, DamageList
from holdfast.journal.settings import MiB
from trials.simulation.local_journal import LocalJournal
from trials.simulation.simulated_disk import SimulatedDisk


def test_damage_names_its_place() -> None:
    """People find the byte in the file; programs get the same as an error to raise."""
    damage = Damage("1.segment", 4_096, 1_000, "rot")
    assert str(damage) == "segment 1.segment byte 4,096 (entry 1,000): rot"
    error = damage.error()
    assert (error.segment, error.byte, error.index) == ("1.segment", 4_096, 1_000)
    assert error.reason == "rot"


def test_whoever_finds_damage_it_is_told_at_once(log: LocalJournal, disk: SimulatedDisk) -> None:
    """A read that goes on without the entry must not keep the finding to itself: peers mend it."""
    log.fill()
    told: list[int] = []
    log.journal.on_damage = told.append
    place = log.journal.place_of(3)
    disk.flip_bit(place.path, (place.byte + 80) * 8)
    assert len(log.journal.entries(1, MiB)) == 2
    log.journal.report_damage(Damage("x.segment", 10, 5, "rot"))
    assert told == [3, 5]


def test_reported_damage_is_listed_once(log: LocalJournal) -> None:
    """The scrubber's finding stands in the list; one about a dropped entry does not."""
    log.fill()
    log.journal.entry(3)
    log.journal.report_damage(Damage("x.segment", 10, 3, "rot"))
    log.journal.report_damage(Damage("x.segment", 10, 99, "rot"))
    assert [it.index for it in log.journal.damage] == [3]
    with pytest.raises(CorruptEntryError, match="rot"):
        log.journal.entry(3)


def of_segment(base: int, byte: int = 0) -> Damage:
    return Damage(f"{base:020d}.segment", byte, 0, "rot")


def test_damage_of_no_entry_is_of_its_file_and_place() -> None:
    """Headers and the bytes behind the last entry have no index: each is told all the same."""
    found = [of_segment(9), of_segment(1, 70), of_segment(1), Damage("x", 3, 5, "rot")]
    listed = DamageList(found, lambda _index: None)
    assert listed.sorted() == [of_segment(1), of_segment(1, 70), of_segment(9), found[3]]
    assert 0 not in listed


def test_damage_of_a_file_goes_with_the_file() -> None:
    """Not before: entries are dropped and cut by files, and their indexes say nothing of this."""
    listed = DamageList([of_segment(it) for it in (1, 5, 9, 13)], lambda _index: None)
    listed.forget_before(5)
    assert listed.sorted() == [of_segment(5), of_segment(9), of_segment(13)]
    listed.forget_after(10)
    assert listed.sorted() == [of_segment(5), of_segment(9)]
    listed.forget_after(0)
    assert listed.sorted() == []

"""What is known of entries that were stored and cannot be read."""

from __future__ import annotations

import pytest

from holdfast.errors import (
    CorruptEntryError,
)
from holdfast.journal.damage import Damage
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

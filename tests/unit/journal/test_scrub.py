"""Scrubbing: every sealed entry is read again, at a bounded rate, and rot is found."""

from __future__ import annotations

import errno

import pytest

from holdfast.journal import scrub
from holdfast.journal.damage import Damage
from holdfast.journal.scrub import Scrubber
from holdfast.journal.segment import EntryPlace
from holdfast.journal.settings import JournalSettings, KiB
from trials.simulation.local_journal import LocalJournal
from trials.simulation.simulated_disk import SimulatedDisk

RATE = 4 * KiB


@pytest.fixture
def log(disk: SimulatedDisk) -> LocalJournal:
    settings = JournalSettings(
        segment_bytes=16 * KiB, scrub_bytes_per_second=RATE, scrub_round_seconds=0
    )
    log = LocalJournal(disk, settings=settings)
    for number in range(1, 9):
        log.append(bytes([number]) * 3500)
    return log


def one_round(scrubber: Scrubber) -> list[Damage]:
    found: list[Damage] = []
    rounds, now = scrubber.rounds, 0.0
    while scrubber.rounds == rounds:
        now += 1.0
        found += scrubber.turn(now)
    return found


def test_a_good_log_has_no_findings(log: LocalJournal) -> None:
    """All sealed entries pass, again and again."""
    scrubber = Scrubber(log.journal)
    assert one_round(scrubber) == []
    assert one_round(scrubber) == []
    scrubber.close()


def test_want_of_a_descriptor_is_no_rot(log: LocalJournal, disk: SimulatedDisk) -> None:
    """What could not be opened is tried again in a later turn, and is good."""
    scrubber = Scrubber(log.journal)
    disk.fail_next["open"] = errno.EMFILE
    assert one_round(scrubber) == []
    assert disk.happened["open EMFILE"] == 1


@pytest.mark.promise("F18")
def test_rot_in_a_sealed_segment_is_found_with_its_place(
    log: LocalJournal, disk: SimulatedDisk
) -> None:
    """F18: although the entry is still in the cache, the disk is what is verified."""
    place = log.journal.place_of(4)
    disk.flip_bit(place.path, (place.byte + 90) * 8)
    found = one_round(Scrubber(log.journal))
    expected = Damage(place.path.name, place.byte, 4, "the body checksum is wrong")
    assert found == [expected]
    log.journal.report_damage(found[0])
    log.repair(log.stored[4])
    assert one_round(Scrubber(log.journal)) == []


def test_an_entry_that_does_not_belong_is_found(log: LocalJournal, disk: SimulatedDisk) -> None:
    """Good checksums are not enough: index and chain must be right as well."""
    other = LocalJournal(SimulatedDisk())
    for number in range(1, 9):
        other.append(bytes([number + 50]) * 3500)
    place = log.journal.place_of(2)
    image = disk.content(place.path)
    for raw, reason in (
        (other.stored[2].raw, "chain hash"),
        (log.stored[3].raw, "another entry"),
    ):
        spoilt = image[: place.byte] + raw + image[place.byte + place.size :]
        disk.replace_content(place.path, spoilt)
        found = one_round(Scrubber(log.journal))
        assert [it.index for it in found] == [2]
        assert reason in found[0].reason


def test_an_unreadable_sector_is_found(log: LocalJournal, disk: SimulatedDisk) -> None:
    """A disk error is rot, told with its place."""
    place = log.journal.place_of(3)
    disk.make_unreadable(place.path, place.byte // 512 + 1)
    found = one_round(Scrubber(log.journal))
    assert [it.index for it in found] == [3]
    assert "the disk cannot read it" in found[0].reason


def test_it_keeps_to_its_rate(log: LocalJournal) -> None:
    """A second reads about a second's worth: one entry here, not the log."""
    scrubber = Scrubber(log.journal)
    scrubber.turn(0.0)
    scrubber.turn(0.5)
    assert scrubber._next == 2
    scrubber.turn(0.6)
    assert scrubber._next == 2
    scrubber.turn(1.5)
    assert scrubber._next == 3


@pytest.mark.parametrize(("round_seconds", "least"), [(100.0, 70.0), (1.0, 4.0)])
def test_a_round_of_a_small_log_takes_as_long_as_is_set(
    disk: SimulatedDisk, round_seconds: float, least: float
) -> None:
    """It never reads faster than its rate, and a log that is short for it more slowly."""
    settings = JournalSettings(
        segment_bytes=16 * KiB, scrub_bytes_per_second=RATE, scrub_round_seconds=round_seconds
    )
    log = LocalJournal(disk, settings=settings)
    for number in range(1, 9):
        log.append(bytes([number]) * 3500)
    scrubber, now = Scrubber(log.journal), 0.0
    while not scrubber.rounds:
        now += 0.5
        scrubber.turn(now)
    assert least <= now <= max(round_seconds, 2 * least)


def test_a_turn_has_an_end_so_there_must_be_enough_of_them(
    log: LocalJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who lets it turn as seldom as it says reads at the rate that was asked for; else slower."""
    monkeypatch.setattr(scrub, "_STEP_BYTES_MAX", 2 * RATE)
    often = Scrubber(log.journal).turn_seconds_max
    assert often == 2.0

    def seconds(pause: float) -> float:
        scrubber, now = Scrubber(log.journal), 0.0
        while scrubber.rounds < 4:
            now += pause
            scrubber.turn(now)
        return now

    # A round ends with a turn.
    assert seconds(often) <= seconds(often / 8) + 4 * often
    assert seconds(4 * often) > seconds(often / 8) + 4 * 4 * often


def test_segments_dropped_meanwhile_are_skipped(log: LocalJournal, disk: SimulatedDisk) -> None:
    """Neither what is dropped nor what is about to be is damage."""
    scrubber = Scrubber(log.journal)
    scrubber.turn(0.0)
    scrubber.turn(1.0)
    log.journal.drop_before(4)
    disk.unlink(log.journal.segments()[0].path)
    assert one_round(scrubber) == []


def test_with_nothing_sealed_it_rests(disk: SimulatedDisk) -> None:
    """A young log has nothing to scrub."""
    log = LocalJournal(disk)
    log.append(b"x")
    scrubber = Scrubber(log.journal)
    scrubber.turn(0.0)
    assert scrubber.turn(100.0) == []
    assert scrubber.rounds == 0


def test_entries_whose_bounds_are_lost_are_passed_over(
    log: LocalJournal, disk: SimulatedDisk
) -> None:
    """They are known to be damaged already; one finding for their neighbour is enough."""
    for index in (1, 2):
        place = log.journal.place_of(index)
        disk.flip_bit(place.path, place.byte * 8 + 300)
    log.reopen()
    found = one_round(Scrubber(log.journal))
    assert [it.index for it in found] == [1]


@pytest.fixture
def long_log(disk: SimulatedDisk) -> LocalJournal:
    """A log with an entry that is read in parts, between two short ones."""
    settings = JournalSettings(
        segment_bytes=64 * KiB, scrub_bytes_per_second=256 * KiB, scrub_round_seconds=0
    )
    log = LocalJournal(disk, settings=settings)
    for size in (3500, 2_999_998, 3500, 60_000, 60_000):
        log.append(b"x" * size)
    return log


def test_a_long_entry_is_read_in_parts(
    long_log: LocalJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To read and hash 60 MB at once would keep the loop from everybody for a tenth of a second."""
    scrubber = Scrubber(long_log.journal)
    read: list[int] = []
    whole = Scrubber._read

    def watched(self: Scrubber, place: EntryPlace) -> bytes:
        read.append(place.size)
        return whole(self, place)

    monkeypatch.setattr(Scrubber, "_read", watched)
    assert one_round(scrubber) == []
    assert max(read) <= 256 * KiB
    assert sum(read) >= 2_999_998
    assert one_round(scrubber) == []
    scrubber.close()


@pytest.mark.parametrize(
    ("byte", "reason"),
    [
        (20, "the header checksum is wrong"),
        (100, "the body checksum is wrong"),
        (2_999_000, "the body checksum is wrong"),
        (2_999_998 + 73, "the padding is not zero"),
    ],
)
def test_rot_in_a_long_entry_is_found(
    long_log: LocalJournal, disk: SimulatedDisk, byte: int, reason: str
) -> None:
    """Wherever in it; and what follows is looked at all the same, now and in the next round."""
    place = long_log.journal.place_of(2)
    disk.flip_bit(place.path, (place.byte + byte) * 8)
    scrubber = Scrubber(long_log.journal)
    expected = [Damage(place.path.name, place.byte, 2, reason)]
    assert one_round(scrubber) == expected
    assert one_round(scrubber) == expected


def test_a_long_entry_that_does_not_belong_is_found(
    long_log: LocalJournal, disk: SimulatedDisk
) -> None:
    """By its chain, as with short ones."""
    other = LocalJournal(SimulatedDisk())
    other.append(b"y" * 3500)
    other.append(b"x" * 2_999_998)
    place = long_log.journal.place_of(2)
    image = disk.content(place.path)
    raw = other.stored[2].raw
    disk.replace_content(place.path, image[: place.byte] + raw + image[place.byte + place.size :])
    found = one_round(Scrubber(long_log.journal))
    assert [(it.index, it.reason) for it in found] == [
        (2, "the chain hash does not continue the log")
    ]


def test_an_error_within_a_long_entry_is_told_once(
    long_log: LocalJournal, disk: SimulatedDisk
) -> None:
    """An unreadable sector in its middle, or its file cut short: the next round begins it anew."""
    place = long_log.journal.place_of(2)
    disk.make_unreadable(place.path, (place.byte + 1_500_000) // 512)
    scrubber = Scrubber(long_log.journal)
    assert [it.index for it in one_round(scrubber)] == [2]
    image = disk.content(place.path)
    disk.replace_content(place.path, image[: place.byte + 1_000_000])
    found = one_round(Scrubber(long_log.journal))
    assert [(it.index, it.reason) for it in found] == [(2, "the body is cut short")]

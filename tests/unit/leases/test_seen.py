"""What a broker remembers of the log, and which logs it refuses for it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.errors import StoreError
from holdfast.leases.contract import Holding, Place
from holdfast.leases.seen import FILE_NAME, SAVE_SECONDS, SeenFile
from trials.simulation.simulated_disk import SimulatedDisk

DIRECTORY = Path("/node")
PLACE = Place(40, b"c" * 16)
HOLDING = Holding(
    epoch=3, beat=1, claimant=None, is_released=False, first_index=1, end=PLACE, sure=PLACE
)


@pytest.fixture
def disk() -> SimulatedDisk:
    """An empty disk with the broker's directory."""
    disk = SimulatedDisk(1)
    disk.make_directory(DIRECTORY)
    return disk


def test_it_is_read_again_by_the_next_process(disk: SimulatedDisk) -> None:
    """Identity, epoch and place come back as they were noted."""
    seen = SeenFile(DIRECTORY, disk)
    seen.note("log", 3, PLACE, 100.0)

    last = SeenFile(DIRECTORY, disk).last
    assert last is not None
    assert ("log", 3, PLACE) == (last.identity, last.epoch, last.place)


def test_it_is_written_once_a_second_at_most_and_when_asked(disk: SimulatedDisk) -> None:
    """Appends by the thousand do not write it by the thousand; at the end it is up to date."""
    seen = SeenFile(DIRECTORY, disk)
    seen.note("log", 3, PLACE, 100.0)
    seen.note("log", 3, Place(50, b"d" * 16), 100.0 + SAVE_SECONDS / 2)
    before = SeenFile(DIRECTORY, disk).last
    seen.save()
    after = SeenFile(DIRECTORY, disk).last

    assert before is not None
    assert after is not None
    assert (40, 50) == (before.place.index, after.place.index)


def test_what_an_operator_accepted_before_it_was_seen_is_noted(disk: SimulatedDisk) -> None:
    """What an earlier process saw it saw without what was accepted since."""
    seen = SeenFile(DIRECTORY, disk)
    seen.note("log", 3, PLACE, 100.0)
    assert seen.last is not None
    assert seen.last.accepted is None  # The log said nothing of it.
    seen.accepted = "first"
    seen.note("log", 3, PLACE, 102.0)
    again = SeenFile(DIRECTORY, disk)
    again.accepted = "second"
    again.note("log", 3, Place(41, b"d" * 16), 104.0, is_earlier=True)
    later = SeenFile(DIRECTORY, disk).last
    again.note("log", 4, Place(42, b"e" * 16), 106.0)

    assert later is not None
    assert again.last is not None
    assert ("first", 41) == (later.accepted, later.place.index)
    assert ("second", 42) == (again.last.accepted, again.last.place.index)


def test_a_shorter_place_never_replaces_a_longer_one(disk: SimulatedDisk) -> None:
    """What is final is what was final before and more."""
    seen = SeenFile(DIRECTORY, disk)
    seen.note("log", 3, PLACE, 100.0)
    seen.note("log", 4, Place(39, b"b" * 16), 102.0)

    assert seen.last is not None
    assert (4, PLACE) == (seen.last.epoch, seen.last.place)


@pytest.mark.parametrize("spoilt", [b"", b"xyz", b"\0\0\0\0{}", b"not json at all"])
def test_a_damaged_file_only_forgets(disk: SimulatedDisk, spoilt: bytes) -> None:
    """It is an aid: a broker starts without it."""
    seen = SeenFile(DIRECTORY, disk)
    seen.note("log", 3, PLACE, 100.0)
    disk.replace_content(DIRECTORY / FILE_NAME, spoilt)

    assert SeenFile(DIRECTORY, disk).last is None


def test_a_full_disk_does_not_matter(disk: SimulatedDisk) -> None:
    """What cannot be written is written the next time."""
    seen = SeenFile(DIRECTORY, disk)
    disk.limit(0)
    seen.note("log", 3, PLACE, 100.0)
    disk.limit(None)
    seen.save()

    assert SeenFile(DIRECTORY, disk).last is not None


@pytest.mark.parametrize(
    ("there", "chain", "said"),
    [
        (replace(HOLDING, epoch=2), None, "epoch 3, and it is at 2 now"),
        (replace(HOLDING, end=Place(39, b"b" * 16)), None, "entry 40, and it ends at 39 now"),
        (HOLDING, b"x" * 16, "another entry 40 than there is now"),
    ],
)
def test_a_log_that_went_back_is_refused(
    disk: SimulatedDisk, there: Holding, chain: bytes | None, said: str
) -> None:
    """The sentence says what was lost, and where to accept it (L37)."""
    seen = SeenFile(DIRECTORY, disk)
    seen.note("log", 3, PLACE, 100.0)

    with pytest.raises(StoreError, match=said) as caught:
        seen.judge("log", there, chain)
    assert str(DIRECTORY / FILE_NAME) in str(caught.value)


def test_another_log_is_refused(disk: SimulatedDisk) -> None:
    """A broker of one log is not let loose on another: both are named."""
    seen = SeenFile(DIRECTORY, disk)
    seen.note("log", 3, PLACE, 100.0)

    with pytest.raises(StoreError, match="belongs to a broker of another log"):
        seen.judge("other", HOLDING, None)


def test_the_same_log_and_a_longer_one_are_fine(disk: SimulatedDisk) -> None:
    """Also where the entry seen last was dropped since, so that nothing can be compared."""
    seen = SeenFile(DIRECTORY, disk)
    seen.judge("log", HOLDING, None)
    seen.note("log", 3, PLACE, 100.0)

    seen.judge("log", HOLDING, PLACE.chain)
    seen.judge("log", replace(HOLDING, epoch=9, end=Place(90, b"e" * 16)), None)
    assert seen.last is not None

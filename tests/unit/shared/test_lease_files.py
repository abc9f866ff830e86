"""Claims, beats and `current`: who has the lease, and who no more."""

from __future__ import annotations

import errno

import pytest

from holdfast.environment.disk import NoRoomError
from holdfast.errors import StoreError
from holdfast.leases.contract import Place
from holdfast.shared.lease_files import (
    Beat,
    BeatWriter,
    Begun,
    CurrentFile,
    claim,
    read_beat,
    read_claim,
)
from trials.simulation.local_share import LocalShare, claimant
from trials.simulation.simulated_disk import PowerCut


@pytest.fixture
def share() -> LocalShare:
    share = LocalShare()
    share.log()
    return share


@pytest.fixture
def current(share: LocalShare) -> CurrentFile:
    return CurrentFile(share.disk, share.places)


def beat(sure: int = 0, **others: bool) -> Beat:
    place = Place(sure, bytes([sure]) * 16)
    return Beat(counter=1, segment="x", sure=place, first_index=1, **others)


def test_one_wins_an_epoch(share: LocalShare) -> None:
    """Whoever links second has lost, and reads who has won."""
    first, second = claimant("a"), claimant("b")

    assert claim(share.disk, share.places, 1, first)
    assert not claim(share.disk, share.places, 1, second)
    assert read_claim(share.disk, share.places, 1) == first
    assert share.disk.list_directory(share.places.lease) == ["claim-1"]


def test_a_lost_reply_of_a_link_is_no_loss(
    share: LocalShare, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The name is taken, by this very call: the content says so (L18)."""
    link = share.disk.link

    def link_and_lose_the_reply(source, target) -> None:
        link(source, target)
        raise FileExistsError(errno.EEXIST, "it is there already")

    monkeypatch.setattr(share.disk, "link", link_and_lose_the_reply)
    assert claim(share.disk, share.places, 1, claimant("a"))


def test_the_newest_epoch_is_the_one_that_began_last(current: CurrentFile) -> None:
    """Epochs that were won and never began leave a gap, and nothing else."""
    assert current.newest() == Begun(0, None)
    first, third = claimant("a"), claimant("b")
    current.begin(1, first)
    assert current.newest() == Begun(1, first)
    assert current.is_newest(1, first.holder)

    current.begin(3, third)
    assert current.newest() == Begun(3, third)
    assert not current.is_newest(1, first.holder)
    assert not current.has_begun(2)


def test_who_wakes_up_late_takes_nothing_back(current: CurrentFile) -> None:
    """An older epoch that begins after a younger one changes nothing for that one."""
    young, late = claimant("a"), claimant("b")
    current.begin(3, young)
    current.begin(2, late)

    assert current.newest() == Begun(3, young)
    assert current.is_newest(3, young.holder)
    assert not current.is_newest(2, late.holder)


def test_the_same_epoch_of_another_holder_is_not_ours(current: CurrentFile) -> None:
    """Epoch and holder both must be right."""
    current.begin(1, claimant("a"))

    assert not current.is_newest(1, claimant("a").holder)


def test_a_torn_page_of_a_later_epoch_deposes(share: LocalShare, current: CurrentFile) -> None:
    """Whatever stands behind the own page: somebody has begun to begin."""
    first = claimant("a")
    current.begin(1, first)
    file = share.disk.open(share.places.current)
    file.write(b"torn", 2 * 4096 + 700)

    assert not current.is_newest(1, first.holder)
    assert current.newest() == Begun(2, None)


def test_what_was_seen_and_never_synced_may_go_again(share: LocalShare) -> None:
    """A server that lost its power may forget a page that was read: the one before counts."""
    current = CurrentFile(share.disk, share.places)
    first = claimant("a")
    current.begin(1, first)
    content = share.disk.content(share.places.current)
    current.begin(2, claimant("b"))
    assert current.newest().epoch == 2

    share.disk.replace_content(share.places.current, content)
    assert current.newest() == Begun(1, first)


def test_beats_count_and_say_the_last(share: LocalShare) -> None:
    """Each beat is another one; the last one is read."""
    writer = BeatWriter(share.disk, share.places, 1, beat())
    assert read_beat(share.disk, share.places, 1) == beat()
    writer.write(beat(5))
    writer.write(beat(6, is_released=True), both=True)

    found = read_beat(share.disk, share.places, 1)
    assert found.counter == 4
    assert found.sure.index == 6
    assert found.is_released


def test_a_beat_file_is_of_one_process(share: LocalShare) -> None:
    """A second one with the same epoch does not write over it."""
    BeatWriter(share.disk, share.places, 1, beat())
    with pytest.raises(FileExistsError):
        BeatWriter(share.disk, share.places, 1, beat())


def test_a_beat_without_room_can_be_made_again(share: LocalShare) -> None:
    """Nothing is left of one that had no room: its epoch has not begun."""
    share.disk.fail_next["write"] = errno.ENOSPC
    with pytest.raises(NoRoomError):
        BeatWriter(share.disk, share.places, 1, beat())
    BeatWriter(share.disk, share.places, 1, beat())
    assert read_beat(share.disk, share.places, 1) == beat()


@pytest.mark.parametrize("both", [False, True])
def test_a_beat_that_is_cut_off_leaves_the_one_before(share: LocalShare, both: bool) -> None:
    """Whatever step the power fails in, a beat is there: the last one or the new one."""
    for step in range(1, 6):
        share = LocalShare()
        share.log()
        writer = BeatWriter(share.disk, share.places, 1, beat(1))
        share.disk.cut_at = share.disk.operations + step
        try:
            writer.write(beat(2), both=both)
        except PowerCut:
            share.disk.power_cut()

        assert read_beat(share.disk, share.places, 1).sure.index in {1, 2}


def test_rot_in_one_page_brings_nothing_back_that_was_written_to_both(share: LocalShare) -> None:
    """What is announced stands twice."""
    writer = BeatWriter(share.disk, share.places, 1, beat(1))
    writer.write(beat(2), both=True)
    for page in (0, 1):
        content = share.disk.content(share.places.beat(1))
        share.disk.flip_bit(share.places.beat(1), (page * 4096 + 30) * 8)
        assert read_beat(share.disk, share.places, 1).sure.index == 2
        share.disk.replace_content(share.places.beat(1), content)


def test_two_damaged_pages_are_named(share: LocalShare) -> None:
    """Nothing is guessed of what a holder has stored."""
    BeatWriter(share.disk, share.places, 1, beat(1))
    share.disk.replace_content(share.places.beat(1), bytes(8192))

    with pytest.raises(StoreError, match="both pages of /share/lease/beat-1 are damaged"):
        read_beat(share.disk, share.places, 1)

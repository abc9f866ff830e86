"""What the holder of an epoch writes: segments, beats, and what is confirmed."""

from __future__ import annotations

import errno
from types import SimpleNamespace

import pytest

from holdfast.environment.disk import NoRoomError
from holdfast.shared.held_epoch import HeldEpoch
from holdfast.shared.lease_files import read_beat
from holdfast.shared.log_view import EMPTY, FoundEnd
from holdfast.shared.page import PAGE_BYTES
from holdfast.shared.places import parse_segment_name
from trials.simulation.local_share import SMALL, LocalShare, claimant, end_of, seal

NOTHING = FoundEnd(sure=EMPTY, sure_term=0, segment=None)
ENTRIES = seal(EMPTY, 1, b"a" * 3000, b"b" * 3000, b"c" * 3000, b"d" * 3000)


@pytest.fixture
def share() -> LocalShare:
    share = LocalShare()
    share.log()
    return share


@pytest.fixture
def held(share: LocalShare) -> HeldEpoch:
    share.disk.open(share.places.claim(1), create=True)
    held = HeldEpoch(
        share.disk, share.places, SMALL, epoch=1, claimant=claimant("a"), identity="1" * 32
    )
    held.give_first_beat(EMPTY, 1)
    return held


def test_a_segment_is_announced_before_it_is_written(share: LocalShare, held: HeldEpoch) -> None:
    """The first beat tells of none; the next one does, and calls nothing sure."""
    assert read_beat(share.disk, share.places, 1).segment is None
    held.begin(NOTHING, 1)

    beat = read_beat(share.disk, share.places, 1)
    assert parse_segment_name(str(beat.segment)) == (1, 1, 0)
    assert beat.sure == EMPTY


def test_what_is_durable_is_not_yet_confirmed(share: LocalShare, held: HeldEpoch) -> None:
    """Only what the lease was asked for is called sure."""
    held.begin(NOTHING, 1)
    held.write(ENTRIES[:1])
    assert (held.end.index, held.confirmed.index) == (1, 0)
    held.give_beat(1.0)
    assert read_beat(share.disk, share.places, 1).sure == EMPTY

    held.note_confirmed()
    held.give_beat(2.0)
    assert read_beat(share.disk, share.places, 1).sure == end_of(ENTRIES[:1])
    assert held.last_beat == 2.0


def test_a_full_segment_is_followed_by_a_larger_one(share: LocalShare, held: HeldEpoch) -> None:
    """Sizes double up to a full segment, and an entry larger than that has one of its size."""
    held.begin(NOTHING, 1)
    for entry in ENTRIES:
        held.write([entry])
        held.note_confirmed()
    large = seal(end_of(ENTRIES), 1, b"l" * 40_000)
    held.write(large)

    names = share.disk.list_directory(share.places.journal)
    sizes = [len(share.disk.content(share.places.journal / it)) for it in names]
    assert sizes == [8192, 16384, 4096 + len(large[0].raw)]


def test_the_next_segment_continues_at_what_is_confirmed(
    share: LocalShare, held: HeldEpoch
) -> None:
    """After a failed write the same goes into a new file; what the old one has of it is dead."""
    held.begin(NOTHING, 1)
    held.write(ENTRIES[:1])
    held.note_confirmed()
    share.disk.fail_next["sync"] = errno.EIO
    with pytest.raises(OSError):
        held.write(ENTRIES[1:2])
    assert held.end == held.confirmed

    held.write(ENTRIES[1:2])
    assert held.end == end_of(ENTRIES[:2])
    names = share.disk.list_directory(share.places.journal)
    assert [parse_segment_name(it) for it in names] == [(1, 1, 0), (2, 1, 0)]


def test_a_second_attempt_at_the_same_place_has_its_own_file(
    share: LocalShare, held: HeldEpoch
) -> None:
    """A file whose sync has failed is never written again, not even by who made it."""
    held.begin(NOTHING, 1)
    share.disk.fail_next["sync"] = errno.EIO
    with pytest.raises(OSError):
        held.write(ENTRIES[:1])
    before = share.disk.content(share.places.journal / f"{1:020d}-1.seg")
    held.write(ENTRIES[:1])

    assert share.disk.content(share.places.journal / f"{1:020d}-1.seg") == before
    assert read_beat(share.disk, share.places, 1).segment == f"{1:020d}-1.1.seg"


def test_a_segment_that_could_not_be_announced_is_not_written(
    share: LocalShare, held: HeldEpoch
) -> None:
    """Nobody would find what it holds: the same goes into one that was announced."""
    held.begin(NOTHING, 1)
    held.write(ENTRIES[:1])
    held.note_confirmed()
    beats = held._beats

    def fail(*_arguments, **_others) -> None:
        raise OSError(errno.EIO, "input/output error")

    held._beats = SimpleNamespace(write=fail, last=beats.last, standing=beats.standing)
    with pytest.raises(OSError):
        held.write(ENTRIES[1:3])
    held._beats = beats
    held.write(ENTRIES[1:3])

    assert read_beat(share.disk, share.places, 1).segment == held._segment.name
    assert held.end == end_of(ENTRIES[:3])


def test_what_may_not_be_durable_is_copied(share: LocalShare, held: HeldEpoch) -> None:
    """The new segment begins behind what is sure, and has all that follows."""
    sure = end_of(ENTRIES[:1])
    held.begin(FoundEnd(sure=sure, sure_term=1, segment="x", behind=ENTRIES[1:]), 1)

    assert (held.confirmed, held.end) == (sure, end_of(ENTRIES))
    beat = read_beat(share.disk, share.places, 1)
    assert parse_segment_name(str(beat.segment)) == (2, 1, 0)
    assert beat.sure == sure


def test_a_beat_that_fails_beside_an_append_is_no_failure(
    share: LocalShare, held: HeldEpoch
) -> None:
    """The entries are a sign of life themselves; a renewal has nothing else to show."""
    held.begin(NOTHING, 1)
    share.disk.fail_next["sync"] = errno.EIO
    held.try_to_give_beat(1.0)
    share.disk.fail_next["sync"] = errno.EIO
    with pytest.raises(OSError):
        held.give_beat(2.0)


def test_first_index_and_release_are_told(share: LocalShare, held: HeldEpoch) -> None:
    """Both stand in the beat when the call returns."""
    held.begin(NOTHING, 1)
    held.note_first_index(7, 1.0)
    held.give_back()

    beat = read_beat(share.disk, share.places, 1)
    assert beat.first_index == 7
    assert beat.is_released


def test_closing_lets_go_of_the_locks(share: LocalShare, held: HeldEpoch) -> None:
    """Claim and segment are locked while the epoch is held."""
    held.begin(NOTHING, 1)
    assert share.disk.is_held(share.places.claim(1))

    held.close()
    held.close()
    assert not share.disk.held


def test_where_a_full_segment_has_no_room_a_smaller_one_may_have(
    share: LocalShare, held: HeldEpoch
) -> None:
    """Each message that is acknowledged makes some; and the next is not tried as large at once."""
    held.begin(NOTHING, 1)
    for entry in ENTRIES[:3]:
        held.write([entry])
        held.note_confirmed()
    share.disk.limit(PAGE_BYTES + 6000)
    more = seal(end_of(ENTRIES[:3]), 1, *(b"%d" % it * 3000 for it in range(4)))
    for entry in more:
        held.write([entry])
        held.note_confirmed()
        share.disk.limit(PAGE_BYTES + 6000)
    assert held.confirmed == end_of(more)
    sizes = [len(share.disk.content(it)) for it in sorted(share.disk.durable_paths())]
    assert max(sizes) <= 16384


def test_what_has_no_room_at_all_is_refused(share: LocalShare, held: HeldEpoch) -> None:
    """Nothing is left of the attempts, and it goes on once there is room."""
    held.begin(NOTHING, 1)
    held.write(ENTRIES[:1])
    held.note_confirmed()
    share.disk.limit(2000)
    for _ in range(3):
        with pytest.raises(NoRoomError):
            held.write(ENTRIES[1:3])
    share.disk.limit(None)
    held.write(ENTRIES[1:3])
    assert held.end == end_of(ENTRIES[:3])


def test_a_share_is_low_before_it_is_full(share: LocalShare, held: HeldEpoch) -> None:
    """With each sign of life it is seen; and half as much again must be there afterwards."""
    held.begin(NOTHING, 1)
    held.give_beat(1.0)
    assert not held.is_low
    for free, is_low in ((-1, True), (held.reserve_bytes // 4, True), (held.reserve_bytes, False)):
        share.disk.limit(held.reserve_bytes + free)
        held.give_beat(2.0)
        assert held.is_low is is_low
    share.disk.limit(0)
    held.try_to_give_beat(3.0)
    assert held.is_low

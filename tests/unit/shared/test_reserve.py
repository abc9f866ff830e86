"""Room that is kept for a taker: made by who holds the lease, used by who wants to."""

from __future__ import annotations

import errno
import zlib

import pytest

from holdfast.environment.disk import NoRoomError
from holdfast.shared.reserve import Reserve
from trials.simulation.local_share import LocalShare

LEAST_BYTES = 8 * 1024
TAKES = 4


@pytest.fixture
def share() -> LocalShare:
    share = LocalShare()
    share.log()
    return share


@pytest.fixture
def reserve(share: LocalShare) -> Reserve:
    return Reserve(share.disk, share.places, TAKES, LEAST_BYTES)


def kept(share: LocalShare) -> list[str]:
    return [it for it in share.disk.list_directory(share.places.root) if it.startswith("reserve-")]


def make_all(reserve: Reserve) -> None:
    reserve.note_taken()
    for _ in range(TAKES):
        reserve.make_one()


def test_one_is_made_at_a_time_and_none_before_a_take(share: LocalShare, reserve: Reserve) -> None:
    """Each is filled, durably; those that are there already are left alone."""
    reserve.make_one()
    assert kept(share) == []
    reserve.note_taken()
    for number in range(1, TAKES + 1):
        reserve.make_one()
        assert len(kept(share)) == number
    content = share.disk.content(share.places.reserve(0))
    assert len(content) > LEAST_BYTES
    assert len(zlib.compress(content)) > LEAST_BYTES, "nothing makes less of it"
    assert content != share.disk.content(share.places.reserve(1))[: len(content)]
    assert share.places.reserve(0) in share.disk.durable_paths()

    assert reserve.takes_left() == TAKES

    before = share.disk.operations
    reserve.make_one()
    assert share.disk.operations == before
    share.disk.unlink(share.places.reserve(2))
    another = Reserve(share.disk, share.places, TAKES, LEAST_BYTES)
    another.note_taken()
    another.make_one()
    assert len(kept(share)) == TAKES


def test_one_that_could_not_be_made_is_tried_again(share: LocalShare, reserve: Reserve) -> None:
    """What there is of it is filled up; a holder does not end for want of it."""
    reserve.note_taken()
    share.disk.limit(100)
    reserve.make_one()
    assert reserve.takes_left() == 0
    share.disk.limit(None)
    make_all(reserve)
    assert reserve.takes_left() == TAKES
    sizes = {len(share.disk.content(share.places.reserve(it))) for it in range(TAKES)}
    assert len(sizes) == 1
    assert min(sizes) > LEAST_BYTES


def test_so_much_is_given_up_as_is_needed(share: LocalShare, reserve: Reserve) -> None:
    """The same is done again after each, and with enough room nothing is touched."""
    make_all(reserve)
    fails = [2]

    def call() -> str:
        if fails[0]:
            fails[0] -= 1
            raise NoRoomError(errno.ENOSPC, "no room")
        return "done"

    assert reserve.use_for(call) == "done"
    assert len(kept(share)) == TAKES - 2
    assert reserve.use_for(call) == "done"
    assert len(kept(share)) == TAKES - 2


def test_want_of_room_is_told_once_nothing_is_left(share: LocalShare, reserve: Reserve) -> None:
    """Everything was given up for it; and other failures give up nothing."""
    make_all(reserve)

    def fail() -> None:
        raise OSError(errno.EIO, "input/output error")

    with pytest.raises(OSError, match="input/output"):
        reserve.use_for(fail)
    assert len(kept(share)) == TAKES

    def find_no_room() -> None:
        raise NoRoomError(errno.ENOSPC, "no room")

    with pytest.raises(NoRoomError):
        reserve.use_for(find_no_room)
    assert kept(share) == []


def test_one_that_is_a_hole_is_none_and_is_made_whole(share: LocalShare, reserve: Reserve) -> None:
    """
    A copy that leaves zeros out (rsync -S) has its size and no room; so may one of an earlier
    version have, which held zeros. Nobody counts on it, and the next holder writes it anew.
    """
    make_all(reserve)
    path = share.places.reserve(1)
    content = share.disk.content(path)
    file = share.disk.open(path)
    file.write(bytes(len(content)), 0)
    assert reserve.takes_left() == TAKES - 1

    make_all(reserve)

    assert reserve.takes_left() == TAKES
    assert share.disk.content(path) == content

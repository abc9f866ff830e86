"""Segments: written by one process, whole appends, torn ends."""

from __future__ import annotations

import errno

import pytest

from holdfast.environment.disk import NoRoomError
from holdfast.errors import CorruptEntryError, StoreError
from holdfast.journal.entry import Entry
from holdfast.leases.contract import Place
from holdfast.shared.log_view import EMPTY
from holdfast.shared.page import PAGE_BYTES
from holdfast.shared.places import SegmentName
from holdfast.shared.segments import SegmentPage, SegmentReader, SegmentWriter, read_segment_page
from trials.simulation.local_share import LocalShare, seal
from trials.simulation.simulated_disk import PowerCut

IDENTITY = "1" * 32
ENTRIES = seal(EMPTY, 1, b"a" * 3000, b"b" * 700, b"c" * 10)
PAGE = SegmentPage(name=SegmentName(1, 1), cut=EMPTY, cut_term=0, previous=None, capacity=16 * 1024)


@pytest.fixture
def share() -> LocalShare:
    share = LocalShare()
    share.log()
    return share


def writer(share: LocalShare) -> SegmentWriter:
    return SegmentWriter(share.disk, share.places, PAGE, IDENTITY)


def readable(share: LocalShare) -> list[Entry]:
    reader = SegmentReader(share.disk, share.places, str(PAGE.name))
    found = []
    try:
        for _, entry in reader.entries_from(PAGE_BYTES):
            found.append(entry)
    except CorruptEntryError:
        pass
    return found


def test_what_is_written_is_read(share: LocalShare) -> None:
    """Entries stand byte for byte, behind a page that says where they follow on."""
    made = writer(share)
    made.write(ENTRIES[:1])
    made.write(ENTRIES[1:])

    assert readable(share) == ENTRIES
    assert read_segment_page(share.disk, share.places, made.name, IDENTITY) == PAGE
    assert len(share.disk.content(share.places.journal / made.name)) == PAGE.capacity
    assert made.has_room(1000) and not made.has_room(PAGE.capacity)


def test_nobody_writes_over_a_segment(share: LocalShare) -> None:
    """A name that is taken is not opened for writing."""
    writer(share).write(ENTRIES)
    with pytest.raises(FileExistsError):
        writer(share)

    assert readable(share) == ENTRIES


@pytest.mark.parametrize("step", [1, 2, 3, 4])
@pytest.mark.parametrize("seed", range(8))
def test_an_append_is_there_as_a_whole_or_not_at_all(step: int, seed: int) -> None:
    """Wherever the power fails, and whichever sectors it leaves (L15)."""
    share = LocalShare()
    share.disk._random.seed(seed)
    share.log()
    made = writer(share)
    share.disk.cut_at = share.disk.operations + step
    with pytest.raises(PowerCut):
        made.write(ENTRIES)
    share.disk.power_cut()

    assert readable(share) in ([], ENTRIES)


def test_no_room_leaves_nothing_that_can_be_read(share: LocalShare) -> None:
    """What had been written of it is taken back."""
    made = writer(share)
    write = made._file.write_durable
    calls = []

    def full(buffers, offset) -> None:
        calls.append(offset)
        write(buffers, offset)
        if len(calls) == 2:
            raise NoRoomError(errno.ENOSPC, "no space left")

    made._file = type("File", (), {"write_durable": staticmethod(full)})()
    with pytest.raises(NoRoomError):
        made.write(ENTRIES)

    assert readable(share) == []


def test_what_cannot_be_taken_back_is_not_known(share: LocalShare) -> None:
    """Then it is no refusal: the entries may be there."""
    made = writer(share)

    def full(buffers, offset) -> None:
        raise NoRoomError(errno.ENOSPC, "no space left")

    made._file = type("File", (), {"write_durable": staticmethod(full)})()
    with pytest.raises(OSError, match="taken back") as caught:
        made.write(ENTRIES)
    assert not isinstance(caught.value, NoRoomError)


def test_a_segment_that_cannot_be_made_is_removed(share: LocalShare) -> None:
    """Its room is wanted, and its name for the next attempt."""
    share.disk.fail_next["sync"] = errno.EIO
    with pytest.raises(OSError):
        writer(share)

    assert share.disk.list_directory(share.places.journal) == []


def test_damage_is_told_with_its_place(share: LocalShare) -> None:
    """Segment, byte and entry are in the error."""
    made = writer(share)
    made.write(ENTRIES)
    share.disk.flip_bit(share.places.journal / made.name, (PAGE_BYTES + 200) * 8)
    reader = SegmentReader(share.disk, share.places, made.name)

    with pytest.raises(CorruptEntryError) as caught:
        list(reader.entries_from(PAGE_BYTES))
    assert (caught.value.segment, caught.value.byte, caught.value.index) == (
        made.name,
        PAGE_BYTES,
        1,
    )


def test_a_foreign_or_damaged_first_page_is_refused(share: LocalShare) -> None:
    """A segment of another log, and one whose page is not whole, are named."""
    made = writer(share)
    with pytest.raises(StoreError, match="is of log 1111"):
        read_segment_page(share.disk, share.places, made.name, "2" * 32)

    share.disk.flip_bit(share.places.journal / made.name, 300)
    with pytest.raises(StoreError, match=r"the first page of .* is damaged"):
        read_segment_page(share.disk, share.places, made.name, IDENTITY)


def test_the_lock_is_held_while_it_is_written(share: LocalShare) -> None:
    """Whoever closes it lets it go."""
    made = writer(share)
    path = share.places.journal / made.name
    assert share.disk.is_held(path)

    made.close()
    assert not share.disk.is_held(path)


def test_an_empty_place_before_everything() -> None:
    """A log begins behind index 0 with a chain of zeros."""
    assert EMPTY == Place(0, bytes(16))

"""What the bytes of a segment still show."""

from __future__ import annotations

from pathlib import Path

import google_crc32c
import pytest

from holdfast.errors import StoreError
from holdfast.journal.ballot import LogClaim
from holdfast.journal.found_log import LogScan
from holdfast.journal.scan import scan_log
from holdfast.journal.segment import SEGMENT_HEADER_BYTES, segment_name
from holdfast.journal.traces import used_end
from trials.simulation.local_journal import LocalJournal
from trials.simulation.simulated_disk import SimulatedDisk

LOG = Path("/node/journal")


def scan(disk: SimulatedDisk, floor: int = 0) -> LogScan:
    return scan_log(LOG, disk, claim=LogClaim(floor=floor))


def overwrite(eight: LocalJournal, index: int, at: int, data: bytes) -> None:
    """Put bytes into an entry, behind the journal's back."""
    disk, place = eight.disk, eight.journal.place_of(index)
    assert isinstance(disk, SimulatedDisk)
    image = disk.content(place.path)
    start = place.byte + at
    disk.replace_content(place.path, image[:start] + data + image[start + len(data) :])


@pytest.mark.promise("F5")
def test_a_zeroed_sector_in_the_last_entry_is_a_torn_write(
    disk: SimulatedDisk, eight: LocalJournal
) -> None:
    """A sector of zeros that the entry does not have was never written."""
    place = eight.journal.place_of(8)
    sector = (place.byte // 512 + 2) * 512
    overwrite(eight, 8, sector - place.byte, bytes(512))
    found = scan(disk)
    assert (found.tail.state, found.last_index, found.damage) == ("torn", 7, [])
    assert (found.tail.start, found.tail.end) == (place.byte, place.byte + place.size)


def test_a_page_that_cannot_be_read_may_have_held_many_entries(disk: SimulatedDisk) -> None:
    """At the log's end, as many as fit in: too high a guess costs time, too low a one entries."""
    eight = LocalJournal(disk)
    for number in range(1, 21):
        eight.append(bytes([number]) * 300)
    place = eight.journal.place_of(20)
    first_bad = next(i for i in range(1, 21) if eight.journal.place_of(i).byte + 380 > 8192)
    disk.make_unreadable(place.path, 8192 // 512)
    found = scan(disk)
    assert (found.tail.state, found.last_index, found.tail.term) == ("unknown", first_bad - 1, 0)
    assert place.byte < 12288
    assert 20 <= found.tail.through <= 20 + 4096 // 72


def test_a_header_behind_an_unreadable_page_says_how_many_are_gone(disk: SimulatedDisk) -> None:
    """The last entry's header is good, its body is not: its index is the highest there was."""
    eight = LocalJournal(disk)
    for number in range(1, 31):
        eight.append(bytes([number]) * 300)
    last = eight.journal.place_of(30)
    assert 12288 < last.byte < 16384 and len(eight.journal.segments()) == 1
    overwrite(eight, 30, 200, b"?")
    for number in range(1, 30):
        if eight.journal.place_of(number).byte >= 12288:
            overwrite(eight, number, 200, b"?")
    disk.make_unreadable(last.path, 8192 // 512)
    found = scan(disk)
    assert (found.tail.state, found.tail.through, found.tail.term) == ("unknown", 30, 1)


def test_a_first_sector_of_zeros_is_a_torn_write(disk: SimulatedDisk, eight: LocalJournal) -> None:
    """Where the header should be there is nothing although something follows."""
    place = eight.journal.place_of(8)
    boundary = (place.byte // 512 + 1) * 512
    overwrite(eight, 8, 0, bytes(boundary - place.byte))
    assert scan(disk).tail.state == "torn"


def test_a_header_written_by_half_is_a_torn_write(disk: SimulatedDisk) -> None:
    """The half behind the sector's edge is zero, but a chain value never is."""
    eight = LocalJournal(disk)
    eight.append(b"x" * (512 - 72 - 40))
    place_of_next = eight.journal.segments()[0].bytes
    assert place_of_next == SEGMENT_HEADER_BYTES + 512 - 40
    eight.append(b"y" * 100)
    overwrite(eight, 2, 40, bytes(136))
    assert scan(disk).tail.state == "torn"


def test_the_last_bytes_missing_is_a_torn_write_if_they_cannot_be_zero(
    disk: SimulatedDisk,
) -> None:
    """The end of a small entry lies in a sector of its own and was never written."""
    eight = LocalJournal(disk)
    eight.append(b"x" * 460)
    overwrite(eight, 1, 512, bytes(24))
    assert scan(disk).tail.state == "torn"


def test_an_entry_that_ends_in_zeros_leaves_it_unknown(disk: SimulatedDisk) -> None:
    """If the entry itself ends in zeros, zeros at its end prove nothing."""
    eight = LocalJournal(disk)
    eight.append(b"x" * 450 + bytes(40))
    overwrite(eight, 1, 100, b"?")
    assert scan(disk).tail.state == "unknown"


def test_an_unreadable_sector_is_damage(disk: SimulatedDisk, eight: LocalJournal) -> None:
    """EIO on a read spoils the entries there, not the start of the node."""
    place = eight.journal.place_of(2)
    disk.make_unreadable(place.path, place.byte // 512 + 3)
    found = scan(disk)
    # A page of 4 KiB is the smallest piece asked for, so a neighbour may be hit as well.
    assert 2 in {it.index for it in found.damage}
    assert found.last_index == 8


def test_a_renamed_segment_is_named(disk: SimulatedDisk, eight: LocalJournal) -> None:
    """A segment under another one's name is refused."""
    disk.rename(eight.segment_path(0), LOG / segment_name(2))
    with pytest.raises(StoreError, match="renamed or copied"):
        scan(disk)


def test_a_segment_of_a_later_version_is_named(disk: SimulatedDisk, eight: LocalJournal) -> None:
    """A later program's file is not taken for damage."""
    path = eight.segment_path(0)
    block = bytearray(disk.content(path))
    block[4:6] = (9).to_bytes(2, "little")
    block[8:12] = bytes(4)
    block[8:12] = google_crc32c.value(bytes(block[:4096])).to_bytes(4, "little")
    disk.replace_content(path, bytes(block))
    with pytest.raises(StoreError, match=r"segment cannot be read: .*version 9"):
        scan(disk)


@pytest.mark.parametrize("size", [0, 1, 8, 65_535, 65_536, 65_537, 131_072, 200_000])
def test_the_end_of_what_is_used_is_behind_the_last_byte_that_is_not_zero(size: int) -> None:
    """
    Wherever that stands; it is sought by pieces, as byte by byte took a third of a node's start.
    """
    assert used_end(bytes(size)) == 0
    for last in {0, 1, 7, 8, 9, 65_535, 65_536, 65_537, size // 2, size - 1}:
        if 0 <= last < size:
            data = bytearray(size)
            data[last] = 1
            assert used_end(bytes(data)) == (last + 8) & ~7
    assert used_end(b"\1" * size) == (size + 7) & ~7

"""Damage, torn writes and unknown ends are told apart."""

from __future__ import annotations

from pathlib import Path

import google_crc32c
import pytest

from holdfast.errors import StoreError
from holdfast.journal.ballot import LogClaim
from holdfast.journal.damage import MISSING_FILE
from holdfast.journal.entry import parse_entry
from holdfast.journal.found_log import LogScan
from holdfast.journal.jobs import RUN_BYTES_MAX
from holdfast.journal.scan import scan_log
from holdfast.journal.settings import JournalSettings, MiB
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


@pytest.mark.parametrize("index", [1, 3, 4, 7])
def test_a_bad_body_with_good_entries_behind_it_is_damage(
    disk: SimulatedDisk, eight: LocalJournal, index: int
) -> None:
    """F18: the entry keeps its identity; everything else is fine, nothing is cut."""
    overwrite(eight, index, 200, b"?")
    found = scan(disk)
    place = eight.journal.place_of(index)
    assert [(it.index, it.byte, it.segment) for it in found.damage] == [
        (index, place.byte, place.path.name)
    ]
    assert "body checksum" in str(found.damage[0])
    assert (found.last_index, found.tail.state) == (8, "clean")


@pytest.mark.parametrize("index", [1, 3, 4, 6, 7])
@pytest.mark.promise("F19")
def test_a_bad_header_gets_its_identity_from_the_neighbours(
    disk: SimulatedDisk, eight: LocalJournal, index: int
) -> None:
    """F19: with its header gone an entry is still known by what stands before and after it."""
    overwrite(eight, index, 30, b"?")
    found = scan(disk)
    assert [it.index for it in found.damage] == [index]
    assert found.last_index == 8
    segment = next(it for it in found.segments if it.base_index <= index <= it.last_index)
    place = eight.journal.place_of(index)
    assert segment.place(index) == (place.byte, place.size)


def test_several_bad_headers_in_a_row_are_several_damaged_entries(
    disk: SimulatedDisk, eight: LocalJournal
) -> None:
    """The number of entries lost between two good ones is known, if not where each began."""
    overwrite(eight, 1, 30, b"?")
    overwrite(eight, 2, 30, b"?")
    found = scan(disk)
    assert [it.index for it in found.damage] == [1, 2]
    first, second = found.segments[0].place(1), found.segments[0].place(2)
    assert first == (4096, eight.journal.place_of(3).byte - 4096)
    assert second[1] == 0


@pytest.mark.promise("F22")
def test_the_same_below_the_floor_is_damage(disk: SimulatedDisk, eight: LocalJournal) -> None:
    """What was durable once cannot be torn, however it looks."""
    overwrite(eight, 8, 600, bytes(1024))
    found = scan(disk, floor=8)
    assert [it.index for it in found.damage] == [8]
    assert (found.tail.state, found.last_index) == ("clean", 8)


@pytest.mark.promise("F19")
def test_a_last_entry_that_is_wrong_without_zeros_is_unknown(
    disk: SimulatedDisk, eight: LocalJournal
) -> None:
    """Torn or rotten, nobody can tell: the index and term are told, nothing is claimed."""
    overwrite(eight, 8, 200, b"?")
    found = scan(disk)
    assert (found.tail.state, found.tail.through, found.tail.term) == ("unknown", 8, 1)
    assert found.last_index == 7


def test_a_last_entry_without_header_is_unknown(disk: SimulatedDisk, eight: LocalJournal) -> None:
    """The same with a spoilt header: the term is not known either."""
    overwrite(eight, 8, 30, b"?")
    found = scan(disk)
    assert (found.tail.state, found.tail.through, found.tail.term) == ("unknown", 8, 0)


@pytest.mark.parametrize(
    ("seventh", "eighth", "term"),
    [(200, 200, 1), (30, 200, 1), (200, 30, 0), (30, 30, 0), (30, 2, 0), (2, 30, 0)],
)
def test_two_spoilt_entries_at_the_end_are_both_unknown(
    disk: SimulatedDisk, seventh: int, eighth: int, term: int
) -> None:
    """
    In their bodies, their headers or the first bytes of these: the node may have stored both, and
    must not vote as if it had stored only one of them.
    """
    eight = LocalJournal(disk)
    for number in range(1, 9):
        eight.append(bytes([number]) * 900)
    overwrite(eight, 7, seventh, b"?")
    overwrite(eight, 8, eighth, b"?")
    found = scan(disk)
    assert (found.tail.state, found.last_index) == ("unknown", 6)
    assert (found.tail.through, found.tail.term) == (8, term)


@pytest.mark.promise("F22")
def test_a_last_entry_below_the_floor_without_header_is_missing(
    disk: SimulatedDisk, eight: LocalJournal
) -> None:
    """F22: stored once and not there any more: told with the range, never taken for torn."""
    overwrite(eight, 8, 30, b"?")
    found = scan(disk, floor=8)
    assert (found.tail.state, found.tail.through, found.last_index) == ("unknown", 8, 7)
    assert "entries 8 to 8 were stored once and are missing" in str(found.damage[0])


def test_a_torn_entry_in_the_last_run_is_torn_though_good_ones_follow(
    disk: SimulatedDisk,
) -> None:
    """Entries of one run share a sync, so a later one proves nothing about an earlier one."""
    eight = LocalJournal(disk, settings=JournalSettings(segment_bytes=1 * MiB))
    eight.perform(*[eight.stage(bytes([n]) * 1000) for n in (1, 2, 3)])
    start = eight.journal.place_of(2).byte
    overwrite(eight, 2, (start // 512 + 1) * 512 - start, bytes(512))
    found = scan(disk)
    assert (found.tail.state, found.last_index, found.damage) == ("torn", 1, [])


def test_further_from_the_end_than_one_run_it_is_damage(disk: SimulatedDisk) -> None:
    """With more behind it than one run can hold, a sync came between: it was durable."""
    eight = LocalJournal(disk, settings=JournalSettings(segment_bytes=8 * MiB))
    eight.append(b"x" * 2000)
    for number in range(1, 6):
        eight.append(bytes([number]) * (RUN_BYTES_MAX // 4))
    overwrite(eight, 1, 512, bytes(1024))
    found = scan(disk)
    assert ([it.index for it in found.damage], found.last_index) == ([1], 6)


def test_a_broken_chain_is_damage(disk: SimulatedDisk, eight: LocalJournal) -> None:
    """An entry with good checksums that is not the one that belongs here is not served."""
    place = eight.journal.place_of(2)
    raw = bytearray(parse_entry(disk.content(place.path), place.byte).raw)
    raw[56] ^= 1
    raw[8:12] = bytes(4)
    raw[8:12] = google_crc32c.value(bytes(raw[:72])).to_bytes(4, "little")
    overwrite(eight, 2, 0, bytes(raw))
    found = scan(disk)
    assert "chain hash does not continue" in str(found.damage[0])
    assert found.damage[0].index == 2


def test_an_entry_in_the_wrong_place_is_damage(disk: SimulatedDisk, eight: LocalJournal) -> None:
    """A misdirected write is recognised by the index, though its checksums are good."""
    place = eight.journal.place_of(3)
    stray = parse_entry(disk.content(place.path), place.byte).raw
    overwrite(eight, 2, 0, stray)
    found = scan(disk)
    assert [it.index for it in found.damage] == [2]
    assert "entry 3 stands where 2 belongs" in str(found.damage[0])
    assert found.last_index == 8


def test_record_numbers_that_do_not_continue_are_damage(
    disk: SimulatedDisk, eight: LocalJournal
) -> None:
    """The chain does not cover record numbers; the scan does."""
    place = eight.journal.place_of(2)
    raw = bytearray(parse_entry(disk.content(place.path), place.byte).raw)
    raw[40:48] = (77).to_bytes(8, "little")
    raw[8:12] = bytes(4)
    raw[8:12] = google_crc32c.value(bytes(raw[:72])).to_bytes(4, "little")
    overwrite(eight, 2, 0, bytes(raw))
    found = scan(disk)
    assert "record number do not continue" in str(found.damage[0])


@pytest.mark.promise("F22")
def test_zeros_at_the_end_of_a_sealed_segment_are_missing_entries(
    disk: SimulatedDisk, eight: LocalJournal
) -> None:
    """Even with nothing left of them, entries that the next segment presupposes are known."""
    overwrite(eight, 6, 0, bytes(eight.journal.place_of(6).size))
    found = scan(disk)
    assert [(it.index, it.reason) for it in found.damage] == [(6, "the entry is missing")]
    assert found.last_index == 8


def test_bytes_behind_a_sealed_segments_last_entry_are_reported(
    disk: SimulatedDisk, eight: LocalJournal
) -> None:
    """They harm no entry, but the file is no longer the same on every node."""
    path = eight.segment_path(0)
    disk.replace_content(path, disk.content(path)[:-3] + b"abc")
    found = scan(disk)
    assert [(it.index, it.segment) for it in found.damage] == [(0, path.name)]


def test_a_damaged_segment_header_is_worked_out(disk: SimulatedDisk, eight: LocalJournal) -> None:
    """The header follows from the entry before and is confirmed by the one behind it."""
    for position in (0, 1):
        disk.flip_bit(eight.segment_path(position), 100)
    found = scan(disk)
    assert {it.index for it in found.damage} == {0}
    assert len(found.headers_worked_out) == 2
    assert found.last_index == 8


def test_a_first_header_that_nothing_confirms_stays_damaged(
    disk: SimulatedDisk, eight: LocalJournal
) -> None:
    """With older segments dropped, nothing tells what stood before; entries are still served."""
    eight.journal.drop_before(4)
    disk.flip_bit(eight.segment_path(0), 100)
    found = scan(disk)
    assert found.headers_worked_out == []
    assert [it.index for it in found.damage] == [0]
    assert (found.segments[0].header.base_record, found.last_index) == (4, 8)


def test_a_missing_file_that_may_be_a_lost_end_is_damage(
    disk: SimulatedDisk, eight: LocalJournal
) -> None:
    """Peers' copies will tell; that a file may be gone is said."""
    disk.unlink(eight.segment_path(1))
    found = scan(disk)
    assert [(it.index, it.reason) for it in found.damage] == [
        (index, MISSING_FILE) for index in (4, 5, 6)
    ]
    assert found.last_index == 8


def test_a_lost_end_with_many_small_entries_is_damage(disk: SimulatedDisk) -> None:
    """However large the others are: what was lost fits in there, so a peer can mend it."""
    eight = LocalJournal(disk, settings=JournalSettings(segment_bytes=64 * 1024))
    eight.append(b"x" * 28_000)
    eight.append(b"x" * 28_000)
    while eight.journal.segments()[0].bytes < 64_000:
        eight.append(b"")
    while len(eight.journal.segments()) < 2:
        eight.append(b"y" * 6000)
    last = eight.journal.segments()[0].last_index
    lost = eight.journal.place_of(last - 40)
    end = eight.journal.place_of(last).byte + 72
    sector = lost.byte // 512
    image = disk.content(lost.path)
    zeros = bytes(end - sector * 512)
    disk.replace_content(lost.path, image[: sector * 512] + zeros + image[end:])
    entries = {index: eight.journal.entry(index) for index in range(1, last + 1)}
    eight.close()
    eight._open()
    damaged = [it.index for it in eight.journal.damage]
    assert damaged[-1] == last
    assert len(damaged) > 35
    for index in damaged:
        eight.repair(entries[index])
    assert eight.journal.damage == []


def test_a_segment_of_another_log_is_named(disk: SimulatedDisk, eight: LocalJournal) -> None:
    """F23: a file from another copy of the log does not slip in."""
    other = LocalJournal(SimulatedDisk())
    for number in range(1, 9):
        other.append(bytes([number + 100]) * 3500)
    assert isinstance(other.disk, SimulatedDisk)
    disk.replace_content(eight.segment_path(2), other.disk.content(other.segment_path(2)))
    with pytest.raises(StoreError, match="belongs to another log"):
        scan(disk)

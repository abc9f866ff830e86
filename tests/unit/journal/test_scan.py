"""The verdict on every kind of fault: fine, torn, unknown, damaged, missing or foreign."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import google_crc32c
import pytest

from holdfast.errors import SegmentsMissingError, StoreError
from holdfast.journal.ballot import LogClaim
from holdfast.journal.damage import MISSING_FILE
from holdfast.journal.entry import parse_entry
from holdfast.journal.jobs import RUN_BYTES_MAX
from holdfast.journal.scan import LogScan, scan_log
from holdfast.journal.segment import SEGMENT_HEADER_BYTES, segment_name
from holdfast.journal.settings import JournalSettings, MiB
from trials.simulation.local_journal import LocalJournal
from trials.simulation.simulated_disk import PowerCut, SimulatedDisk

LOG = Path("/node/journal")


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


@pytest.fixture
def log(disk: SimulatedDisk) -> LocalJournal:
    """Eight entries of two sectors and more over three segments; the files are at rest."""
    log = LocalJournal(disk)
    for number in range(1, 9):
        log.append(bytes([number]) * 3500)
    assert len(log.journal.segments()) == 3
    return log


def scan(disk: SimulatedDisk, floor: int = 0) -> LogScan:
    return scan_log(LOG, disk, claim=LogClaim(floor=floor))


def overwrite(log: LocalJournal, index: int, at: int, data: bytes) -> None:
    """Put bytes into an entry, behind the journal's back."""
    disk, place = log.disk, log.journal.place_of(index)
    assert isinstance(disk, SimulatedDisk)
    image = disk.content(place.path)
    start = place.byte + at
    disk.replace_content(place.path, image[:start] + data + image[start + len(data) :])


def test_one_file_is_open_at_a_time(log: LocalJournal) -> None:
    """A log of ten thousand files is read by a process that may open a thousand."""
    open_count: list[int] = [0]

    class CountingFile:
        def __init__(self, file: Any) -> None:
            self.read, self.size = file.read, file.size
            open_count.append(open_count[-1] + 1)

        def close(self) -> None:
            open_count.append(open_count[-1] - 1)

    class CountingDisk:
        def __getattr__(self, name: str) -> Any:
            return getattr(log.disk, name)

        def open(self, *arguments: Any, **options: Any) -> Any:
            return CountingFile(log.disk.open(*arguments, **options))

    assert scan_log(LOG, CountingDisk()).last_index == 8
    assert (max(open_count), open_count[-1]) == (1, 0)


def test_a_good_log_is_clean(disk: SimulatedDisk, log: LocalJournal) -> None:
    """Everything is found where the journal put it, and progress is told."""
    seen: list[tuple[int, int]] = []
    found = scan_log(LOG, disk, progress=lambda done, total: seen.append((done, total)))
    assert found.damage == []
    assert found.tail.state == "clean"
    assert (found.last_index, found.last_chain) == (8, log.journal.last_chain)
    assert (found.next_record, found.last_timestamp) == (9, 8)
    assert [it.last_index for it in found.segments] == [3, 6, 8]
    assert seen[-1][0] == seen[-1][1] == found.bytes_read


def test_an_empty_directory_is_an_empty_log(disk: SimulatedDisk) -> None:
    """No files and no promise: the log is new."""
    disk.make_directory(LOG)
    found = scan(disk)
    assert (found.last_index, found.segments) == (0, [])


def test_a_log_that_is_gone_is_not_an_empty_log(disk: SimulatedDisk) -> None:
    """No files although the ballot says that entries were stored: refused, with what to do."""
    disk.make_directory(LOG)
    with pytest.raises(StoreError, match=r"had stored 5 entries.*rejoins as a new one"):
        scan_log(LOG, disk, claim=LogClaim(floor=5, floor_chain=b"c" * 16, first_index=1))


def test_a_log_begun_anew_answers_for_the_end_that_it_had_lost(disk: SimulatedDisk) -> None:
    """Nothing of it was stored yet; what was noted of the log before has no chain value."""
    disk.make_directory(LOG)
    found = scan_log(LOG, disk, claim=LogClaim(floor=5, first_index=3))
    assert (found.tail.state, found.tail.through, found.last_index) == ("unknown", 5, 0)


@pytest.mark.parametrize("index", [1, 3, 4, 7])
def test_a_bad_body_with_good_entries_behind_it_is_damage(
    disk: SimulatedDisk, log: LocalJournal, index: int
) -> None:
    """F18: the entry keeps its identity; everything else is fine, nothing is cut."""
    overwrite(log, index, 200, b"?")
    found = scan(disk)
    place = log.journal.place_of(index)
    assert [(it.index, it.byte, it.segment) for it in found.damage] == [
        (index, place.byte, place.path.name)
    ]
    assert "body checksum" in str(found.damage[0])
    assert (found.last_index, found.tail.state) == (8, "clean")


@pytest.mark.parametrize("index", [1, 3, 4, 6, 7])
@pytest.mark.promise("F19")
def test_a_bad_header_gets_its_identity_from_the_neighbours(
    disk: SimulatedDisk, log: LocalJournal, index: int
) -> None:
    """F19: with its header gone an entry is still known by what stands before and after it."""
    overwrite(log, index, 30, b"?")
    found = scan(disk)
    assert [it.index for it in found.damage] == [index]
    assert found.last_index == 8
    segment = next(it for it in found.segments if it.base_index <= index <= it.last_index)
    place = log.journal.place_of(index)
    assert segment.place(index) == (place.byte, place.size)


def test_several_bad_headers_in_a_row_are_several_damaged_entries(
    disk: SimulatedDisk, log: LocalJournal
) -> None:
    """The number of entries lost between two good ones is known, if not where each began."""
    overwrite(log, 1, 30, b"?")
    overwrite(log, 2, 30, b"?")
    found = scan(disk)
    assert [it.index for it in found.damage] == [1, 2]
    first, second = found.segments[0].place(1), found.segments[0].place(2)
    assert first == (4096, log.journal.place_of(3).byte - 4096)
    assert second[1] == 0


@pytest.mark.promise("F5")
def test_a_zeroed_sector_in_the_last_entry_is_a_torn_write(
    disk: SimulatedDisk, log: LocalJournal
) -> None:
    """A sector of zeros that the entry does not have was never written."""
    place = log.journal.place_of(8)
    sector = (place.byte // 512 + 2) * 512
    overwrite(log, 8, sector - place.byte, bytes(512))
    found = scan(disk)
    assert (found.tail.state, found.last_index, found.damage) == ("torn", 7, [])
    assert (found.tail.start, found.tail.end) == (place.byte, place.byte + place.size)


@pytest.mark.promise("F22")
def test_the_same_below_the_floor_is_damage(disk: SimulatedDisk, log: LocalJournal) -> None:
    """What was durable once cannot be torn, however it looks."""
    overwrite(log, 8, 600, bytes(1024))
    found = scan(disk, floor=8)
    assert [it.index for it in found.damage] == [8]
    assert (found.tail.state, found.last_index) == ("clean", 8)


@pytest.mark.promise("F19")
def test_a_last_entry_that_is_wrong_without_zeros_is_unknown(
    disk: SimulatedDisk, log: LocalJournal
) -> None:
    """Torn or rotten, nobody can tell: the index and term are told, nothing is claimed."""
    overwrite(log, 8, 200, b"?")
    found = scan(disk)
    assert (found.tail.state, found.tail.through, found.tail.term) == ("unknown", 8, 1)
    assert found.last_index == 7


def test_a_last_entry_without_header_is_unknown(disk: SimulatedDisk, log: LocalJournal) -> None:
    """The same with a spoilt header: the term is not known either."""
    overwrite(log, 8, 30, b"?")
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
    log = LocalJournal(disk)
    for number in range(1, 9):
        log.append(bytes([number]) * 900)
    overwrite(log, 7, seventh, b"?")
    overwrite(log, 8, eighth, b"?")
    found = scan(disk)
    assert (found.tail.state, found.last_index) == ("unknown", 6)
    assert (found.tail.through, found.tail.term) == (8, term)


def test_a_page_that_cannot_be_read_may_have_held_many_entries(disk: SimulatedDisk) -> None:
    """At the log's end, as many as fit in: too high a guess costs time, too low a one entries."""
    log = LocalJournal(disk)
    for number in range(1, 21):
        log.append(bytes([number]) * 300)
    place = log.journal.place_of(20)
    first_bad = next(i for i in range(1, 21) if log.journal.place_of(i).byte + 380 > 8192)
    disk.make_unreadable(place.path, 8192 // 512)
    found = scan(disk)
    assert (found.tail.state, found.last_index, found.tail.term) == ("unknown", first_bad - 1, 0)
    assert place.byte < 12288
    assert 20 <= found.tail.through <= 20 + 4096 // 72


def test_a_header_behind_an_unreadable_page_says_how_many_are_gone(disk: SimulatedDisk) -> None:
    """The last entry's header is good, its body is not: its index is the highest there was."""
    log = LocalJournal(disk)
    for number in range(1, 31):
        log.append(bytes([number]) * 300)
    last = log.journal.place_of(30)
    assert 12288 < last.byte < 16384 and len(log.journal.segments()) == 1
    overwrite(log, 30, 200, b"?")
    for number in range(1, 30):
        if log.journal.place_of(number).byte >= 12288:
            overwrite(log, number, 200, b"?")
    disk.make_unreadable(last.path, 8192 // 512)
    found = scan(disk)
    assert (found.tail.state, found.tail.through, found.tail.term) == ("unknown", 30, 1)


@pytest.mark.promise("F22")
def test_a_last_entry_below_the_floor_without_header_is_missing(
    disk: SimulatedDisk, log: LocalJournal
) -> None:
    """F22: stored once and not there any more: told with the range, never taken for torn."""
    overwrite(log, 8, 30, b"?")
    found = scan(disk, floor=8)
    assert (found.tail.state, found.tail.through, found.last_index) == ("unknown", 8, 7)
    assert "entries 8 to 8 were stored once and are missing" in str(found.damage[0])


def test_a_first_sector_of_zeros_is_a_torn_write(disk: SimulatedDisk, log: LocalJournal) -> None:
    """Where the header should be there is nothing although something follows."""
    place = log.journal.place_of(8)
    boundary = (place.byte // 512 + 1) * 512
    overwrite(log, 8, 0, bytes(boundary - place.byte))
    assert scan(disk).tail.state == "torn"


def test_a_header_written_by_half_is_a_torn_write(disk: SimulatedDisk) -> None:
    """The half behind the sector's edge is zero, but a chain value never is."""
    log = LocalJournal(disk)
    log.append(b"x" * (512 - 72 - 40))
    place_of_next = log.journal.segments()[0].bytes
    assert place_of_next == SEGMENT_HEADER_BYTES + 512 - 40
    log.append(b"y" * 100)
    overwrite(log, 2, 40, bytes(136))
    assert scan(disk).tail.state == "torn"


def test_the_last_bytes_missing_is_a_torn_write_if_they_cannot_be_zero(
    disk: SimulatedDisk,
) -> None:
    """The end of a small entry lies in a sector of its own and was never written."""
    log = LocalJournal(disk)
    log.append(b"x" * 460)
    overwrite(log, 1, 512, bytes(24))
    assert scan(disk).tail.state == "torn"


def test_an_entry_that_ends_in_zeros_leaves_it_unknown(disk: SimulatedDisk) -> None:
    """If the entry itself ends in zeros, zeros at its end prove nothing."""
    log = LocalJournal(disk)
    log.append(b"x" * 450 + bytes(40))
    overwrite(log, 1, 100, b"?")
    assert scan(disk).tail.state == "unknown"


def test_a_torn_entry_in_the_last_run_is_torn_though_good_ones_follow(
    disk: SimulatedDisk,
) -> None:
    """Entries of one run share a sync, so a later one proves nothing about an earlier one."""
    log = LocalJournal(disk, settings=JournalSettings(segment_bytes=1 * MiB))
    log.perform(*[log.stage(bytes([n]) * 1000) for n in (1, 2, 3)])
    start = log.journal.place_of(2).byte
    overwrite(log, 2, (start // 512 + 1) * 512 - start, bytes(512))
    found = scan(disk)
    assert (found.tail.state, found.last_index, found.damage) == ("torn", 1, [])


def test_further_from_the_end_than_one_run_it_is_damage(disk: SimulatedDisk) -> None:
    """With more behind it than one run can hold, a sync came between: it was durable."""
    log = LocalJournal(disk, settings=JournalSettings(segment_bytes=8 * MiB))
    log.append(b"x" * 2000)
    for number in range(1, 6):
        log.append(bytes([number]) * (RUN_BYTES_MAX // 4))
    overwrite(log, 1, 512, bytes(1024))
    found = scan(disk)
    assert ([it.index for it in found.damage], found.last_index) == ([1], 6)


def test_a_broken_chain_is_damage(disk: SimulatedDisk, log: LocalJournal) -> None:
    """An entry with good checksums that is not the one that belongs here is not served."""
    place = log.journal.place_of(2)
    raw = bytearray(parse_entry(disk.content(place.path), place.byte).raw)
    raw[56] ^= 1
    raw[8:12] = bytes(4)
    raw[8:12] = google_crc32c.value(bytes(raw[:72])).to_bytes(4, "little")
    overwrite(log, 2, 0, bytes(raw))
    found = scan(disk)
    assert "chain hash does not continue" in str(found.damage[0])
    assert found.damage[0].index == 2


def test_an_entry_in_the_wrong_place_is_damage(disk: SimulatedDisk, log: LocalJournal) -> None:
    """A misdirected write is recognised by the index, though its checksums are good."""
    place = log.journal.place_of(3)
    stray = parse_entry(disk.content(place.path), place.byte).raw
    overwrite(log, 2, 0, stray)
    found = scan(disk)
    assert [it.index for it in found.damage] == [2]
    assert "entry 3 stands where 2 belongs" in str(found.damage[0])
    assert found.last_index == 8


def test_record_numbers_that_do_not_continue_are_damage(
    disk: SimulatedDisk, log: LocalJournal
) -> None:
    """The chain does not cover record numbers; the scan does."""
    place = log.journal.place_of(2)
    raw = bytearray(parse_entry(disk.content(place.path), place.byte).raw)
    raw[40:48] = (77).to_bytes(8, "little")
    raw[8:12] = bytes(4)
    raw[8:12] = google_crc32c.value(bytes(raw[:72])).to_bytes(4, "little")
    overwrite(log, 2, 0, bytes(raw))
    found = scan(disk)
    assert "record number do not continue" in str(found.damage[0])


@pytest.mark.promise("F22")
def test_zeros_at_the_end_of_a_sealed_segment_are_missing_entries(
    disk: SimulatedDisk, log: LocalJournal
) -> None:
    """Even with nothing left of them, entries that the next segment presupposes are known."""
    overwrite(log, 6, 0, bytes(log.journal.place_of(6).size))
    found = scan(disk)
    assert [(it.index, it.reason) for it in found.damage] == [(6, "the entry is missing")]
    assert found.last_index == 8


def test_bytes_behind_a_sealed_segments_last_entry_are_reported(
    disk: SimulatedDisk, log: LocalJournal
) -> None:
    """They harm no entry, but the file is no longer the same on every node."""
    path = log.segment_path(0)
    disk.replace_content(path, disk.content(path)[:-3] + b"abc")
    found = scan(disk)
    assert [(it.index, it.segment) for it in found.damage] == [(0, path.name)]


def test_an_unreadable_sector_is_damage(disk: SimulatedDisk, log: LocalJournal) -> None:
    """EIO on a read spoils the entries there, not the start of the node."""
    place = log.journal.place_of(2)
    disk.make_unreadable(place.path, place.byte // 512 + 3)
    found = scan(disk)
    # A page of 4 KiB is the smallest piece asked for, so a neighbour may be hit as well.
    assert 2 in {it.index for it in found.damage}
    assert found.last_index == 8


def test_a_damaged_segment_header_is_worked_out(disk: SimulatedDisk, log: LocalJournal) -> None:
    """The header follows from the entry before and is confirmed by the one behind it."""
    for position in (0, 1):
        disk.flip_bit(log.segment_path(position), 100)
    found = scan(disk)
    assert {it.index for it in found.damage} == {0}
    assert len(found.headers_worked_out) == 2
    assert found.last_index == 8


def test_a_first_header_that_nothing_confirms_stays_damaged(
    disk: SimulatedDisk, log: LocalJournal
) -> None:
    """With older segments dropped, nothing tells what stood before; entries are still served."""
    log.journal.drop_before(4)
    disk.flip_bit(log.segment_path(0), 100)
    found = scan(disk)
    assert found.headers_worked_out == []
    assert [it.index for it in found.damage] == [0]
    assert (found.segments[0].header.base_record, found.last_index) == (4, 8)


def test_a_missing_file_is_named(disk: SimulatedDisk) -> None:
    """A hole between two segments with more entries than fit there is refused, with both names."""
    log = LocalJournal(disk, settings=JournalSettings(segment_bytes=8192))
    for number in range(1, 40):
        log.append(bytes([number]) * 700)
    bases = [it.base_index for it in log.journal.segments()]
    for place in range(1, len(bases) - 1):
        disk.unlink(log.segment_path(place))
    with pytest.raises(StoreError, match=rf"segment file is missing.*begins with {bases[-1]}"):
        scan(disk)


def test_a_missing_file_that_may_be_a_lost_end_is_damage(
    disk: SimulatedDisk, log: LocalJournal
) -> None:
    """Peers' copies will tell; that a file may be gone is said."""
    disk.unlink(log.segment_path(1))
    found = scan(disk)
    assert [(it.index, it.reason) for it in found.damage] == [
        (index, MISSING_FILE) for index in (4, 5, 6)
    ]
    assert found.last_index == 8


def test_a_lost_end_with_many_small_entries_is_damage(disk: SimulatedDisk) -> None:
    """However large the others are: what was lost fits in there, so a peer can mend it."""
    log = LocalJournal(disk, settings=JournalSettings(segment_bytes=64 * 1024))
    log.append(b"x" * 28_000)
    log.append(b"x" * 28_000)
    while log.journal.segments()[0].bytes < 64_000:
        log.append(b"")
    while len(log.journal.segments()) < 2:
        log.append(b"y" * 6000)
    last = log.journal.segments()[0].last_index
    lost = log.journal.place_of(last - 40)
    end = log.journal.place_of(last).byte + 72
    sector = lost.byte // 512
    image = disk.content(lost.path)
    zeros = bytes(end - sector * 512)
    disk.replace_content(lost.path, image[: sector * 512] + zeros + image[end:])
    entries = {index: log.journal.entry(index) for index in range(1, last + 1)}
    log.close()
    log._open()
    damaged = [it.index for it in log.journal.damage]
    assert damaged[-1] == last
    assert len(damaged) > 35
    for index in damaged:
        log.repair(entries[index])
    assert log.journal.damage == []


def test_a_foreign_file_is_named(disk: SimulatedDisk, log: LocalJournal) -> None:
    """What is no segment has no place here."""
    disk.open(LOG / "notes.txt", create=True)
    with pytest.raises(StoreError, match=r"notes\.txt is no segment"):
        scan(disk)


def test_a_segment_of_something_else_is_named(disk: SimulatedDisk) -> None:
    """A file with a segment's name and nothing of ours in it is refused."""
    disk.make_directory(LOG)
    disk.open(LOG / segment_name(1), create=True).write(b"hello" * 2000, 0)
    with pytest.raises(StoreError, match="not a segment of a journal"):
        scan(disk)


def test_a_renamed_segment_is_named(disk: SimulatedDisk, log: LocalJournal) -> None:
    """A segment under another one's name is refused."""
    disk.rename(log.segment_path(0), LOG / segment_name(2))
    with pytest.raises(StoreError, match="renamed or copied"):
        scan(disk)


def test_a_segment_of_a_later_version_is_named(disk: SimulatedDisk, log: LocalJournal) -> None:
    """A later program's file is not taken for damage."""
    path = log.segment_path(0)
    block = bytearray(disk.content(path))
    block[4:6] = (9).to_bytes(2, "little")
    block[8:12] = bytes(4)
    block[8:12] = google_crc32c.value(bytes(block[:4096])).to_bytes(4, "little")
    disk.replace_content(path, bytes(block))
    with pytest.raises(StoreError, match=r"segment cannot be read: .*version 9"):
        scan(disk)


def test_a_segment_of_another_log_is_named(disk: SimulatedDisk, log: LocalJournal) -> None:
    """F23: a file from another copy of the log does not slip in."""
    other = LocalJournal(SimulatedDisk())
    for number in range(1, 9):
        other.append(bytes([number + 100]) * 3500)
    assert isinstance(other.disk, SimulatedDisk)
    disk.replace_content(log.segment_path(2), other.disk.content(other.segment_path(2)))
    with pytest.raises(StoreError, match="belongs to another log"):
        scan(disk)


def test_one_file_too_many_is_named(disk: SimulatedDisk, log: LocalJournal) -> None:
    """A segment that begins inside another one is refused."""
    other = LocalJournal(SimulatedDisk())
    for _ in range(2):
        other.append(b"x" * 12_000)
    assert isinstance(other.disk, SimulatedDisk)
    extra = disk.open(LOG / segment_name(2), create=True)
    extra.write(other.disk.content(other.segment_path(1)), 0)
    with pytest.raises(StoreError, match=r"another log|one too many"):
        scan(disk)


GOLDEN = Path(__file__).parents[2] / "data" / "log-format-1"
"""Written by the last version before the ballot said anything of the log but its floor."""

GOLDEN_CHAIN = "35e0e2a83abe27341b50a2c58780087f"


@pytest.fixture
def golden(disk: SimulatedDisk) -> SimulatedDisk:
    """The files of format 1 as they were committed, on a disk in memory."""
    names = ["ballot", *[f"journal/{it.name}" for it in (GOLDEN / "journal").iterdir()]]
    files = {Path("/node") / name: (GOLDEN / name).read_bytes() for name in names}
    disk.make_directory(LOG)
    disk.restore(files)
    return disk


def test_a_log_of_format_1_is_read(golden: SimulatedDisk) -> None:
    """Entries, chain, identity and vote are as they were, and the log goes on."""
    log = LocalJournal(golden, settings=JournalSettings(segment_bytes=8192))
    ballot = log.journal.ballot_file.current
    assert ballot is not None
    assert (ballot.term, ballot.voted_for, ballot.node_id) == (3, "a", bytes(range(16)))
    assert (log.journal.first_index, log.journal.last_index) == (1, 13)
    assert log.journal.last_chain.hex() == GOLDEN_CHAIN
    assert [log.journal.term_at(index) for index in (1, 9, 10)] == [1, 2, 3]
    assert b"message 12 " in bytes(log.journal.entry(13).body)
    log.append(b"the next one", term=4)
    assert (log.reopen().last_index, log.journal.damage) == (14, [])
    again = log.journal.ballot_file.current
    assert again is not None
    assert again.claim[:3] == (14, log.journal.last_chain, 1)


@pytest.mark.parametrize("index", [3, 8, 11, 13])
@pytest.mark.parametrize("at", [30, 100])
def test_damage_in_a_log_of_format_1_is_found(golden: SimulatedDisk, index: int, at: int) -> None:
    """Header or body: the one entry is damaged, and all others are there."""
    places = {}
    for segment in scan_log(LOG, golden).segments:
        for number in range(segment.base_index, segment.last_index + 1):
            places[number] = (segment.path, segment.place(number)[0])
    path, start = places[index]
    golden.flip_bit(path, (start + at) * 8)
    log = LocalJournal(golden, resolve_unknown_tail=False)
    lost = [it.index for it in log.journal.damage]
    assert lost == [index]
    for number in set(places) - {index}:
        assert log.journal.entry(number).index == number


@pytest.mark.promise("F22")
def test_files_missing_at_the_beginning_are_told(disk: SimulatedDisk, log: LocalJournal) -> None:
    """What was not dropped must be there: a shorter log is not taken for the whole one."""
    lost = log.segment_path(0)
    log.close()
    disk.unlink(lost)
    disk.sync_directory(LOG)
    with pytest.raises(SegmentsMissingError, match=r"begins with entry 4.*entries 1 to 3 are miss"):
        log._open()


def test_what_was_dropped_is_not_missing(disk: SimulatedDisk, log: LocalJournal) -> None:
    """The first index is durable before a file goes, whenever the power fails."""
    log.close()
    before = disk.snapshot()
    for step in range(1, 12):
        disk.restore(before)
        log._open()
        disk.cut_at = disk.operations + step
        try:
            log.journal.drop_before(7)
        except PowerCut:
            assert log.reopen_after_power_cut().first_index in {1, 4, 7}
            assert log.journal.last_index == 8
        disk.cut_at = 0
        log.close()
    assert log.journal.first_index == 7


def test_a_log_begun_anew_is_not_missing_what_came_before(
    disk: SimulatedDisk, log: LocalJournal
) -> None:
    """A reset says first where the log begins now; an empty one may begin there or at once."""
    log.perform(log.journal.stage_reset(100, 1, bytes(16), 200))
    log.reopen_after_power_cut()
    assert (log.journal.first_index, log.journal.last_index) == (1, 0)
    log.perform(log.journal.stage_reset(100, 1, bytes(16), 200))
    log.append(b"the first one")
    log.reopen_after_power_cut()
    assert (log.journal.first_index, log.journal.last_index) == (100, 100)

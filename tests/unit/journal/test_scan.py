"""The verdict on every kind of fault: fine, torn, unknown, damaged, missing or foreign."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import SegmentsMissingError, StoreError
from holdfast.journal.ballot import LogClaim
from holdfast.journal.found_log import LogScan
from holdfast.journal.scan import scan_log
from holdfast.journal.segment import segment_name
from holdfast.journal.settings import JournalSettings
from trials.simulation.local_journal import LocalJournal
from trials.simulation.simulated_disk import PowerCut, SimulatedDisk

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


def test_one_file_is_open_at_a_time(eight: LocalJournal) -> None:
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
            return getattr(eight.disk, name)

        def open(self, *arguments: Any, **options: Any) -> Any:
            return CountingFile(eight.disk.open(*arguments, **options))

    assert scan_log(LOG, CountingDisk()).last_index == 8
    assert (max(open_count), open_count[-1]) == (1, 0)


def test_a_good_log_is_clean(disk: SimulatedDisk, eight: LocalJournal) -> None:
    """Everything is found where the journal put it, and progress is told."""
    seen: list[tuple[int, int]] = []
    found = scan_log(LOG, disk, progress=lambda done, total: seen.append((done, total)))
    assert found.damage == []
    assert found.tail.state == "clean"
    assert (found.last_index, found.last_chain) == (8, eight.journal.last_chain)
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


def test_a_missing_file_is_named(disk: SimulatedDisk) -> None:
    """A hole between two segments with more entries than fit there is refused, with both names."""
    eight = LocalJournal(disk, settings=JournalSettings(segment_bytes=8192))
    for number in range(1, 40):
        eight.append(bytes([number]) * 700)
    bases = [it.base_index for it in eight.journal.segments()]
    for place in range(1, len(bases) - 1):
        disk.unlink(eight.segment_path(place))
    with pytest.raises(StoreError, match=rf"segment file is missing.*begins with {bases[-1]}"):
        scan(disk)


def test_a_foreign_file_is_named(disk: SimulatedDisk, eight: LocalJournal) -> None:
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


def test_one_file_too_many_is_named(disk: SimulatedDisk, eight: LocalJournal) -> None:
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
    eight = LocalJournal(golden, settings=JournalSettings(segment_bytes=8192))
    ballot = eight.journal.ballot_file.current
    assert ballot is not None
    assert (ballot.term, ballot.voted_for, ballot.node_id) == (3, "a", bytes(range(16)))
    assert (eight.journal.first_index, eight.journal.last_index) == (1, 13)
    assert eight.journal.last_chain.hex() == GOLDEN_CHAIN
    assert [eight.journal.term_at(index) for index in (1, 9, 10)] == [1, 2, 3]
    assert b"message 12 " in bytes(eight.journal.entry(13).body)
    eight.append(b"the next one", term=4)
    assert (eight.reopen().last_index, eight.journal.damage) == (14, [])
    again = eight.journal.ballot_file.current
    assert again is not None
    assert again.claim[:3] == (14, eight.journal.last_chain, 1)


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
    eight = LocalJournal(golden, resolve_unknown_tail=False)
    lost = [it.index for it in eight.journal.damage]
    assert lost == [index]
    for number in set(places) - {index}:
        assert eight.journal.entry(number).index == number


@pytest.mark.promise("F22")
def test_files_missing_at_the_beginning_are_told(disk: SimulatedDisk, eight: LocalJournal) -> None:
    """What was not dropped must be there: a shorter log is not taken for the whole one."""
    lost = eight.segment_path(0)
    eight.close()
    disk.unlink(lost)
    disk.sync_directory(LOG)
    with pytest.raises(SegmentsMissingError, match=r"begins with entry 4.*entries 1 to 3 are miss"):
        eight._open()


def test_what_was_dropped_is_not_missing(disk: SimulatedDisk, eight: LocalJournal) -> None:
    """The first index is durable before a file goes, whenever the power fails."""
    eight.close()
    before = disk.snapshot()
    for step in range(1, 12):
        disk.restore(before)
        eight._open()
        disk.cut_at = disk.operations + step
        try:
            eight.journal.drop_before(7)
        except PowerCut:
            assert eight.reopen_after_power_cut().first_index in {1, 4, 7}
            assert eight.journal.last_index == 8
        disk.cut_at = 0
        eight.close()
    assert eight.journal.first_index == 7


def test_a_log_begun_anew_is_not_missing_what_came_before(
    disk: SimulatedDisk, eight: LocalJournal
) -> None:
    """A reset says first where the log begins now; an empty one may begin there or at once."""
    eight.perform(eight.journal.stage_reset(100, 1, bytes(16), 200))
    eight.reopen_after_power_cut()
    assert (eight.journal.first_index, eight.journal.last_index) == (1, 0)
    eight.perform(eight.journal.stage_reset(100, 1, bytes(16), 200))
    eight.append(b"the first one")
    eight.reopen_after_power_cut()
    assert (eight.journal.first_index, eight.journal.last_index) == (100, 100)

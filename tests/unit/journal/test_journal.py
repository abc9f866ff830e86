"""The log as the rest of the program sees it."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from holdfast.environment.disk import RealDisk
from holdfast.errors import (
    CorruptEntryError,
    JournalFailedError,
    RecordNotFoundError,
    StoreError,
)
from holdfast.journal.damage import Damage
from holdfast.journal.entry import FIRST_CHAIN
from holdfast.journal.segment import file_digest
from holdfast.journal.settings import JournalSettings, KiB, MiB
from trials.simulation.local_journal import LocalJournal
from trials.simulation.simulated_disk import SimulatedDisk

SMALL = JournalSettings(segment_bytes=16 * KiB, tail_cache_bytes=0, read_cache_bytes=4 * KiB)


@pytest.fixture
def disk() -> SimulatedDisk:
    return SimulatedDisk()


@pytest.fixture
def log(disk: SimulatedDisk) -> LocalJournal:
    """A log that reads nearly everything from disk."""
    return LocalJournal(disk, settings=SMALL, resolve_unknown_tail=False)


def fill(log: LocalJournal, count: int = 12) -> None:
    """Append entries with 0, 1, 2, 0, 1, 2 ... records, four to a segment or so."""
    for number in range(count):
        log.append(*[bytes([65 + number]) * 1500] * (number % 3))


def test_an_empty_log_has_a_beginning_and_no_end(log: LocalJournal) -> None:
    """Index 1 and record 1 come first; nothing is on disk before the first entry."""
    journal = log.journal
    assert (journal.first_index, journal.last_index, journal.stored_index) == (1, 0, 0)
    assert (journal.last_term, journal.last_chain) == (0, FIRST_CHAIN)
    assert (journal.next_record_number, journal.last_timestamp) == (1, 0)
    assert journal.previous(1) == (0, FIRST_CHAIN, 1)
    assert log.disk.list_directory(Path("/node/journal")) == []


def test_a_staged_entry_is_readable_before_it_is_stored(log: LocalJournal) -> None:
    """Reads never wait for the disk; stored is said only after the sync."""
    job = log.stage(b"hello")
    journal = log.journal
    assert bytes(journal.entry(1).body) == b"hello"
    assert (journal.last_index, journal.stored_index) == (1, 0)
    log.perform(job)
    assert journal.stored_index == 1
    assert job.is_done


def test_entries_are_read_back_from_disk_verified(log: LocalJournal) -> None:
    """With the caches tiny, each entry comes from its segment as it was sealed."""
    fill(log)
    assert len(log.journal.segments()) > 1
    for index, entry in log.stored.items():
        assert log.journal.entry(index) == entry
        assert log.journal.chain_at(index) == entry.chain
        assert log.journal.term_at(index) == 1
    assert log.journal.chain_at(0) == FIRST_CHAIN


def test_a_range_is_read_up_to_a_number_of_bytes(log: LocalJournal) -> None:
    """At least one entry, then as many as fit; none beyond the end."""
    fill(log)
    one = len(log.stored[3].raw)
    assert [it.index for it in log.journal.entries(3, 1)] == [3]
    assert [it.index for it in log.journal.entries(3, one + 72)] == [3, 4]
    assert [it.index for it in log.journal.entries(10, 1 * MiB)] == [10, 11, 12]
    assert log.journal.entries(13, 1 * MiB) == []


def test_every_record_is_found_in_its_entry(log: LocalJournal) -> None:
    """Entries without records are passed over; numbers outside are refused with the range."""
    fill(log)
    for number in range(1, log.journal.next_record_number):
        entry, ordinal = log.journal.locate_record(number)
        assert entry.first_record + ordinal == number
        assert ordinal < entry.record_count
    for number in (0, log.journal.next_record_number):
        with pytest.raises(RecordNotFoundError, match="holds 1 to 12"):
            log.journal.locate_record(number)


def test_indexes_outside_the_log_are_refused(log: LocalJournal) -> None:
    """Neither before the first nor after the last entry is there anything."""
    fill(log, 3)
    for read in (log.journal.entry, log.journal.term_at, log.journal.place_of):
        with pytest.raises(RecordNotFoundError, match="entry 4 is not in the log"):
            read(4)
    assert log.journal.term_at(0) == 0


def test_what_stands_before_any_entry_is_known(log: LocalJournal) -> None:
    """Term, chain and record number before an index, for comparing and for new replicas."""
    fill(log)
    for index in range(2, 13):
        before = log.stored[index - 1]
        expected = (before.term, before.chain, before.next_record)
        assert log.journal.previous(index) == expected
    last = log.stored[12]
    assert log.journal.previous(13) == (1, last.chain, last.next_record)


def test_recent_entries_stay_in_memory_within_their_limit(disk: SimulatedDisk) -> None:
    """The cache drops the oldest stored entries, never one that is not stored."""
    settings = JournalSettings(segment_bytes=16 * KiB, tail_cache_bytes=4000)
    log = LocalJournal(disk, settings=settings)
    fill(log)
    assert log.journal.memory.bytes <= 4000 + len(log.stored[12].raw)
    jobs = [log.stage(b"x" * 2000) for _ in range(5)]
    assert set(range(13, 18)) <= set(log.journal.memory.tail)
    log.perform(*jobs)
    log.append(b"y")
    assert log.journal.memory.bytes <= 4000


def test_the_same_log_has_the_same_files_on_every_node(log: LocalJournal) -> None:
    """Sealed segments are identical however the entries were grouped into writes."""
    fill(log)
    other = LocalJournal(SimulatedDisk(7), settings=SMALL)
    other.perform(other.journal.stage([log.stored[i] for i in range(1, 6)]))
    for index in range(6, 13):
        other.perform(other.journal.stage([log.stored[index]]))
    sealed = [it.path for it in log.journal.segments() if it.sealed]
    assert sealed
    for path in sealed:
        assert file_digest(log.disk, path) == file_digest(other.disk, path)


def test_segments_are_described(log: LocalJournal) -> None:
    """Indexes without gaps, all but the last sealed, bytes as on disk."""
    fill(log)
    segments = log.journal.segments()
    assert [it.sealed for it in segments] == [True] * (len(segments) - 1) + [False]
    assert [it.last_index + 1 for it in segments[:-1]] == [it.base_index for it in segments[1:]]
    assert log.journal.bytes_on_disk == len(segments) * 16 * KiB
    assert log.journal.sealed_through == segments[-1].base_index - 1
    assert log.journal.last_base == log.journal.segments()[-1].base_index


def test_a_segment_is_sealed_only_when_all_of_it_is_stored(log: LocalJournal) -> None:
    """A roll that is only staged seals nothing: the file may not hold its last entries yet."""
    jobs = [log.stage(b"x" * 9_000), log.stage(b"y" * 9_000)]
    assert [it.sealed for it in log.journal.segments()] == [False, False]
    log.perform(*jobs)
    assert [it.sealed for it in log.journal.segments()] == [True, False]


def test_a_cut_log_goes_on_from_there(log: LocalJournal) -> None:
    """After a truncation the end is that of the entry kept; the new entry takes the place."""
    fill(log)
    kept = log.stored[5]
    log.truncate(5)
    journal = log.journal
    assert (journal.last_index, journal.last_chain) == (5, kept.chain)
    assert (journal.next_record_number, journal.last_timestamp) == (kept.next_record, 5)
    entry = log.append(b"other", term=4)
    assert (journal.term_at(5), journal.term_at(6), journal.last_term) == (1, 4, 4)
    reopened = log.reopen()
    assert reopened.last_index == 6
    assert reopened.entry(6) == entry
    assert reopened.damage == []


def test_cut_entries_never_come_back(log: LocalJournal) -> None:
    """Good entries beyond the new end are zeroed, so that recovery cannot find them again."""
    fill(log)
    log.truncate(5)
    log.journal.close()
    log._open()
    assert log.journal.last_index == 5
    assert log.journal.tail_state == "clean"


def test_stored_never_counts_what_is_being_cut(log: LocalJournal) -> None:
    """An append that is still under way does not make its cut successor look stored."""
    fill(log, 4)
    slow = log.stage(b"old 5")
    cut = log.journal.stage_truncate(3)
    log.perform(slow)
    assert log.journal.stored_index == 3
    new = [log.stage(b"new 4"), log.stage(b"new 5")]
    assert log.journal.stored_index == 3
    log.perform(cut, new[0])
    assert log.journal.stored_index == 4
    log.perform(new[1])
    assert log.journal.stored_index == 5


def test_cutting_everything_starts_the_same_log_anew(log: LocalJournal) -> None:
    """Back to before the first entry: nothing is left and nothing forgotten of what was before."""
    fill(log, 6)
    log.truncate(0)
    assert (log.journal.last_index, log.journal.stored_index) == (0, 0)
    log.append(b"first")
    assert log.reopen().last_index == 1


def test_a_log_can_begin_at_any_index(log: LocalJournal) -> None:
    """A replica too far behind starts from the leader's first kept segment."""
    fill(log)
    log.perform(log.journal.stage_reset(1_000, 7, b"c" * 16, 5_000))
    log.stored.clear()
    journal = log.journal
    assert (journal.first_index, journal.last_index) == (1_000, 999)
    assert (journal.stored_index, journal.last_term) == (999, 7)
    assert journal.previous(1_000) == (7, b"c" * 16, 5_000)
    entry = log.append(b"x")
    assert entry.index == 1_000
    reopened = log.reopen()
    assert (reopened.first_index, reopened.last_index) == (1_000, 1_000)
    assert reopened.previous(1_000) == (7, b"c" * 16, 5_000)
    assert reopened.locate_record(5_000) == (entry, 0)


def test_dropping_removes_whole_segments_from_the_old_end(log: LocalJournal) -> None:
    """Only segments with nothing at or after the index go, and never the newest."""
    fill(log)
    base = log.journal.segments()[1].base_index
    assert log.journal.drop_before(base - 1) == 0
    assert log.journal.drop_before(base + 1) == 1
    assert log.journal.first_index == base
    with pytest.raises(RecordNotFoundError):
        log.journal.entry(base - 1)
    with pytest.raises(RecordNotFoundError):
        log.journal.locate_record(1)
    assert log.journal.term_at(base - 1) == 1
    log.journal.drop_before(10_000)
    assert len(log.journal.segments()) == 1
    assert log.reopen().last_index == 12


def test_the_last_file_stays_until_the_next_one_is_there(log: LocalJournal) -> None:
    """A power cut between the two would leave a node that had a log without any."""
    while len(log.journal.segments()) == 1:
        before, job = log.journal.last_index, log.stage(bytes(1500))
        if len(log.journal.segments()) == 1:
            log.perform(job)
    assert log.journal.drop_before(before + 1) == 0
    assert log.reopen_after_power_cut().last_index == before
    log.append(bytes(1500))
    assert log.journal.drop_before(before + 1) == 1


def test_a_damaged_entry_is_refused_with_its_place(log: LocalJournal, disk: SimulatedDisk) -> None:
    """Rot that appears while running is found on reading, named, and listed."""
    fill(log)
    place = log.journal.place_of(3)
    disk.flip_bit(place.path, (place.byte + 80) * 8)
    for _ in range(2):
        with pytest.raises(CorruptEntryError, match="body checksum") as caught:
            log.journal.entry(3)
    error = caught.value
    assert (error.index, error.byte, error.segment) == (3, place.byte, place.path.name)
    assert [it.index for it in log.journal.damage] == [3]
    assert [index for index in range(1, 6) if log.journal.is_damaged(index)] == [3]
    assert [it.index for it in log.journal.entries(1, MiB)] == [1, 2]
    with pytest.raises(CorruptEntryError):
        log.journal.entries(3, MiB)


def test_a_damaged_header_hides_its_chain(log: LocalJournal, disk: SimulatedDisk) -> None:
    """What stands in a header that cannot be read is not guessed."""
    fill(log)
    place = log.journal.place_of(3)
    disk.flip_bit(place.path, place.byte * 8 + 300)
    with pytest.raises(CorruptEntryError, match="header checksum"):
        log.journal.chain_at(3)


def test_another_entry_in_its_place_is_damage(log: LocalJournal, disk: SimulatedDisk) -> None:
    """A misdirected write has good checksums and the wrong index."""
    for number in range(4):
        log.append(bytes([number]) * 1500)
    first, second = log.journal.place_of(1), log.journal.place_of(2)
    image = disk.content(first.path)
    raw = image[first.byte : first.byte + first.size]
    disk.replace_content(
        first.path, image[: second.byte] + raw + image[second.byte + second.size :]
    )
    with pytest.raises(CorruptEntryError, match="another entry stands here"):
        log.journal.chain_at(2)
    log.journal._damage.clear()
    with pytest.raises(CorruptEntryError, match="another entry stands here"):
        log.journal.entry(2)


def test_an_unreadable_sector_is_damage(log: LocalJournal, disk: SimulatedDisk) -> None:
    """EIO on a read is damage at that entry, not the end of the node."""
    fill(log)
    place = log.journal.place_of(3)
    disk.make_unreadable(place.path, place.byte // 512 + 1)
    with pytest.raises(CorruptEntryError, match="the disk cannot read it"):
        log.journal.entry(3)


def test_a_repair_restores_the_very_bytes(log: LocalJournal, disk: SimulatedDisk) -> None:
    """With the entry of a peer the file is again what it was, and stays so."""
    fill(log)
    place = log.journal.place_of(3)
    image = disk.content(place.path)
    disk.flip_bit(place.path, (place.byte + 80) * 8)
    with pytest.raises(CorruptEntryError):
        log.journal.entry(3)
    log.repair(log.stored[3])
    assert disk.content(place.path) == image
    assert log.journal.entry(3) == log.stored[3]
    assert log.journal.damage == []
    log.reopen_after_power_cut()
    assert log.journal.damage == []


def test_a_repair_with_another_entry_is_refused(log: LocalJournal, disk: SimulatedDisk) -> None:
    """A peer whose log differs cannot change ours."""
    fill(log)
    other = LocalJournal(SimulatedDisk())
    for number in range(12):
        other.append(*[bytes([97 + number]) * 1500] * (number % 3))
    place = log.journal.place_of(3)
    disk.flip_bit(place.path, (place.byte + 80) * 8)
    with pytest.raises(CorruptEntryError):
        log.journal.entry(3)
    with pytest.raises(StoreError, match="not the entry that was here"):
        log.repair(other.stored[3])


@pytest.mark.promise("F6")
@pytest.mark.parametrize("operation", ["write", "sync"])
def test_a_repair_that_the_disk_refuses_is_final(
    log: LocalJournal, disk: SimulatedDisk, operation: str
) -> None:
    """What the disk holds is unknown then, as after every other failed write or sync."""
    fill(log)
    place = log.journal.place_of(3)
    disk.flip_bit(place.path, (place.byte + 80) * 8)
    with pytest.raises(CorruptEntryError):
        log.journal.entry(3)
    disk.fail_next[operation] = errno.EIO
    assert not log.repair(log.stored[3])
    assert [3] == [damage.index for damage in log.journal.damage]
    with pytest.raises(JournalFailedError):
        log.journal.stage_repair(log.stored[3])
    with pytest.raises(JournalFailedError):
        log.stage(b"more")


def test_a_repair_of_what_goes_meanwhile_is_given_up(
    log: LocalJournal, disk: SimulatedDisk
) -> None:
    """Cut or cleaned away before the writer came to it: nothing is written, nothing fails."""
    fill(log)
    first, last = log.stored[1], log.stored[12]
    for index in (1, 12):
        log.journal.report_damage(Damage("x.segment", 10, index, "rot"))
    job = log.journal.stage_repair(first)
    log.journal.drop_before(log.journal.segments()[1].base_index)
    log.perform(job)
    assert (job.is_done, log.journal.finish_repair(job)) == (True, False)

    job = log.journal.stage_repair(last)
    log.truncate(11)
    log.append(b"another")
    image = disk.content(log.segment_path(-1))
    log.perform(job)
    assert (job.is_done, log.journal.finish_repair(job)) == (True, False)
    assert (disk.content(log.segment_path(-1)), log.journal.failure) == (image, None)


def test_neighbours_whose_bounds_are_lost_are_repaired_in_order(
    log: LocalJournal, disk: SimulatedDisk
) -> None:
    """Several headers gone, a change of term among them: repairs in order restore everything."""
    for number in range(1, 8):
        log.append(bytes([number]) * 1200, term=2 if number > 2 else 1)
    log.writer.save_floor()
    images = [disk.content(it.path) for it in log.journal.segments()]
    for index in (2, 3, 4):
        place = log.journal.place_of(index)
        disk.flip_bit(place.path, place.byte * 8 + 300)
    log.journal.close()
    log._open()
    assert [it.index for it in log.journal.damage] == [2, 3, 4]
    for index in (2, 3, 4):
        log.repair(log.stored[index])
    assert [disk.content(it.path) for it in log.journal.segments()] == images
    assert [log.journal.term_at(index) for index in range(1, 8)] == [1, 1, 2, 2, 2, 2, 2]
    for number in range(1, 8):
        assert log.journal.locate_record(number) == (log.stored[number], 0)


def test_a_damaged_last_entry_is_repaired_with_the_logs_end(
    log: LocalJournal, disk: SimulatedDisk
) -> None:
    """Below the floor the last entry keeps its index; its repair restores the end's values."""
    fill(log, 3)
    log.writer.save_floor()
    place = log.journal.place_of(3)
    disk.flip_bit(place.path, (place.byte + 100) * 8)
    log.journal.close()
    log._open()
    assert [it.index for it in log.journal.damage] == [3]
    log.repair(log.stored[3])
    assert log.journal.last_chain == log.stored[3].chain
    log.append(b"more")
    assert log.reopen().damage == []


def test_whoever_finds_damage_it_is_told_at_once(log: LocalJournal, disk: SimulatedDisk) -> None:
    """A read that goes on without the entry must not keep the finding to itself: peers mend it."""
    fill(log)
    told: list[int] = []
    log.journal.on_damage = told.append
    place = log.journal.place_of(3)
    disk.flip_bit(place.path, (place.byte + 80) * 8)
    assert len(log.journal.entries(1, MiB)) == 2
    log.journal.report_damage(Damage("x.segment", 10, 5, "rot"))
    assert told == [3, 5]


def test_reported_damage_is_listed_once(log: LocalJournal) -> None:
    """The scrubber's finding stands in the list; one about a dropped entry does not."""
    fill(log)
    log.journal.entry(3)
    log.journal.report_damage(Damage("x.segment", 10, 3, "rot"))
    log.journal.report_damage(Damage("x.segment", 10, 99, "rot"))
    assert [it.index for it in log.journal.damage] == [3]
    with pytest.raises(CorruptEntryError, match="rot"):
        log.journal.entry(3)


@pytest.mark.parametrize("how", ["stage", "truncate", "reset"])
def test_an_unknown_tail_is_replaced_by_what_the_leader_says(
    log: LocalJournal, disk: SimulatedDisk, how: str
) -> None:
    """Whatever the cluster decides, the doubtful bytes are kept and the place is clean."""
    fill(log, 5)
    place = log.journal.place_of(5)
    disk.flip_bit(place.path, (place.byte + 100) * 8)
    log.journal.close()
    log._open()
    journal = log.journal
    assert (journal.tail_state, journal.last_index) == ("unknown", 4)
    if how == "stage":
        log.perform(journal.stage([log.stored[5]]))
    elif how == "truncate":
        log.truncate(4)
    else:
        log.perform(journal.stage_reset(5, 1, journal.last_chain, journal.next_record_number))
        log.stored.clear()
    assert (journal.tail_state, journal.unknown_through) == ("clean", 0)
    log.append(b"next")
    if how != "reset":
        assert len(disk.list_directory(Path("/node/lost+found"))) == 1
    assert log.reopen().tail_state == "clean"


@pytest.mark.promise("F22")
def test_missing_entries_below_the_floor_are_fetched_again(
    log: LocalJournal, disk: SimulatedDisk
) -> None:
    """F22: the claim to have had them stands through restarts until they are back."""
    fill(log, 8)
    log.writer.save_floor()
    place = log.journal.place_of(7)
    image = disk.content(place.path)
    disk.replace_content(place.path, image[: place.byte])
    log.journal.close()
    log._open()
    assert (log.journal.last_index, log.journal.unknown_through) == (6, 8)
    log.perform(log.journal.stage([log.stored[7]]))
    assert log.journal.tail_state == "unknown"
    log.journal.close()
    log._open()
    assert (log.journal.last_index, log.journal.unknown_through) == (7, 8)
    log.perform(log.journal.stage([log.stored[8]]))
    assert log.journal.tail_state == "clean"
    assert log.journal.damage == []
    assert log.reopen().damage == []


@pytest.mark.promise("F22")
def test_a_log_without_one_readable_header_is_fetched_again(
    log: LocalJournal, disk: SimulatedDisk
) -> None:
    """
    All of the first segment is gone: until the copies come, no term is known but the least, and
    that of the last, which the next segment states.
    """
    fill(log, 24)
    second = log.journal.segments()[1].base_index
    log.writer.save_floor()
    paths = [segment.path for segment in log.journal.segments()]
    for path in paths:
        disk.replace_content(path, disk.content(path)[:4096].ljust(16 * KiB, b"\0"))
    log.journal.close()
    log._open()
    assert log.journal.last_index >= second - 1
    known = [*[0] * (second - 1), log.stored[second - 1].term]
    assert [log.journal.term_at(index) for index in range(second)] == known
    for index in range(1, second):
        log.repair(log.stored[index])
    term = log.stored[1].term
    assert [log.journal.term_at(index) for index in range(second)] == [0, *[term] * (second - 1)]


@pytest.mark.promise("F17")
def test_space_runs_low_before_it_runs_out(log: LocalJournal) -> None:
    """Low under the reserve, ok again only a segment above it, looked up now and then."""
    reserve = 64 * KiB
    settings = JournalSettings(segment_bytes=16 * KiB, reserve_bytes=reserve)
    disk = SimulatedDisk(capacity=1 * MiB)
    log = LocalJournal(disk, settings=settings)
    assert log.journal.space_state(0.0) == "ok"
    hog = disk.open(Path("/node/hog"), create=True)
    hog.truncate(disk.free_bytes(Path("/node")) - reserve + 1)
    assert log.journal.space_state(0.1) == "ok"
    assert log.journal.space_state(1.0) == "low"
    hog.truncate(hog.size() - 2)
    assert log.journal.space_state(2.0) == "low"
    hog.truncate(hog.size() - 16 * KiB)
    assert log.journal.space_state(3.0) == "ok"


@pytest.mark.promise("F15")
def test_after_a_failure_nothing_is_staged(log: LocalJournal, disk: SimulatedDisk) -> None:
    """The journal says so at once, to every caller, for ever."""
    fill(log, 2)
    disk.fail_next["sync"] = errno.EIO
    log.perform(log.stage(b"x"))
    for _ in range(2):
        with pytest.raises(JournalFailedError):
            log.stage(b"y")
        with pytest.raises(JournalFailedError):
            log.journal.stage_truncate(1)
        with pytest.raises(JournalFailedError):
            log.journal.stage_reset(1, 0, FIRST_CHAIN, 1)
    assert log.journal.stored_index == 2


def test_few_files_are_kept_open(disk: SimulatedDisk) -> None:
    """Reading all over a long log keeps a bounded number of handles."""
    settings = JournalSettings(
        segment_bytes=8 * KiB, open_files_max=2, tail_cache_bytes=0, read_cache_bytes=0
    )
    log = LocalJournal(disk, settings=settings)
    fill(log, 20)
    for index in (1, 20, 5, 15, 10):
        assert log.journal.entry(index) == log.stored[index]
    assert len(log.journal._files) == 2


def test_an_entry_that_cannot_be_read_for_want_of_a_descriptor_is_not_damaged(
    disk: SimulatedDisk,
) -> None:
    """It is withheld and tried again: no peer is asked to repair what is whole."""
    settings = JournalSettings(segment_bytes=8 * KiB, tail_cache_bytes=0, read_cache_bytes=0)
    log = LocalJournal(disk, settings=settings)
    fill(log, 20)
    disk.fail_next["open"] = errno.EMFILE
    with pytest.raises(CorruptEntryError, match="it cannot be read now"):
        log.journal.entry(1)
    assert log.journal.damage == []
    assert log.journal.entry(1) == log.stored[1]


def test_a_data_directory_can_be_moved(tmp_path: Path) -> None:
    """Nothing in it names its own place: renamed, it opens with everything, on a real disk."""
    log = LocalJournal(RealDisk(), directory=tmp_path / "one", settings=SMALL)
    fill(log)
    log.close()
    (tmp_path / "one").rename(tmp_path / "two")
    moved = LocalJournal(RealDisk(), directory=tmp_path / "two", settings=SMALL)
    assert [moved.journal.entry(i) for i in range(1, 13)] == list(log.stored.values())
    moved.close()


def test_a_segment_is_sealed_only_when_all_of_it_is_durable(log: LocalJournal) -> None:
    """
    A segment whose last entry is only staged is still written: whoever reads the file, the
    scrubber or the digest, would find a place where there is no entry.
    """
    jobs = [log.stage(bytes([65 + number]) * 6000) for number in range(6)]
    journal = log.journal
    assert len(journal.segments()) > 2
    assert journal.sealed_through == 0
    assert [segment.sealed for segment in journal.segments()].count(True) == 0
    log.perform(*jobs)
    sealed = [segment for segment in journal.segments() if segment.sealed]
    assert sealed == journal.segments()[:-1]
    assert journal.sealed_through == sealed[-1].last_index


def test_what_is_lost_with_damaged_neighbours_is_bounded(
    log: LocalJournal, disk: SimulatedDisk
) -> None:
    """Their own bounds may be lost; those of the good ones around them are not."""
    for number in range(1, 8):
        log.append(*[bytes([number]) * 600] * 2)
    assert log.journal.damaged_run(2) is None
    log.writer.save_floor()
    for index in (2, 3, 4, 7):
        place = log.journal.place_of(index)
        disk.flip_bit(place.path, (place.byte + 200) * 8)
    log.journal.close()
    log._open()
    assert (4, 3, 9) == log.journal.damaged_run(2)
    assert (7, 13, 15) == log.journal.damaged_run(7)
    assert log.journal.damaged_run(5) is None
    assert log.journal.damaged_run(99) is None
    assert (4, 3, 9) == log.journal.damaged_run(3)


def test_where_the_log_begins_with_damage_its_first_record_is_not_guessed(
    log: LocalJournal, disk: SimulatedDisk
) -> None:
    """Too high a guess would let entries be cleaned away in which messages live."""
    for number in range(1, 13):
        log.append(bytes([number]) * 2500)
    log.writer.save_floor()
    first = log.journal.segments()[1].base_index
    log.journal.drop_before(first)
    places = [log.journal.place_of(index) for index in (first, first + 1)]
    record = log.journal.entry(first).first_record
    log.journal.close()
    disk.flip_bit(places[0].path, 100)
    for place in places:
        disk.flip_bit(place.path, place.byte * 8 + 300)
    log._open()

    run = log.journal.damaged_run(first)

    assert run is not None
    last, first_record, next_record = run
    assert first + 1 == last
    assert 1 <= first_record <= record  # Number 0 stands for messages that are gone.
    assert record + 2 == next_record

"""What recovery writes: it cuts what is torn, keeps the bytes, mends what it can work out."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from holdfast.environment.disk import DiskFile
from holdfast.errors import JournalFailedError
from holdfast.journal.ballot import BallotFile
from holdfast.journal.entry import HEADER_BYTES
from holdfast.journal.recovery import keep_bytes, zero_backwards
from holdfast.journal.segment import Segment, SegmentHeader
from holdfast.journal.settings import JournalSettings, MiB
from trials.simulation.local_journal import LocalJournal
from trials.simulation.simulated_disk import PowerCut, SimulatedDisk, SimulatedFile

LOST = Path("/node/lost+found")


def killed(disk: SimulatedDisk, *, resolve: bool = False, floor: bool = False) -> LocalJournal:
    """Three entries; the process is gone, no clean stop."""
    log = LocalJournal(disk, resolve_unknown_tail=resolve)
    for number in (1, 2, 3):
        log.append(bytes([number]) * 2000)
    if floor:
        log.writer.save_floor()
    log.journal.close()
    return log


def spoil(log: LocalJournal, disk: SimulatedDisk, index: int, data: bytes) -> bytes:
    """Overwrite 700 bytes into an entry; return the entry's bytes as they are then."""
    place = log.journal.place_of(index)
    image = disk.content(place.path)
    start = place.byte + 700
    image = image[:start] + data + image[start + len(data) :]
    disk.replace_content(place.path, image)
    return image[place.byte : place.byte + place.size]


@pytest.mark.promise("F5")
def test_a_torn_tail_is_cut_and_its_bytes_kept(disk: SimulatedDisk) -> None:
    """The place is zero again, the bytes are in lost+found, the log goes on."""
    log = killed(disk)
    bad = spoil(log, disk, 3, bytes(1024))
    log._open()
    assert (log.journal.last_index, log.journal.tail_state) == (2, "torn")
    kept = log.journal.recovered_tail.kept
    assert kept is not None
    assert kept.parent == LOST
    assert disk.content(kept) == bad
    place = log.journal.place_of(2)
    assert not any(disk.content(place.path)[place.byte + place.size :])
    log.append(b"next")
    assert log.reopen().last_index == 3


def test_an_unknown_tail_stays_until_someone_decides(disk: SimulatedDisk) -> None:
    """A node that can ask others changes nothing, start after start."""
    log = killed(disk)
    spoil(log, disk, 3, b"?")
    for _ in range(2):
        log._open()
        assert log.journal.tail_state == "unknown"
        assert (log.journal.last_index, log.journal.unknown_through) == (2, 3)
        assert log.journal.unknown_term == 1
        log.journal.close()


def test_a_node_alone_cuts_an_unknown_tail_and_keeps_the_bytes(disk: SimulatedDisk) -> None:
    """It can ask nobody, so it goes on without, and tells."""
    log = killed(disk, resolve=True)
    bad = spoil(log, disk, 3, b"?")
    log._open()
    assert (log.journal.last_index, log.journal.tail_state) == (2, "torn")
    assert log.journal.recovered_tail.kept is not None
    assert disk.content(log.journal.recovered_tail.kept) == bad


@pytest.mark.promise("F5")
@pytest.mark.parametrize("term", [1, 2])
def test_what_may_have_been_stored_is_claimed_until_there_is_more(term: int) -> None:
    """Wherever the power fails as a leader's entries come in its place, its index is remembered."""
    step, is_over = 0, False
    while not is_over:
        step += 1
        disk = SimulatedDisk(seed=step)
        log = killed(disk)
        spoil(log, disk, 3, b"?")
        log._open()
        assert log.journal.unknown_through == 3
        log.stored.clear()
        disk.cut_at = disk.operations + step
        try:
            log.append(b"in its place", term=term)
            is_over = True
        except PowerCut:
            pass
        stored = max(log.stored, default=2)
        journal = log.reopen_after_power_cut()
        known = journal.last_term, max(journal.last_index, journal.unknown_through)
        assert known >= (1, 3), step
        assert journal.last_index >= stored
    assert step > 5


def test_a_claim_ends_with_an_entry_of_a_later_term(disk: SimulatedDisk) -> None:
    """Three entries may be lost; none counts once the first one of a later leader is stored."""
    log = killed(disk)
    for index in (1, 2, 3):
        spoil(log, disk, index, b"?")
    log._open()
    assert (log.journal.last_index, log.journal.unknown_through) == (0, 3)
    log.append(b"of the same leader", term=1)
    log.reopen_after_power_cut()
    assert (log.journal.last_index, log.journal.unknown_through) == (1, 3)
    log.append(b"of the next leader", term=2)
    log.reopen_after_power_cut()
    assert (log.journal.last_index, log.journal.unknown_through) == (2, 0)


def test_a_node_alone_does_not_cut_below_the_floor(disk: SimulatedDisk) -> None:
    """What was durable is damage, also for a node that may resolve unknown tails."""
    log = killed(disk, resolve=True, floor=True)
    spoil(log, disk, 3, bytes(1024))
    log._open()
    assert [it.index for it in log.journal.damage] == [3]
    assert log.journal.last_index == 3


def test_what_may_not_have_reached_the_disk_is_written_again(disk: SimulatedDisk) -> None:
    """After a kill the entries beyond the floor are made durable before anyone relies on them."""
    log = killed(disk)
    file = disk.open(log.segment_path())
    image = disk.content(log.segment_path())
    # A sync that failed and was forgotten by the kernel: the cache has it, the disk has not.
    inode = disk._names[log.segment_path()]
    inode.durable[4096:] = bytes(len(image) - 4096)
    log._open()
    file.close()
    log.reopen_after_power_cut()
    assert log.journal.last_index == 3


def test_a_clean_stop_needs_no_second_writing(disk: SimulatedDisk) -> None:
    """With the floor at the end of the log recovery writes no entry again."""
    log = killed(disk, floor=True)
    before = disk.operations
    log._open()
    # Two slots, each written and synced; zeros behind the log's end and their sync; the names.
    assert disk.operations == before + 4 + 2 + 1


def test_headers_and_stray_bytes_are_mended(disk: SimulatedDisk) -> None:
    """What follows from the rest of the log is put right: the files are identical again."""
    log = LocalJournal(disk)
    for number in range(1, 9):
        log.append(bytes([number]) * 3500)
    log.close()
    paths = [it.path for it in log.journal.segments()]
    images = [disk.content(path) for path in paths]
    disk.flip_bit(paths[0], 100)
    disk.flip_bit(paths[1], 100)
    disk.flip_bit(paths[1], len(images[1]) * 8 - 1)
    log._open()
    assert log.journal.damage == []
    assert [disk.content(path) for path in paths] == images


@pytest.mark.promise("F22")
def test_a_file_cut_short_is_filled_again(disk: SimulatedDisk) -> None:
    """A segment has its full size again before anything is written to it."""
    log = killed(disk, floor=True)
    path, end = log.segment_path(), log.journal.segments()[0].bytes
    disk.replace_content(path, disk.content(path)[:end])
    log._open()
    assert len(disk.content(path)) == 16 * 1024


def test_a_segment_made_for_an_entry_that_never_came_is_removed(disk: SimulatedDisk) -> None:
    """The next entry may belong before it, so an empty last segment does not stay."""
    log = LocalJournal(disk)
    log.append(b"x" * 3000)
    job = log.stage(b"y" * 12_000)
    log.writer._end.begin(log.journal.tail.segments.last)
    log.journal.close()
    log._open()
    assert not job.is_done
    assert len(disk.list_directory(Path("/node/journal"))) == 1
    log.append(b"z")
    assert len(log.journal.segments()) == 1


def test_a_disk_that_refuses_is_a_failure(disk: SimulatedDisk) -> None:
    """Recovery that cannot write does not pretend."""
    log = killed(disk)
    disk.fail_next["sync"] = errno.EIO
    with pytest.raises(JournalFailedError, match="recovery could not write"):
        log._open()
    log._open()


def test_kept_bytes_never_overwrite_older_ones(disk: SimulatedDisk) -> None:
    """Two tails cut at the same place are both kept."""
    disk.make_directory(Path("/node"))
    file = disk.open(Path("/node/file"), create=True)
    file.write(b"abcdef", 0)
    segment = Segment(Path("/node"), SegmentHeader(1, 1, 0, bytes(16), 8192))
    first = keep_bytes(disk, LOST, segment, file, 1, 4)
    second = keep_bytes(disk, LOST, segment, file, 2, 4)
    assert first != second
    assert (disk.content(first), disk.content(second)) == (b"bcd", b"cd")


@pytest.mark.promise("F5", "F17")
@pytest.mark.parametrize(
    ("step", "number"), [("write", errno.EDQUOT), ("sync", errno.ENOSPC), ("create", errno.ENOSPC)]
)
def test_a_torn_end_is_cut_where_its_copy_finds_no_room(
    disk: SimulatedDisk, step: str, number: int
) -> None:
    """Some file systems tell of it only when they sync; nothing rests on the copy."""
    log = killed(disk)
    spoil(log, disk, 3, bytes(1024))

    def fail_the_copy() -> None:
        """Not a step of the log's own."""
        is_copying = step == "create" or (disk.exists(LOST) and disk.list_directory(LOST))
        disk.fail_next = {step: number} if is_copying and disk.exists(LOST) else {}

    disk.before_step = fail_the_copy
    log._open()
    disk.before_step = lambda: None
    assert (log.journal.last_index, log.journal.tail_state) == (2, "torn")
    assert log.journal.recovered_tail.kept is None
    assert [] == disk.list_directory(LOST)


@pytest.mark.promise("F5")
def test_the_file_systems_own_lost_and_found_keeps_no_node_from_starting(
    disk: SimulatedDisk,
) -> None:
    """A data directory may be the top of a disk: only the system's tools may write there."""
    log = killed(disk)
    bad = spoil(log, disk, 3, bytes(1024))
    disk.make_directory(LOST)
    disk.fail_next["create"] = errno.EACCES
    log._open()
    kept = log.journal.recovered_tail.kept
    assert kept is not None
    assert LOST.parent / "cut-off" == kept.parent
    assert disk.content(kept) == bad
    assert 2 == log.journal.last_index


@pytest.mark.promise("F5", "F19")
@pytest.mark.parametrize("is_alone", [False, True])
def test_an_end_that_cannot_be_read_is_cut(disk: SimulatedDisk, is_alone: bool) -> None:
    """A power cut in the middle of a sector leaves it unreadable until it is written again."""
    log = LocalJournal(disk, resolve_unknown_tail=is_alone)
    log.append(b"first")
    copy = log.append(b"y" * 9000)
    place = log.journal.place_of(2)
    log.journal.close()
    disk.make_unreadable(place.path, (place.byte + 5000) // 512)
    log._open()
    assert ("torn" if is_alone else "unknown") == log.journal.tail_state
    if not is_alone:
        log.perform(log.journal.stage([copy]))  # as a leader sends it
    assert log.writer.failure is None
    assert not disk.is_unreadable
    assert 1 == len(disk.list_directory(LOST))
    assert (1 if is_alone else 2) == log.reopen().last_index


def test_zeros_are_written_from_the_end(disk: SimulatedDisk) -> None:
    """Interrupted, the front part is whole: the rest is no longer than one run."""
    disk.make_directory(Path("/node"))
    file: DiskFile = disk.open(Path("/node/file"), create=True)
    size = 5 * MiB
    file.write(b"x" * size, 0)
    file.sync()
    disk.cut_at = disk.operations + 5
    with pytest.raises(PowerCut):
        zero_backwards(file, 100, size)
    data = disk.content(Path("/node/file"))
    assert data[: 1 * MiB] == b"x" * MiB
    assert not any(data[3 * MiB :])


def test_the_floor_is_noted_when_recovery_is_done(disk: SimulatedDisk) -> None:
    """What was verified and written again counts as durable from then on."""
    log = killed(disk)
    log._open()
    ballot = BallotFile(Path("/node/ballot"), disk).load()
    assert ballot is not None
    assert ballot.durable_floor == 3


def test_an_oversized_entry_is_recovered(disk: SimulatedDisk) -> None:
    """An entry larger than a segment has a segment of its own size."""
    log = LocalJournal(disk, settings=JournalSettings(segment_bytes=8192))
    entry = log.append(b"x" * 50_000)
    log.append(b"y")
    journal = log.reopen()
    assert journal.entry(1) == entry
    assert next(it.bytes for it in journal.segments()) == 4096 + len(entry.raw)


class Killed(BaseException):
    """The process ended between two steps; the system lives on."""


@pytest.mark.promise("F5")
@pytest.mark.parametrize("seed", range(8))
def test_what_was_cut_stays_away_after_a_kill_and_a_power_cut(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    The zeros over a cut entry were written, not synced, when the process was killed.

    The next process sees them and syncs only what it writes itself. Where that ends with a page,
    the old entry behind it would be back after a power cut, of an older term than the log's end.
    """
    disk = SimulatedDisk(seed)
    log = LocalJournal(disk)
    log.append(b"a" * 800)
    end = log.journal.place_of(1).byte + log.journal.place_of(1).size
    size = 2 * 4096 - end - HEADER_BYTES
    log.append(b"b" * size)
    log.append(b"old")

    def killed_in_the_sync(_file: SimulatedFile) -> None:
        raise Killed

    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(SimulatedFile, "sync", killed_in_the_sync)
        log.truncate(1)
    log.journal.close()
    log._open()
    assert log.journal.last_index == 1
    log.append(b"n" * size, term=7)
    place = log.journal.place_of(2)
    assert (place.byte + place.size) % 4096 == 0

    log.journal.close()
    journal = log.reopen_after_power_cut()

    assert (journal.last_index, journal.last_term, journal.damage) == (2, 7, [])


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("body", [b"x" * 1500, b"x" * 700 + bytes(1200) + b"y" * 90, bytes(1500)])
def test_a_cut_that_was_broken_off_is_no_damage(seed: int, body: bytes) -> None:
    """Wherever the power fails while entries are cut, what is left is whole or torn."""
    for step in range(1, 40):
        disk = SimulatedDisk(seed)
        log = LocalJournal(disk, settings=JournalSettings(segment_bytes=64 * 1024))
        log.append(b"what stays")
        for _ in range(4):
            log.append(body)
            log.append(b"z" * 433)
        log.writer.save_floor()
        disk.cut_at = disk.operations + step
        try:
            log.truncate(1)
        except PowerCut:
            pass
        else:
            break
        log.reopen_after_power_cut()
        assert log.journal.damage == []
        assert log.journal.last_index >= 1
    else:
        pytest.fail("the cut has no end")

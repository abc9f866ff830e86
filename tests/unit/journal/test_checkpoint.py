"""Checkpoints: complete or ignored, never trusted without the log's word."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from holdfast.errors import StoreError
from holdfast.journal.checkpoint import Checkpoint, CheckpointStore
from trials.simulation.local_journal import LocalJournal
from trials.simulation.simulated_disk import PowerCut, SimulatedDisk

DIRECTORY = Path("/node/checkpoints")


@pytest.fixture
def log(disk: SimulatedDisk) -> LocalJournal:
    log = LocalJournal(disk)
    for number in range(1, 9):
        log.append(bytes([number]) * 3500)
    return log


@pytest.fixture
def store(disk: SimulatedDisk) -> CheckpointStore:
    return CheckpointStore(Path("/node"), disk)


def save(
    store: CheckpointStore, log: LocalJournal, index: int, body: bytes = b"state", first: int = 1
) -> Path:
    entry = log.stored[index]
    parts = [body[:2], body[2:]]
    return store.save(index, entry.term, entry.chain, entry.next_record, first, parts)


def test_without_checkpoints_there_is_none(store: CheckpointStore, log: LocalJournal) -> None:
    """A new node has no checkpoint, which is no problem."""
    assert store.load_newest(100, log.journal) is None
    assert store.problems == []


def test_the_newest_is_loaded_whole(store: CheckpointStore, log: LocalJournal) -> None:
    """State and identity come back as saved."""
    save(store, log, 3, b"old")
    save(store, log, 5, b"new state")
    entry = log.stored[5]
    expected = Checkpoint(5, entry.term, entry.chain, entry.next_record, 1, b"new state")
    assert store.load_newest(8, log.journal) == expected


def test_one_of_a_log_that_began_later_is_not_used(
    store: CheckpointStore, log: LocalJournal
) -> None:
    """Of a half-filled log, when the one before it was taken back: it lacks what was before."""
    save(store, log, 3, b"old")
    save(store, log, 5, b"half", first=4)

    loaded = store.load_newest(8, log.journal)

    assert loaded is not None
    assert (3, b"old") == (loaded.index, loaded.body)
    assert "began with 4, and this one begins with 1" in store.problems[0]


def test_two_are_kept(store: CheckpointStore, log: LocalJournal, disk: SimulatedDisk) -> None:
    """A damaged newest one has a predecessor to fall back on; no more than that is kept."""
    for index in (2, 4, 6):
        save(store, log, index)
    assert [int(name[:20]) for name in disk.list_directory(DIRECTORY)] == [4, 6]


@pytest.mark.promise("F19")
def test_a_damaged_one_is_ignored_told_and_removed(
    store: CheckpointStore, log: LocalJournal, disk: SimulatedDisk
) -> None:
    """
    A flipped bit anywhere makes it useless; the older one serves, and keeps its place.

    Where the bit is one of the version, it may be a later program's, and is left.
    """
    save(store, log, 3)
    path = save(store, log, 5)
    good = disk.content(path)
    for bit in range(0, len(good) * 8, 29):
        disk.flip_bit(path, bit)
        found = store.load_newest(8, log.journal)
        assert found is not None
        assert found.index == 3
        assert disk.exists(path) == (bit < 6 * 8)
        path = save(store, log, 5)
        assert disk.content(path) == good
    assert "checkpoint 5 is ignored" in store.problems[0]
    disk.replace_content(path, disk.content(path)[:20])
    assert store.load_newest(8, log.journal) is not None
    assert "cut short. It is removed" in store.problems[-1]


def test_a_damaged_one_that_cannot_be_removed_is_no_failure(
    store: CheckpointStore, log: LocalJournal, disk: SimulatedDisk
) -> None:
    """It is met again at the next start."""
    path = save(store, log, 3)
    disk.flip_bit(path, 700)
    disk.fail_next["unlink"] = errno.EIO
    assert store.load_newest(8, log.journal) is None
    assert disk.exists(path)
    assert store.load_newest(8, log.journal) is None
    assert not disk.exists(path)


def test_a_damaged_one_beyond_what_is_committed_is_removed_too(
    store: CheckpointStore, log: LocalJournal, disk: SimulatedDisk
) -> None:
    """Else it would be met, and believed to be there, once the log has grown so far."""
    path = save(store, log, 5)
    disk.flip_bit(path, 700)
    assert store.load_newest(4, log.journal) is None
    assert not disk.exists(path)


def test_those_of_a_log_that_was_longer_do_not_take_the_new_ones_places(
    store: CheckpointStore, log: LocalJournal, disk: SimulatedDisk
) -> None:
    """A disk that was put back, or a log cut short: what is written from then on is kept."""
    save(store, log, 7)
    save(store, log, 8)
    for index in (2, 3, 4):
        save(store, log, index)
    assert [int(name[:20]) for name in disk.list_directory(DIRECTORY)] == [3, 4, 7, 8]


def test_one_from_another_log_is_ignored(store: CheckpointStore, log: LocalJournal) -> None:
    """Its chain value must be the log's at that index."""
    save(store, log, 5)
    log.truncate(4)
    log.append(b"another five", term=2)
    assert store.load_newest(8, log.journal) is None
    assert "another log" in store.problems[0]


def test_one_that_the_log_cannot_continue_is_ignored(
    store: CheckpointStore, log: LocalJournal
) -> None:
    """Neither ahead of the log nor before its first entry is it of use."""
    save(store, log, 2)
    save(store, log, 8)
    log.truncate(7)
    log.journal.drop_before(5)
    assert store.load_newest(8, log.journal) is None
    assert len(store.problems) == 2
    assert all("cannot continue it" in it for it in store.problems)


def test_one_just_before_the_first_kept_entry_is_used(
    store: CheckpointStore, log: LocalJournal
) -> None:
    """The segment header knows the chain value before its first entry."""
    base = log.journal.segments()[1].base_index
    save(store, log, base - 1)
    log.journal.drop_before(base)
    assert store.load_newest(8, log.journal) is not None


def test_one_beyond_what_is_committed_is_not_used(
    store: CheckpointStore, log: LocalJournal
) -> None:
    """A state that may yet be undone must not be started from."""
    save(store, log, 5)
    assert store.load_newest(4, log.journal) is None


def test_one_whose_entry_is_damaged_is_ignored(
    store: CheckpointStore, log: LocalJournal, disk: SimulatedDisk
) -> None:
    """If the log cannot confirm it, it is not used."""
    save(store, log, 5)
    place = log.journal.place_of(5)
    disk.flip_bit(place.path, place.byte * 8 + 300)
    log.journal.memory.tail.clear()
    assert store.load_newest(8, log.journal) is None
    assert "damaged" in store.problems[0]


@pytest.mark.parametrize("operation", ["create", "write", "sync", "rename", "sync_directory"])
def test_a_disk_that_refuses_costs_only_the_checkpoint(
    store: CheckpointStore, log: LocalJournal, disk: SimulatedDisk, operation: str
) -> None:
    """The error is told; the older checkpoint still serves."""
    save(store, log, 3)
    disk.fail_next[operation] = errno.ENOSPC
    with pytest.raises(StoreError, match="could not be written"):
        save(store, log, 5)
    found = store.load_newest(3, log.journal)
    assert found is not None
    assert found.index == 3


def test_what_does_not_read_back_is_told(
    store: CheckpointStore,
    log: LocalJournal,
    disk: SimulatedDisk,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is read again before anyone relies on it, and removed if it is not as written."""
    write = CheckpointStore._write
    monkeypatch.setattr(
        CheckpointStore,
        "_write",
        lambda self, draft, header, parts: write(self, draft, header, [b"other", *parts[1:]]),
    )
    with pytest.raises(StoreError, match="checksum of the state"):
        save(store, log, 3)
    assert list(disk.list_directory(DIRECTORY)) == []


@pytest.mark.promise("F29")
def test_a_power_cut_leaves_the_old_or_the_new(disk: SimulatedDisk) -> None:
    """F29: whichever operation is interrupted, some whole checkpoint is found."""
    for operation in range(1, 12):
        disk = SimulatedDisk(operation)
        log = LocalJournal(disk)
        for number in range(1, 6):
            log.append(bytes([number]) * 3500)
        store = CheckpointStore(Path("/node"), disk)
        save(store, log, 2)
        disk.cut_at = disk.operations + operation
        try:
            save(store, log, 4)
            disk.cut_at = 0
        except PowerCut:
            pass
        log.reopen_after_power_cut()
        found = CheckpointStore(Path("/node"), disk).load_newest(5, log.journal)
        assert found is not None
        assert found.index in (2, 4)
        assert found.body == b"state"


def test_an_unknown_version_is_named(
    store: CheckpointStore, log: LocalJournal, disk: SimulatedDisk
) -> None:
    """A later program's checkpoint is ignored by name."""
    import google_crc32c

    path = save(store, log, 3)
    data = bytearray(disk.content(path))
    data[4] = 9
    data[8:12] = bytes(4)
    data[8:12] = google_crc32c.value(bytes(data[:88])).to_bytes(4, "little")
    disk.replace_content(path, bytes(data))
    assert store.load_newest(8, log.journal) is None
    assert "version 9" in store.problems[0]


def test_an_unreadable_one_is_ignored(
    store: CheckpointStore, log: LocalJournal, disk: SimulatedDisk
) -> None:
    """EIO while reading costs start-up time, not the start."""
    path = save(store, log, 3)
    disk.make_unreadable(path, 0)
    assert store.load_newest(8, log.journal) is None
    assert "cannot be read" in store.problems[0]


def test_a_directory_that_cannot_be_read_is_told_and_costs_time_only(
    store: CheckpointStore, log: LocalJournal, disk: SimulatedDisk, monkeypatch
) -> None:
    """Rotten itself, or a file of that name: the node reads its log instead, as without any."""
    save(store, log, 3)

    def refused(_path: Path) -> list[str]:
        raise NotADirectoryError(errno.ENOTDIR, "Not a directory", "/data/checkpoints")

    monkeypatch.setattr(disk, "list_directory", refused)
    assert store.load_newest(8, log.journal) is None
    assert list(store.readable()) == []
    told = "checkpoints are ignored: [Errno 20] Not a directory: '/data/checkpoints'"
    assert store.problems == [told, told]


def test_old_ones_that_cannot_be_removed_are_no_failure(
    store: CheckpointStore, log: LocalJournal, disk: SimulatedDisk
) -> None:
    """The new checkpoint counts; the old file goes another time."""
    for index in (2, 4):
        save(store, log, index)
    disk.fail_next["unlink"] = errno.EIO
    save(store, log, 6)
    assert len(disk.list_directory(DIRECTORY)) == 3


def test_the_good_ones_are_given_newest_first(
    store: CheckpointStore, log: LocalJournal, disk: SimulatedDisk
) -> None:
    """
    For tools that want what a checkpoint tells without opening the journal.
    """
    assert [] == list(store.readable())
    save(store, log, 1, b"one")
    newest = save(store, log, 2, b"two")
    assert [2, 1] == [each.index for each in store.readable()]
    disk.flip_bit(newest, 500)
    assert [b"one"] == [each.body for each in store.readable()]

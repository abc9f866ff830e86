"""
Reading and judging the log of a data directory.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.cli import log_files
from holdfast.cli.log_files import LogFiles
from holdfast.environment.disk import RealDisk
from holdfast.errors import ConfigError, StoreError
from holdfast.journal.ballot import SLOT_BYTES, Ballot, BallotFile
from holdfast.journal.damage import Damage
from holdfast.journal.entry import Entry


@pytest.fixture(autouse=True)
def looks(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Looking again takes no time; how often it happened is kept."""
    looks: list[float] = []
    monkeypatch.setattr(log_files.time, "sleep", looks.append)
    return looks


def test_a_whole_log_is_clean(log, looks) -> None:
    """
    First and last entry, record and chain are what was written; one look was enough.
    """
    found = LogFiles(log.directory).verify()
    assert found.is_clean
    assert (found.segments, found.first_index, found.last_index) == (2, 1, 6)
    assert (found.last_chain, found.next_record) == (log.chain, log.record)
    assert looks == []


def test_progress_reaches_the_whole(log) -> None:
    """
    Long work tells how far it is.
    """
    seen: list[tuple[int, int]] = []
    LogFiles(log.directory).verify(lambda done, total: seen.append((done, total)))
    assert seen == [(16_384, 32_768), (32_768, 32_768)]


@pytest.mark.parametrize(("index", "segment"), [(3, 0), (5, 1)])
def test_damage_has_its_exact_place(log, index: int, segment: int) -> None:
    """
    Segment, byte and entry, in a sealed segment and in the one that is written.
    """
    byte = log.spoil(index)
    files = LogFiles(log.directory)
    found = files.verify()
    assert not found.is_clean
    assert [(each.segment, each.byte, each.index) for each in found.damage] == [
        (files.names[segment], byte, index)
    ]


def test_damage_in_two_segments_is_told_once_each(log) -> None:
    """
    Looking again at the last segment neither loses nor doubles what is wrong elsewhere.
    """
    log.spoil(2)
    log.spoil(5)
    assert [each.index for each in LogFiles(log.directory).verify().damage] == [2, 5]


def test_an_interrupted_write_is_no_damage(log) -> None:
    """
    Nobody was told that it was stored.
    """
    start = log.tear()
    found = LogFiles(log.directory).verify()
    assert (found.tail, found.tail_byte, found.is_clean) == ("torn", start, True)


def test_an_end_that_is_being_written_is_waited_for(log, looks, monkeypatch) -> None:
    """
    Beside a running node a half-written entry is whole a moment later.
    """
    start = log.tear()

    def sleep(seconds: float) -> None:
        looks.append(seconds)
        log.append(log.message(1, 4, b"y" * 4000))

    monkeypatch.setattr(log_files.time, "sleep", sleep)
    found = LogFiles(log.directory).verify()
    assert (found.tail, found.last_index, found.is_clean) == ("clean", 7, True)
    assert len(looks) == 1
    assert log.places[7][1] == start


def test_an_end_that_never_rests_is_called_moving(log, monkeypatch) -> None:
    """
    A busy node writes on and on; its end is not mistaken for damage.
    """
    log.roll(capacity=256 * 1024)
    log.tear()

    def sleep(seconds: float) -> None:
        log.append(log.message(1, 4, b"y" * 4000))
        log.tear()

    monkeypatch.setattr(log_files.time, "sleep", sleep)
    found = LogFiles(log.directory).verify()
    assert (found.tail, found.is_clean) == ("moving", True)


def test_entries_that_were_durable_are_never_called_torn(log) -> None:
    """
    The ballot's floor says that entry 7 was stored; it is missed.
    """
    ballot = BallotFile(log.directory / "ballot", RealDisk())
    ballot.save(Ballot(node_id=bytes(16)))
    ballot.save_floor(7)
    ballot.close()
    log.tear()
    found = LogFiles(log.directory).verify()
    assert not found.is_clean
    assert [each.index for each in found.damage] == [7]


def test_a_lost_ballot_is_damage(log) -> None:
    """
    The node must not vote any more, so the operator has to know.
    """
    (log.directory / "ballot").write_bytes(bytes(2 * SLOT_BYTES))
    found = LogFiles(log.directory).verify()
    assert not found.is_clean
    assert "unreadable" in found.ballot_problem


def test_nothing_is_written_and_no_lock_is_taken(log) -> None:
    """
    Not even the times of the files change; a lock that another holds does not matter.
    """
    lock = RealDisk().lock(log.directory / "lock")
    log.tear()

    def state() -> list[tuple[str, int, int]]:
        files = sorted(log.directory.rglob("*"))
        return [(str(f), f.stat().st_mtime_ns, f.stat().st_size) for f in files]

    before = state()
    files = LogFiles(log.directory)
    files.verify()
    list(files.entries(files.names))
    assert state() == before
    lock.release()


def test_a_directory_of_segments_alone_is_read(log) -> None:
    """
    A copied journal without the rest is enough.
    """
    assert LogFiles(log.journal).verify().last_index == 6


def test_what_is_no_data_directory_is_wrong_usage(tmp_path: Path) -> None:
    """
    The wrong directory is not a clean log of no entries.
    """
    with pytest.raises(ConfigError, match="no journal in it"):
        LogFiles(tmp_path)


def test_an_empty_journal_is_clean(tmp_path: Path) -> None:
    """
    A node that has just been made.
    """
    (tmp_path / "journal").mkdir()
    found = LogFiles(tmp_path).verify()
    assert (found.is_clean, found.segments, found.last_index) == (True, 0, 0)


def test_the_entries_of_a_missing_file_are_damage(log) -> None:
    """
    A gap between two segments cannot be passed over, neither by verify nor by dump.
    """
    log.roll()
    log.append(log.message(1, 9))
    log.places[4][0].unlink()
    files = LogFiles(log.directory)
    assert [each.index for each in files.verify().damage] == [4, 5, 6]
    found = list(files.entries(files.names))
    assert [(each.index, type(each)) for each in found[3:]] == [(4, Damage), (7, Entry)]
    assert "entries 4 to 6" in found[3].reason


def test_a_foreign_file_is_named(log) -> None:
    """
    What is no segment does not belong there, and is not silently passed over.
    """
    (log.journal / "notes.txt").write_text("?", encoding="utf-8")
    with pytest.raises(StoreError, match=r"notes.txt is no segment"):
        LogFiles(log.directory).verify()


def test_a_segment_dropped_meanwhile_is_no_error(log, monkeypatch) -> None:
    """
    The cleaner of a running node takes the oldest file away between listing and reading.
    """
    oldest, _ = log.places[1]
    listed = log_files._ReadingDisk.list_directory

    def list_and_drop(disk, path: Path) -> list[str]:
        names = listed(disk, path)
        oldest.unlink(missing_ok=True)
        return names

    monkeypatch.setattr(log_files._ReadingDisk, "list_directory", list_and_drop)
    files = LogFiles(log.directory)
    found = files.verify()
    assert (found.first_index, found.last_index, found.is_clean) == (4, 6, True)


def test_entries_come_in_order_with_damage_in_its_place(log) -> None:
    """
    What is good is read, also behind what is not.
    """
    log.spoil(2)
    files = LogFiles(log.directory)
    seen: list[tuple[int, int]] = []
    found = list(files.entries(files.names, lambda done, total: seen.append((done, total))))
    assert [each.index for each in found] == [1, 2, 3, 4, 5, 6]
    assert [type(each) for each in found[:3]] == [Entry, Damage, Entry]
    assert seen[-1] == (32_768, 32_768)


def test_a_damaged_header_block_is_told(log) -> None:
    """
    Entry 0 stands for the block before all entries.
    """
    path, _ = log.places[1]
    log.write(path, 0, b"????")
    files = LogFiles(log.directory)
    found = list(files.entries(files.names))
    assert isinstance(found[0], Damage)
    assert [each.index for each in found] == [0, 1, 2, 3, 4, 5, 6]


def test_a_range_needs_only_its_files(log) -> None:
    """
    A few entries out of a long log are found without reading it all.
    """
    files = LogFiles(log.directory)
    sizes = [(files.journal / name).stat().st_size for name in files.names]

    def read(from_index: int, to_index: int | None) -> tuple[list[int], int]:
        totals = set()
        found = files.between(from_index, to_index, lambda done, total: totals.add(total))
        indexes = [each.index for each in found]
        (total,) = totals
        return indexes, total

    assert read(1, None) == ([1, 2, 3, 4, 5, 6], sum(sizes))
    assert read(4, None) == ([4, 5, 6], sizes[1])
    assert read(3, 4) == ([3, 4], sum(sizes))
    assert read(1, 2) == ([1, 2], sizes[0])


def test_rot_between_two_readings_is_damage(log) -> None:
    """
    An entry that was good a moment ago is judged by what is read.
    """
    files = LogFiles(log.directory)
    entries = files.entries(files.names)
    assert next(entries).index == 1
    byte = log.spoil(2)
    found = next(entries)
    assert isinstance(found, Damage)
    assert (found.byte, found.index) == (byte, 2)

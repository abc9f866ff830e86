"""
Logs in files: whole, damaged, cut short, being written, in large entries.
"""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from holdfast.broker.lasting.snapshot import encode_state
from holdfast.broker.lasting.state import BrokerState
from holdfast.broker.settings import BrokerSettings
from holdfast.environment.disk import RealDisk
from holdfast.errors import RecordNotFoundError, SegmentsMissingError, StoreError
from holdfast.journal.ballot import Ballot, BallotFile
from holdfast.journal.checkpoint import CheckpointStore
from holdfast.journal.entry import entry_bytes, parse_entry, parse_header
from holdfast.journal.segment import SEGMENT_HEADER_BYTES
from holdfast.model.records import QueueRecord
from holdfast.spark.log import directory as log_directory
from holdfast.spark.log.directory import LogDirectory
from holdfast.spark.log.entry_block import EntryBlock
from holdfast.spark.log.source import DamagedRange
from holdfast.spark.pipelines.replica_audit import _ends
from holdfast.spark.pipelines.replica_proof import Replica
from trials.pipeline.written_log import CLUSTER_ID, WrittenLog, clean_first_segment, message

COUNT = 40


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Entry 1 declares a queue, 2 to 40 hold a message of 7 kB each, in segments of 64 KiB."""
    with WrittenLog(tmp_path / "node") as written:
        written.put(QueueRecord(1, "a"))
        for number in range(1, COUNT):
            written.put(message(1, number, bytes([number]) * 7_000))
    return tmp_path / "node"


def indexes(source: LogDirectory, first: int, last: int) -> list[object]:
    """The entries given, and damage as ("damage", first, last)."""
    found: list[object] = []
    for block in source.blocks(first, last):
        if isinstance(block, EntryBlock):
            found += block.indexes.tolist()
        else:
            found.append(("damage", block.first_index, block.last_index))
    return found


def segments(log: Path) -> list[Path]:
    return sorted((log / "journal").glob("*.segment"))


def places(path: Path) -> list[int]:
    """Where the entries of a segment begin."""
    data = path.read_bytes()
    found, offset, index = [], 4096, int(path.stem)
    while data[offset : offset + 4] == b"HFE1":
        entry = parse_entry(data, offset)
        assert entry.index == index + len(found)
        found.append(offset)
        offset += len(entry.raw)
    return found


def change(path: Path, offset: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(offset)
        file.write(data)


def test_the_position_is_that_of_the_files(log: Path) -> None:
    """Segments, last entry, and the cluster from the ballot."""
    position = LogDirectory(str(log)).position()
    assert (1, COUNT, CLUSTER_ID.hex()) == (
        position.first_index,
        position.last_index,
        position.cluster_id,
    )
    assert [int(path.stem) for path in segments(log)] == list(position.bases)
    assert len(position.bases) >= 4


@pytest.mark.parametrize(("first", "last"), [(1, COUNT), (7, 30), (9, 9), (COUNT, COUNT), (5, 4)])
def test_a_range_is_given_exactly(log: Path, first: int, last: int) -> None:
    """Over segments, from the middle, and none at all."""
    assert list(range(first, last + 1)) == indexes(LogDirectory(str(log)), first, last)


def test_the_journal_folder_alone_is_enough(log: Path, tmp_path: Path) -> None:
    """What somebody saved; the cluster's identity has to be told."""
    bare = tmp_path / "bare"
    shutil.copytree(log / "journal", bare)
    source = LogDirectory(str(bare), cluster_id="abc")
    assert (COUNT, "abc") == (source.position().last_index, source.position().cluster_id)
    assert list(range(1, COUNT + 1)) == indexes(source, 1, COUNT)
    assert {} == source.queue_names()


def test_an_entry_larger_than_a_block_is_read_whole(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Blocks are a measure, no limit."""
    monkeypatch.setattr(log_directory, "BLOCK_BYTES", 1_000)
    source = LogDirectory(str(log))
    assert COUNT == source.position().last_index
    assert list(range(3, COUNT + 1)) == indexes(source, 3, COUNT)


def test_a_damaged_body_costs_one_entry(log: Path) -> None:
    """The header tells where the next one is; the error tells where the damage is."""
    path = segments(log)[1]
    place = places(path)[2]
    change(path, place + 500, b"\xff\xfe")
    index = int(path.stem) + 2
    source = LogDirectory(str(log))
    wanted = [n if n != index else ("damage", n, n) for n in range(1, COUNT + 1)]
    assert wanted == indexes(source, 1, COUNT)
    damage = next(it for it in source.blocks(index, index) if isinstance(it, DamagedRange))
    assert f"{path.name} byte {place:,} (entry {index:,})" in str(damage.error)
    assert [index + 1] == indexes(source, index + 1, index + 1)


def test_damaged_headers_cost_their_entries(log: Path) -> None:
    """Where the log goes on is found as a node finds it."""
    path = segments(log)[1]
    third, fourth = places(path)[2:4]
    for place in (third, fourth):
        change(path, place + 20, b"\xff\xff\xff")
    index = int(path.stem) + 2
    found = indexes(LogDirectory(str(log)), 1, COUNT)
    damaged = {n for it in found if isinstance(it, tuple) for n in range(it[1], it[2] + 1)}
    assert {index, index + 1} == damaged
    assert COUNT - 2 == len([it for it in found if isinstance(it, int)])


def test_a_damaged_length_before_what_is_asked_for_accuses_no_good_entry(tmp_path: Path) -> None:
    """
    What is passed over is not verified, so its length may lead anywhere.
    """
    with WrittenLog(tmp_path) as written:
        for sequence in range(1, 9):
            written.put(message(1, sequence, b"%d" % sequence * 30))
    (path,) = (tmp_path / "journal").iterdir()
    data = bytearray(path.read_bytes())
    place = SEGMENT_HEADER_BYTES
    for _ in range(3):
        place += entry_bytes(parse_header(data[place:]).body_length)
    data[place + 53] ^= 1
    path.write_bytes(data)

    for first, damaged in ((1, {4}), (5, set()), (6, set())):
        found = list(LogDirectory(str(tmp_path)).blocks(first, 8))
        bad = [it for it in found if isinstance(it, DamagedRange)]
        assert damaged == {n for it in bad for n in range(it.first_index, it.last_index + 1)}
        covered = [n for it in found for n in range(it.first_index, it.last_index + 1)]
        assert list(range(first, 9)) == covered


def test_damage_in_the_last_segment_does_not_end_the_log(log: Path) -> None:
    """The ballot knows that it was stored: this is no torn write."""
    path = segments(log)[-1]
    change(path, places(path)[0] + 100, b"\xff\xfe")
    index = int(path.stem)
    source = LogDirectory(str(log))
    assert source.position().last_index == COUNT
    assert [("damage", index, index), *range(index + 1, COUNT + 1)] == indexes(source, index, COUNT)


def test_an_entry_that_is_being_written_is_not_there_yet(log: Path) -> None:
    """Its bytes come a moment later; nothing waits for them, nothing complains."""
    path = segments(log)[-1]
    last = places(path)[-1]
    size = path.stat().st_size
    change(path, last + 3_000, bytes(size - last - 3_000))
    (log / "ballot").unlink()  # it knows that this very entry was stored once
    source = LogDirectory(str(log))
    assert COUNT - 1 == source.position().last_index
    assert list(range(1, COUNT)) == indexes(source, 1, COUNT - 1)


def test_a_missing_segment_is_damage(log: Path) -> None:
    """All its entries, in one range."""
    gone, following = segments(log)[1:3]
    gone.unlink()
    found = indexes(LogDirectory(str(log)), 1, COUNT)
    assert ("damage", int(gone.stem), int(following.stem) - 1) in found


def test_missing_first_files_are_told(log: Path) -> None:
    """The ballot says from where on the log was kept: what is gone before that was not cleaned."""
    source = LogDirectory(str(log))
    segments(log)[0].unlink()

    for read in (source.position, lambda: indexes(source, 1, COUNT)):
        with pytest.raises(SegmentsMissingError, match=r"kept the log from entry 1 on"):
            read()
    for path in segments(log):
        path.unlink()
    with pytest.raises(SegmentsMissingError, match="no file of the log is left"):
        source.position()


def test_files_that_were_cleaned_are_not_missed(log: Path) -> None:
    """The ballot was raised before they went; a bare copy of the journal cannot know."""
    second = int(segments(log)[1].stem)
    clean_first_segment(log)
    assert LogDirectory(str(log)).position().first_index == second

    segments(log)[0].unlink()
    bare = LogDirectory(str(log / "journal"))
    assert bare.position().first_index > second


def test_a_node_that_has_stored_nothing_misses_nothing(tmp_path: Path) -> None:
    """It has a ballot, and no file yet."""
    ballot = BallotFile(tmp_path / "ballot", RealDisk())
    ballot.save(Ballot(node_id=bytes(16)))
    ballot.close()
    assert LogDirectory(str(tmp_path)).position().last_index == 0


def test_a_log_begun_anew_misses_nothing_before_its_first_entry(log: Path) -> None:
    """Its ballot says where it begins, and that nothing of it is stored."""
    with WrittenLog(log) as written:
        written.writer.turn([written.journal.stage_reset(100, 1, bytes(16), 200)])
    source = LogDirectory(str(log))
    position = source.position()
    assert 0 == position.last_index
    assert [] == _ends([Replica("a", source)], {"a": position})


def test_what_was_dropped_is_told(log: Path) -> None:
    """With where the log begins now."""
    second = segments(log)[1]
    clean_first_segment(log)
    source = LogDirectory(str(log))
    assert int(second.stem) == source.position().first_index
    with pytest.raises(RecordNotFoundError, match=f"begins with entry {int(second.stem)}"):
        indexes(source, 1, COUNT)


def test_a_segment_that_goes_while_it_is_planned_is_told(
    log: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The cleaner of a running node may come between the listing and the opening."""
    source = LogDirectory(str(log))
    bases = source.bases()
    monkeypatch.setattr(LogDirectory, "bases", lambda self: bases)
    segments(log)[0].unlink()
    with pytest.raises(RecordNotFoundError, match="was dropped while the log was read"):
        indexes(source, 1, COUNT)


def test_a_directory_without_a_log_is_refused(tmp_path: Path) -> None:
    """A misspelled path must not look like an empty log; a fresh node's is one."""
    for path in (tmp_path, tmp_path / "nowhere"):
        with pytest.raises(StoreError):
            LogDirectory(str(path)).position()
    with WrittenLog(tmp_path / "fresh"):
        pass
    assert 0 == LogDirectory(str(tmp_path / "fresh")).position().last_index


def test_names_come_from_the_newest_readable_checkpoint(log: Path) -> None:
    """A checkpoint is no truth, but names do not change."""
    state = BrokerState(BrokerSettings())
    state.apply(1, [QueueRecord(1, "a"), QueueRecord(2, "b")], 5)
    store = CheckpointStore(log, RealDisk())
    store.save(3, 1, bytes(16), 4, 1, encode_state(state))
    newest = store.save(9, 1, bytes(16), 10, 1, [b"of another format"])
    assert {1: "a", 2: "b"} == LogDirectory(str(log)).queue_names()
    newest.write_bytes(b"rotten")
    assert {1: "a", 2: "b"} == LogDirectory(str(log)).queue_names()


def test_bytes_reach_over_segments(log: Path) -> None:
    """At least one entry, at most what there is."""
    source = LogDirectory(str(log))
    assert 5 == source.reach(5, 1)
    assert 5 + 9 == source.reach(5, 10 * 7_200)
    assert COUNT == source.reach(5, 1 << 30)

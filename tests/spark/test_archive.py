"""The archive on real Spark: every entry exactly once, whatever is killed, merged or lost."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from holdfast.environment.disk import RealDisk
from holdfast.errors import ArchiveError
from holdfast.journal.ballot import Ballot, BallotFile
from holdfast.journal.entry import KIND_RECORDS, parse_entry
from holdfast.journal.scan import scan_log
from holdfast.model.records import MessageRecord
from holdfast.spark.archive.cleaning import sweep
from holdfast.spark.archive.source import ArchivedSource
from holdfast.spark.archive.store import Archive
from holdfast.spark.log.directory import LogDirectory
from holdfast.spark.log.proof import CommittedDirectory
from holdfast.spark.pipelines.archive import ArchiveSettings, archive_once, compact
from holdfast.spark.pipelines.written_ranges import LogRange, joined, merge_range, write_range
from holdfast.store.record_codec import decode_records
from trials.pipeline.operation_log import OperationLog
from trials.pipeline.written_log import clean_first_segment

Rows = list[tuple[int, int, int, bytes]]

ON_SPARK = """
from holdfast.spark.session import spark_session
spark = spark_session("killed", "local[1]", {"spark.driver.memory": "512m"})
"""
ON_PAPER = """
from trials.pipeline.paper_spark import PaperSpark
spark = PaperSpark()
"""
DRIVER = """
import sys
from holdfast.spark.archive.store import Archive
from holdfast.spark.log.directory import LogDirectory
from holdfast.spark.pipelines.archive import ArchiveSettings, archive_once
sys.stdout.write("begun\\n"); sys.stdout.flush()
archive_once(spark, LogDirectory(sys.argv[1]), Archive.open(sys.argv[2]),
             ArchiveSettings(tasks_per_commit=2))
"""


def walked(directory: Path) -> Rows:
    """Every message of a log, by the journal's own scan: nothing of the archive's code."""
    rows: Rows = []
    for segment in scan_log(directory / "journal", RealDisk()).segments:
        data = segment.path.read_bytes()
        for index in range(segment.base_index, segment.last_index + 1):
            entry = parse_entry(data, segment.place(index)[0])
            if entry.kind != KIND_RECORDS:
                continue
            rows += [
                (entry.index, record.queue_number, record.sequence, record.body or b"")
                for record in decode_records(entry.body)
                if isinstance(record, MessageRecord)
            ]
    return rows


def counted(archive: Path) -> Rows:
    """Every message of an archive, with plain JSON and pyarrow: nothing of the archive's code."""
    rows: Rows = []
    for manifest in sorted((archive / "_holdfast").glob("*.json")):
        for file in json.loads(manifest.read_text())["files"]:
            table = pq.read_table(archive / file["path"]).to_pylist()
            rows += [
                (row["index"], row["queue_number"], row["sequence"], row["body"])
                for row in table
                if row["kind"] == "message"
            ]
    return rows


@pytest.fixture
def log(tmp_path: Path) -> OperationLog:
    operations = OperationLog(tmp_path / "log", seed=3)
    operations.run(60)
    return operations


def test_a_log_is_archived_and_then_only_what_is_new(spark, log, tmp_path) -> None:
    """
    A second run adds what came since, a third adds nothing; every message is there exactly once.
    """
    archive = Archive.open(f"file://{tmp_path}/archive")
    source = LogDirectory(str(log.directory))
    held: list[int] = []

    first = archive_once(spark, source, archive, move_hold=held.append)
    log.run(40)
    second = archive_once(spark, source, archive, move_hold=held.append)
    third = archive_once(spark, source, archive)

    assert (62, 40, 0) == (first.entries, second.entries, third.entries)
    assert walked(log.directory) == counted(tmp_path / "archive")
    assert log.messages <= first.messages + second.messages
    assert (102, 0, 0) == (third.last_index, third.lag_entries, third.lag_records)
    assert sorted(held) == held
    assert 103 == held[-1]


def test_the_archive_is_a_log_byte_for_byte(spark, log, tmp_path) -> None:
    """
    Read back as a source, the archive gives the very entries that are in the segments.
    """
    archive_once(spark, LogDirectory(str(log.directory)), Archive.open(str(tmp_path / "archive")))

    source = ArchivedSource.open(str(tmp_path / "archive"))
    found = [b"".join(b.raw(p) for p in range(len(b))) for b in source.blocks(5, 40)]
    original = LogDirectory(str(log.directory)).blocks(5, 40)

    assert b"".join(b.raw(p) for b in original for p in range(len(b))) == b"".join(found)


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_kill_the_driver_three_times(spark, tmp_path) -> None:
    """
    Killed without warning at random moments, then completed: nothing is missing, nothing is double.

    A driver that was through before the kill was not killed; each finds more to do than the last.
    One has a Spark of its own; in the others the tasks run in the driver, so they die at once, too.
    """
    log = OperationLog(tmp_path / "log", seed=11, segment_bytes=8 * 1024)
    target = tmp_path / "archive"
    chance = random.Random(5)
    kills = tries = 0
    while kills < 3:
        tries += 1
        assert tries < 12, "it is always too quick for us"
        log.run(160)
        program = (ON_PAPER if kills else ON_SPARK) + DRIVER
        driver = subprocess.Popen(
            [sys.executable, "-c", program, str(log.directory), str(target)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        assert driver.stdout is not None
        with driver, driver.stdout:
            driver.stdout.readline()
            wanted = len(list(target.rglob("*.parquet"))) + chance.randint(1, 6)
            while len(list(target.rglob("*.parquet"))) < wanted and driver.poll() is None:
                time.sleep(0.002)
            time.sleep(chance.uniform(0, 0.05))
            with suppress(ProcessLookupError):
                os.killpg(driver.pid, signal.SIGKILL)
            driver.wait()
        if driver.returncode == -signal.SIGKILL:
            kills += 1
        else:
            assert driver.returncode == 0

    archive_once(spark, LogDirectory(str(log.directory)), Archive.open(str(target)))

    assert walked(log.directory) == counted(target)


def test_what_a_killed_task_left_does_not_count(spark, log, tmp_path) -> None:
    """
    Files that no manifest names are no part of the archive, and are set aside once they are old.
    """
    archive = Archive.open(str(tmp_path / "archive"))
    source = LogDirectory(str(log.directory))
    write_range(LogRange(1, 30, "00" * 16), source=source, archive=archive, names={})

    archive_once(spark, source, archive)
    before = len(list((tmp_path / "archive" / "records").rglob("*.parquet")))
    young = sweep(archive, now_microseconds=time.time_ns() // 1000)
    old = sweep(archive, now_microseconds=time.time_ns() // 1000 + 25 * 3600 * 1_000_000)

    assert (0, 1) == (young, old)
    assert before - 1 == len(list((tmp_path / "archive" / "records").rglob("*.parquet")))
    assert walked(log.directory) == counted(tmp_path / "archive")


def test_small_ranges_are_merged(spark, tmp_path) -> None:
    """
    Many small ranges become one; a crash between its publication and the removal does no harm.
    """
    log = OperationLog(tmp_path / "log", seed=4)
    archive, source = Archive.open(str(tmp_path / "archive")), LogDirectory(str(log.directory))
    for _ in range(6):
        log.run(8)
        archive_once(spark, source, archive)
    group = list(archive.catalogue().ranges)
    merged = merge_range(group, archive=archive, compression="zstd")
    archive.publish(joined([merged], group[0].cluster_id))  # and now it "crashes"

    between = archive.catalogue()
    tomorrow = time.time_ns() // 1000 + 25 * 3600 * 1_000_000
    sweep(archive, now_microseconds=tomorrow, keep_seconds=0)
    again = compact(spark, archive, ArchiveSettings(compact_count_min=2))

    assert (1, len(group)) == (len(between.ranges), len(between.superseded))
    assert 0 == again
    assert 1 == len(list((tmp_path / "archive" / "_holdfast").iterdir()))
    assert 1 == len(list((tmp_path / "archive" / "records").rglob("*.parquet")))
    assert walked(log.directory) == counted(tmp_path / "archive")


def test_compacting_keeps_every_entry(spark, tmp_path) -> None:
    """
    The command's own compaction gives the same log with fewer ranges.
    """
    log = OperationLog(tmp_path / "log", seed=5)
    archive, source = Archive.open(str(tmp_path / "archive")), LogDirectory(str(log.directory))
    for _ in range(4):
        log.run(5)
        archive_once(spark, source, archive)

    gone = compact(spark, archive, ArchiveSettings(compact_count_min=2))

    catalogue = archive.catalogue()
    assert (1, (), ()) == (len(catalogue.ranges), catalogue.breaks, catalogue.superseded)
    assert gone >= 3
    assert walked(log.directory) == counted(tmp_path / "archive")


def test_a_log_cleaned_too_early_is_refused(spark, log, tmp_path) -> None:
    """
    Entries that are gone before they were archived are named, and only accepted on demand.
    """
    archive = Archive.open(str(tmp_path / "archive"))
    source = LogDirectory(str(log.directory))
    bases = source.position().bases
    for base in bases[1:]:
        (log.directory / "journal" / f"{base:020d}.segment").rename(tmp_path / str(base))
    archive_once(spark, source, archive)
    for base in bases[1:]:
        (tmp_path / str(base)).rename(log.directory / "journal" / f"{base:020d}.segment")
    for _ in bases[:2]:
        clean_first_segment(log.directory)

    with pytest.raises(ArchiveError, match="cleaned from the log before"):
        archive_once(spark, source, archive)
    progress = archive_once(spark, source, archive, ArchiveSettings(accept_gap=True))

    assert 1 == len(progress.warnings)
    assert ["gap"] == [each.kind for each in archive.catalogue().breaks]


def test_another_clusters_log_is_refused(spark, log, tmp_path) -> None:
    """
    An archive is of one cluster; a log with another identity is not added to it.
    """
    archive = Archive.open(str(tmp_path / "archive"))
    archive_once(spark, LogDirectory(str(log.directory)), archive)
    other = LogDirectory(str(log.directory), cluster_id="ff" * 16)

    with pytest.raises(ArchiveError, match="an archive of its own"):
        archive_once(spark, other, archive)


def test_a_damaged_log_is_not_archived(spark, log, tmp_path) -> None:
    """
    The error names the entry, and nothing of the damaged commit is published.
    """
    path = sorted((log.directory / "journal").iterdir())[1]
    data = bytearray(path.read_bytes())
    data[4096 + 200] ^= 1
    path.write_bytes(data)
    archive = Archive.open(str(tmp_path / "archive"))

    with pytest.raises(Exception, match="checksum is wrong"):
        archive_once(spark, LogDirectory(str(log.directory)), archive)

    assert archive.catalogue().last_index < int(path.stem)


def test_an_empty_log(spark, tmp_path) -> None:
    """
    A log without entries makes no archive and no error.
    """
    empty = tmp_path / "empty"
    (empty / "journal").mkdir(parents=True)
    ballot = BallotFile(empty / "ballot", RealDisk())
    ballot.save(Ballot(node_id=bytes(16)))
    ballot.close()

    progress = archive_once(spark, LogDirectory(str(empty)), Archive.open(str(tmp_path / "a")))

    assert (0, 0) == (progress.entries, progress.commits)


def test_the_end_of_a_single_nodes_log_is_certain(log) -> None:
    """
    With one voter everything stored is committed.
    """
    directory = str(log.directory)

    assert LogDirectory(directory).position() == CommittedDirectory(directory).position()

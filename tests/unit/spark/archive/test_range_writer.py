"""Ranges as data files: one per day, and nothing left of what was given up."""

from __future__ import annotations

import errno
from pathlib import Path

import pyarrow as pa
import pytest

from holdfast.model.records import QueueRecord
from holdfast.spark.archive.places import DurableFile, Place
from holdfast.spark.archive.range_writer import (
    COMPRESSION,
    RangeWriter,
    new_attempt,
    remove_attempt,
)
from holdfast.spark.archive.store import Archive
from holdfast.spark.log.directory import LogDirectory
from holdfast.spark.log.proof import blocks_of
from trials.pipeline.written_log import WrittenLog, block_of, message

BLOCK = block_of([QueueRecord(1, "q")], [message(1, 1, b"a"), message(1, 2, b"b")])
START = bytes(16).hex()


def test_a_new_day_begins_a_new_file(tmp_path: Path) -> None:
    """
    Folders are days of log time, so no file holds two.
    """
    with WrittenLog(tmp_path / "log") as log:
        log.put(QueueRecord(1, "q"))
        log.time += 24 * 3600 * 1_000_000
        log.put(message(1, 1))
    archive = Archive.open(str(tmp_path / "archive"))
    writer = archive.writer(START, {})

    for block in blocks_of(LogDirectory(str(tmp_path / "log")), 1, 2):
        writer.add(block)
    files = writer.finish()

    assert ["2023-11-14", "2023-11-15"] == [file.day for file in files]
    assert files[0].chain_after == files[1].chain_before


def test_an_abandoned_writer_leaves_nothing(tmp_path: Path) -> None:
    """
    A failed task removes what it wrote.
    """
    archive = Archive.open(str(tmp_path))
    writer = archive.writer(START, {})
    writer.add(BLOCK)

    writer.abandon()

    assert [] == list(tmp_path.rglob("*.parquet"))


def test_a_full_disk_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """
    Not even what has a footer still to be written, for which there is no room either.
    """
    write, room = DurableFile.write, [1000]

    def limited(self: DurableFile, data: bytes | pa.Buffer) -> int:
        if len(data) > room[0]:
            room[0] = 0
            raise OSError(errno.ENOSPC, "No space left on device")
        room[0] -= len(data)
        return write(self, data)

    monkeypatch.setattr(DurableFile, "write", limited)
    writer = Archive.open(str(tmp_path)).writer(START, {})
    with pytest.raises(OSError, match="No space"):
        writer.add(BLOCK)
        writer.finish()

    writer.abandon()

    assert [] == list(tmp_path.rglob("*.parquet"))


def test_what_cannot_be_removed_is_no_error_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    A store that lets nothing go must not hide why the job failed.
    """

    def refused(*_: object) -> None:
        raise OSError(errno.EIO, "Input/output error")

    writer = Archive.open(str(tmp_path)).writer(START, {})
    writer.add(BLOCK)
    monkeypatch.setattr(Place, "remove", refused)

    writer.abandon()


def test_the_files_of_one_attempt_are_known(tmp_path: Path) -> None:
    """
    They go, and those of another one and of earlier days stay.
    """
    place = Place(str(tmp_path))
    with WrittenLog(tmp_path / "log") as log:
        log.put(QueueRecord(1, "q"))
        log.time += 24 * 3600 * 1_000_000
        log.put(message(1, 1))
    failed, good = new_attempt(), new_attempt()
    for attempt in (failed, good):
        writer = RangeWriter(place, START, {}, COMPRESSION, attempt)
        for block in blocks_of(LogDirectory(str(tmp_path / "log")), 1, 2):
            writer.add(block)
        writer.finish()

    remove_attempt(place, failed, "2023-11-15")
    left = [path for path in (tmp_path / "records").rglob("*.parquet") if failed in path.name]
    assert ["day=2023-11-14"] == [path.parent.name for path in left]
    remove_attempt(place, failed, "")

    names = [path.name for path in (tmp_path / "records").rglob("*.parquet")]
    assert 2 == len(names)
    assert all(good in name for name in names)

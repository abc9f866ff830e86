"""Ranges as data files: one per day, and nothing left of what was given up."""

from __future__ import annotations

from pathlib import Path

from holdfast.model.records import QueueRecord
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

"""
Ranges that are merged: the rows of the merged file are those of the files it replaces.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from holdfast.journal.entry import KIND_NOOP
from holdfast.model.records import AcknowledgeRecord, QueueRecord
from holdfast.spark.archive.store import Archive
from holdfast.spark.log.directory import LogDirectory
from holdfast.spark.pipelines.written_ranges import joined, merge_range
from trials.pipeline.written_archive import archived_log
from trials.pipeline.written_log import WrittenLog, message

PER_RANGE = 2


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    """Queues are declared in the first range, one later, and one nowhere."""
    with WrittenLog(tmp_path / "log") as written:
        written.put(QueueRecord(1, "orders"), QueueRecord(2, "bills"))
        for number in range(1, 4):
            written.put(message(1, number, b"x", b"", "p"), message(2, number))
            written.put(message(7, number, b"of a queue without a name"))
        written.put(kind=KIND_NOOP)
        written.put(QueueRecord(3, "late"), message(3, 1), message(1, 4, b"", b"a:b\n"))
        written.put(AcknowledgeRecord(2, [1, 2]))
        written.put(message(3, 2), message(2, 4))
    log = LogDirectory(str(tmp_path / "log"))
    return archived_log(log, tmp_path / "archive", per_range=PER_RANGE)


def rows(archive: Archive) -> pa.Table:
    files = archive.catalogue().files()
    return pa.Table.from_batches([batch for file in files for batch in archive.batches(file)])


@pytest.mark.parametrize("begin", [0, 1, 3])
def test_merged_rows_are_what_they_were(archive: Archive, begin: int) -> None:
    """Also the names of queues that were declared before the ranges that are merged."""
    before = rows(archive)
    group = list(archive.catalogue().ranges[begin : begin + 3])
    merged = merge_range(group, archive=archive, compression="snappy")
    archive.publish(joined([merged], group[0].cluster_id))

    assert len(archive.catalogue().superseded) == len(group) == 3
    after = rows(archive)
    assert after == before
    assert {"orders", "bills", "late", None} == set(after.column("destination").to_pylist())

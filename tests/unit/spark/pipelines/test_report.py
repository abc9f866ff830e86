"""
What of the report needs no Spark: points in time, curves made of counts, and how far it reads.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from holdfast.model.records import QueueRecord
from holdfast.spark.log.source import LogSource
from holdfast.spark.pipelines import report
from holdfast.spark.pipelines.report import POINTS_MAX, SECOND, Buckets, _backlog, _handed_out
from holdfast.spark.source.batch_reader import BatchReader
from holdfast.spark.source.options import read_options
from trials.pipeline.paper_spark import PaperSpark
from trials.pipeline.written_log import WrittenLog, message

HOUR = 3600 * SECOND


@pytest.mark.parametrize("length", [0, 1, 90 * SECOND, 119 * SECOND, HOUR, 90 * 24 * HOUR])
@pytest.mark.parametrize("first", [0, 1_700_000_000_123_456])
def test_buckets_cover_the_time_with_few_points(first: int, length: int) -> None:
    """The first and the last moment have a bucket, whatever the length."""
    found = Buckets.covering(first, first + length)
    assert found.start <= first
    assert 1 <= found.count <= POINTS_MAX
    assert found.start + found.count * found.step > first + length


def test_what_stands_above_the_mark_was_not_handed_out() -> None:
    """Ten stored, the mark at four: four; later the mark passes all that are there."""
    curves = {"stored": [10, 0, 5], "acknowledged": [0, 0, 0]}
    assert _handed_out(curves, [10, 0, 15], [4, 4096, 0]) == [4, 6, 5]


def test_what_was_acknowledged_was_handed_out() -> None:
    """A mark that was cleaned away does not make the report claim the impossible."""
    curves = {"stored": [10, 0], "acknowledged": [0, 7]}
    assert _handed_out(curves, [10, 0], [0, 0]) == [0, 7]


def test_the_backlog_is_what_came_less_what_went() -> None:
    """All ways to go count."""
    curves = {
        "stored": [12, 6],
        "acknowledged": [3, 0],
        "expired": [2, 1],
        "dropped": [0, 0],
        "dead-lettered": [0, 1],
        "purged": [0, 11],
    }
    curves |= {"moved": [0, 0], "removed": [0, 0], "fired": [0, 0], "skipped": [0, 0]}
    assert _backlog(curves) == [7, 0]


@pytest.mark.parametrize(("asked", "expected"), [({}, [1, 2]), ({"end_index": "1"}, [1])])
def test_what_is_counted_is_what_is_said_to_be_in_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: dict[str, str], expected: list[int]
) -> None:
    """A log that grows between the look how far it goes and the reading is read so far."""
    with WrittenLog(tmp_path) as log:
        log.put(QueueRecord(1, "orders"))
        log.put(message(1, 1))

        def load(_: Any, options: dict[str, str], __: LogSource) -> list[int]:
            log.put(message(1, 2))
            reader = BatchReader(read_options(options))
            batches = [batch for part in reader.partitions() for batch in reader.read(part)]
            return [index for batch in batches for index in batch.column("index").to_pylist()]

        monkeypatch.setattr(report, "load_stretches", load)
        monkeypatch.setattr(report, "summarize", lambda read: {"read": read})
        spark: Any = PaperSpark()
        found = report.make_report(spark, {"path": str(tmp_path), **asked})
    assert (found["read"], found["source"]["last_index"]) == (expected, 2)

"""
Offsets, limits and holds, called as Spark calls them; the log is a list of numbers.
"""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows

from holdfast.errors import RecordNotFoundError
from holdfast.spark.log_client import RemoteLog
from holdfast.spark.log_source import LogPosition
from holdfast.spark.options import read_options
from holdfast.spark.stream_reader import StreamReader


class PaperLog(RemoteLog):
    """A cluster whose log begins at 5 and has segments of ten entries of 100 bytes."""

    last = 30
    asked: list[tuple[str, str, Any]]

    def position(self) -> LogPosition:
        return LogPosition(first_index=5, last_index=self.last, cluster_id="c", bases=(5, 15, 25))

    def queue_names(self) -> dict[int, str]:
        return {1: "a"}

    def reach(self, from_index: int, bytes_max: int) -> int:
        return min(self.last, from_index + bytes_max // 100 - 1)

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        self.asked.append((method, path, body))
        return {}


@pytest.fixture
def log() -> PaperLog:
    paper = PaperLog(("a:1",))
    object.__setattr__(paper, "asked", [])
    return paper


def reader(log: PaperLog, **options: str) -> StreamReader:
    made = StreamReader(read_options({"url": "http://a:1", **options}))
    made.source = log
    return made


def test_a_query_begins_with_the_first_entry_kept(log: PaperLog) -> None:
    """Unless it is told otherwise; its hold is set before anything is read."""
    assert {"index": 4} == reader(log).initialOffset()
    assert {"index": 30} == reader(log, start_index="latest").initialOffset()
    assert [] == log.asked
    assert {"index": 9} == reader(log, start_index="10", hold="h").initialOffset()
    assert [("POST", "/holds/h", {"index": 10, "bytes_max": 16 << 30})] == log.asked


def test_a_start_that_is_gone_is_refused(log: PaperLog) -> None:
    """Beginning later would lose entries in silence."""
    with pytest.raises(RecordNotFoundError, match="start_index 3"):
        reader(log, start_index="3").initialOffset()


def test_a_batch_goes_to_the_end_unless_it_is_limited(log: PaperLog) -> None:
    """By entries, by bytes, by both; a trigger that wants all gets all."""

    def reached(limit: object = None, **options: str) -> int:
        made = reader(log, **options)
        return made.latestOffset({"index": 9}, limit or made.getDefaultReadLimit())["index"]

    assert 30 == reached()
    assert 12 == reached(maxEntriesPerTrigger="3")
    assert 14 == reached(maxBytesPerTrigger="500")
    assert 11 == reached(maxBytesPerTrigger="500", maxEntriesPerTrigger="2")
    assert 30 == reached(ReadAllAvailable(), maxEntriesPerTrigger="3")
    assert 20 == reached(end_index="20")


def test_the_limit_is_told_to_spark(log: PaperLog) -> None:
    """It hands it back with each question."""
    assert isinstance(reader(log).getDefaultReadLimit(), ReadAllAvailable)
    assert ReadMaxBytes(500) == reader(log, maxBytesPerTrigger="500").getDefaultReadLimit()
    assert ReadMaxRows(3) == reader(log, maxEntriesPerTrigger="3").getDefaultReadLimit()


def test_nothing_new_is_the_same_offset(log: PaperLog) -> None:
    """Also when a node answers that is behind the one asked before."""
    for index in (30, 33):
        assert {"index": index} == reader(log).latestOffset({"index": index}, ReadAllAvailable())
    assert {"index": 30} == reader(log).reportLatestOffset()


def test_available_now_ends_where_the_log_was(log: PaperLog) -> None:
    """However much is published meanwhile."""
    made = reader(log)
    made.prepareForTriggerAvailableNow()
    PaperLog.last = 50
    try:
        assert {"index": 30} == made.latestOffset({"index": 4}, ReadAllAvailable())
        assert {"index": 30} == made.latestOffset({"index": 30}, ReadAllAvailable())
    finally:
        PaperLog.last = 30


def test_a_batch_is_planned_by_segments(log: PaperLog) -> None:
    """From behind the start to the end, both as offsets."""
    parts = reader(log).partitions({"index": 9}, {"index": 26})
    assert [(10, 14), (15, 24), (25, 26)] == [(it.first_index, it.last_index) for it in parts]
    assert {1: "a"} == parts[0].names
    assert [] == reader(log).partitions({"index": 9}, {"index": 9})


def test_the_hold_moves_with_what_is_done(log: PaperLog) -> None:
    """The next entry is the first that is kept; without a hold nobody is asked."""
    reader(log).commit({"index": 20})
    assert [] == log.asked
    reader(log, hold="h", holdBytesMax="1g").commit({"index": 20})
    assert [("POST", "/holds/h", {"index": 21, "bytes_max": 1 << 30})] == log.asked

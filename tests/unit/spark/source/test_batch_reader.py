"""
Planning and reading without Spark: the reader's methods, called as Spark calls them.
"""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.datasource import DataSourceReader, EqualTo, GreaterThan, InputPartition

from holdfast.errors import CorruptEntryError, RecordNotFoundError, StoreError
from holdfast.model.records import AcknowledgeRecord, QueueRecord
from holdfast.spark.log.client import RemoteLog
from holdfast.spark.log.directory import LogDirectory
from holdfast.spark.log.entry_block import EntryBlock
from holdfast.spark.log.source import DamagedRange, LogPosition
from holdfast.spark.source import batch_reader
from holdfast.spark.source.batch_reader import BatchReader
from holdfast.spark.source.options import read_options
from holdfast.spark.source.partitions import BacklogPartition, LogPartition
from trials.pipeline.written_log import CLUSTER_ID, WrittenLog, clean_first_segment, message

COUNT = 40


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Messages 1 to 38 in entries 2 to 39; entry 40 acknowledges all but 3 and 30."""
    with WrittenLog(tmp_path) as written:
        written.put(QueueRecord(1, "a"))
        for number in range(1, COUNT - 1):
            written.put(message(1, number, bytes(7_000)))
        written.put(AcknowledgeRecord(1, [n for n in range(1, COUNT - 1) if n not in (3, 30)]))
    return tmp_path


def reader(log: Path, **options: str) -> BatchReader:
    return BatchReader(read_options({"path": str(log), **options}))


def rows(made: BatchReader) -> list[dict]:
    """Plan, send to an executor and read, as Spark does."""
    executor = pickle.loads(pickle.dumps(made))
    partitions = pickle.loads(pickle.dumps(made.partitions()))
    return [row for it in partitions for batch in executor.read(it) for row in batch.to_pylist()]


def test_a_plan_has_a_part_per_segment(log: Path) -> None:
    """Together they are the log; each knows the cluster."""
    parts = reader(log).partitions()
    assert all(isinstance(part, LogPartition) for part in parts)
    assert {CLUSTER_ID.hex()} == {part.cluster_id for part in parts}
    covered = [n for part in parts for n in range(part.first_index, part.last_index + 1)]
    assert list(range(1, COUNT + 1)) == covered
    assert len(parts) >= 4
    assert list(range(1, COUNT - 1)) == [row["sequence"] for row in rows(reader(log))]


@pytest.mark.parametrize(("wanted", "planned"), [(3, 0), (9, 9), (25, 25), (1_000, COUNT)])
def test_a_plan_has_as_many_parts_as_are_asked_for(log: Path, wanted: int, planned: int) -> None:
    """No entry is cut, and a part of a segment gives the rows that the segment would give."""
    made = reader(log, minPartitions=str(wanted))
    parts = made.partitions()
    covered = [n for part in parts for n in range(part.first_index, part.last_index + 1)]
    assert list(range(1, COUNT + 1)) == covered
    assert len(parts) == (planned or len(reader(log).partitions()))
    assert rows(reader(log)) == rows(made)
    backlog = reader(log, view="backlog", as_of="39")
    more = reader(log, view="backlog", as_of="39", minPartitions=str(wanted))
    assert (len(more.partitions()) > len(backlog.partitions())) == (planned > 0)
    assert rows(backlog) == rows(more)


def test_conditions_narrow_the_plan(log: Path) -> None:
    """Spark keeps all of them; entries beyond need not be planned."""
    made = reader(log)
    conditions = [GreaterThan(("index",), 30), EqualTo(("destination",), "a")]
    assert conditions == list(made.pushFilters(conditions))
    assert made.partitions()[0].first_index == 31
    assert list(range(30, COUNT - 1)) == [row["sequence"] for row in rows(made)]


def test_the_reader_passes_for_one_that_takes_no_conditions() -> None:
    """What Spark looks at before it refuses a session without pushdown."""
    made = reader(Path("/x"))
    assert made.pushFilters.__func__ is DataSourceReader.pushFilters


def test_an_empty_range_has_no_parts(log: Path) -> None:
    """Spark then reads its own placeholder, which has no rows."""
    made = reader(log, start_index="41")
    assert [] == made.partitions()
    assert [] == list(made.read(InputPartition(None)))


def test_a_backlog_plans_only_where_something_lives(log: Path) -> None:
    """Two messages in two segments: two short parts."""
    made = reader(log, view="backlog")
    parts = made.partitions()
    assert [(4, 4), (31, 31)] == [(part.first_index, part.last_index) for part in parts]
    assert all(isinstance(part, BacklogPartition) for part in parts)
    assert [3, 30] == [row["sequence"] for row in rows(made)]
    assert COUNT - 2 == len(rows(reader(log, view="backlog", as_of="39")))


def test_a_backlog_of_a_moment_that_is_not_in_the_log_is_refused(log: Path) -> None:
    """Neither beyond its end nor before its beginning."""
    with pytest.raises(RecordNotFoundError, match="as_of 41"):
        reader(log, view="backlog", as_of="41").partitions()
    clean_first_segment(log)
    with pytest.raises(RecordNotFoundError, match="as_of 3"):
        reader(log, view="backlog", as_of="3").partitions()


def test_a_start_before_the_log_is_an_error_not_a_shorter_table(log: Path) -> None:
    """Entries that were asked for and are gone are told."""
    clean_first_segment(log)
    with pytest.raises(RecordNotFoundError, match="no longer"):
        rows(reader(log, start_index="2"))
    assert rows(reader(log))


def test_what_is_gone_is_left_out_where_nobody_minds(log: Path) -> None:
    """Before the plan is made, and between plan and task."""
    made = reader(log, start_index="2", failOnDataLoss="false")
    whole = made.partitions()
    clean_first_segment(log)
    left = reader(log).partitions()
    first = left[0].first_index
    assert 2 < first
    expected = list(range(first - 1, COUNT - 1))
    assert expected == [row["sequence"] for row in rows(made)]
    late = [it for part in whole for batch in made.read(part) for it in batch.to_pylist()]
    assert expected == [row["sequence"] for row in late]


def test_a_read_from_an_offset_of_another_log_is_refused(log: Path) -> None:
    """Its number may be in both."""
    offset = {"index": 3, "cluster": CLUSTER_ID.hex(), "generation": 0}
    made = reader(log, startingOffsets=json.dumps(offset))
    assert 4 == made.partitions()[0].first_index
    with pytest.raises(StoreError, match="of cluster ab"):
        reader(log, startingOffsets=json.dumps(offset | {"cluster": "ab"})).partitions()
    with pytest.raises(StoreError, match="behind entry 3"):
        reader(log, endingOffsets=json.dumps(offset | {"chain": "00" * 16})).partitions()


def test_a_damaged_log_has_no_backlog_unless_it_is_reported(log: Path) -> None:
    """The missing entry could be an acknowledgement."""
    path = sorted((log / "journal").glob("*.segment"))[1]
    data = bytearray(path.read_bytes())
    data[4096 + 200] ^= 1
    path.write_bytes(data)
    with pytest.raises(CorruptEntryError):
        reader(log, view="backlog").partitions()
    assert [3, 30] == [
        row["sequence"]
        for row in rows(reader(log, view="backlog", mode="report"))
        if row["problem"] is None
    ]


class BusyCluster(RemoteLog):
    """A cluster of one node that cleans its log as soon as it may; its files are in a folder."""

    directory: Path
    holds: dict[str, int]

    def position(self) -> LogPosition:
        return LogDirectory(str(self.directory)).position()

    def blocks(self, first_index: int, last_index: int) -> Iterator[EntryBlock | DamagedRange]:
        return LogDirectory(str(self.directory)).blocks(first_index, last_index)

    def queue_names(self) -> dict[int, str]:
        return {1: "a"}

    def ask(self, method: str, path: str, body: dict[str, Any] | None = None, **_: Any) -> Any:
        if method == "DELETE":
            return {"released": self.holds.pop(path)}
        assert body is not None
        if not body.get("only_renews"):
            self.holds[path] = max(int(body["index"]), self.position().first_index)
        return {"index": self.holds[path]}

    def clean(self) -> None:
        """Drop the first segment, unless somebody wants it."""
        following = self.position().bases[1]
        if all(index >= following for index in self.holds.values()):
            clean_first_segment(self.directory)


@pytest.fixture
def cluster(log: Path, monkeypatch: pytest.MonkeyPatch) -> BusyCluster:
    made = BusyCluster(("a:1",))
    object.__setattr__(made, "directory", log)
    object.__setattr__(made, "holds", {})
    monkeypatch.setattr(batch_reader, "open_source", lambda _options: made)
    return made


@pytest.mark.parametrize("view", ["messages", "backlog"])
def test_what_is_planned_is_held_until_it_is_read(cluster: BusyCluster, view: str) -> None:
    """The cleaner comes between the plan and its tasks."""
    made = BatchReader(read_options({"url": "http://a:1", "view": view}))
    planned = made.partitions()
    cluster.clean()
    found = [row for it in planned for batch in made.read(it) for row in batch.to_pylist()]
    wanted = list(range(1, COUNT - 1)) if view == "messages" else [3, 30]
    assert wanted == [row["sequence"] for row in found]


def test_no_more_is_held_than_is_planned(cluster: BusyCluster) -> None:
    """And nothing where there is nothing to read, or where it has been read."""
    position = cluster.position()
    last = position.bases[-1]

    def plan(**options: str) -> tuple[BatchReader, list[InputPartition]]:
        made = BatchReader(read_options({"url": "http://a:1", **options}))
        return made, made.partitions()

    plan(start_index=str(COUNT + 1))
    assert {} == cluster.holds
    with pytest.raises(RecordNotFoundError):
        plan(view="backlog", as_of=str(COUNT + 1))
    assert {} == cluster.holds
    made, (alone,) = plan(start_index=str(last))
    assert [last] == list(cluster.holds.values())
    assert list(made.read(alone))
    assert {} == cluster.holds


def test_who_wants_damage_reported_sees_it_whatever_is_asked_for(log: Path) -> None:
    """Spark is not left with a condition that would drop the row."""
    made = reader(log, mode="report")
    assert [] == list(made.pushFilters([EqualTo(("destination",), "b")]))
    path = sorted((log / "journal").glob("*.segment"))[1]
    data = bytearray(path.read_bytes())
    data[4096 + 200] ^= 1
    path.write_bytes(data)
    assert [int(path.stem)] == [row["index"] for row in rows(made)]
    plain = reader(log)
    assert 1 == len(list(plain.pushFilters([EqualTo(("destination",), "b")])))


def test_damage_is_reported_once_however_many_parts_are_read(log: Path) -> None:
    """And what lies beside it is as it is with a part per segment."""
    path = sorted((log / "journal").glob("*.segment"))[1]
    data = bytearray(path.read_bytes())
    data[4096 + 200 + 7_100 * 2] ^= 1
    path.write_bytes(data)
    whole = rows(reader(log, mode="report"))
    assert 1 == sum(row["problem"] is not None for row in whole)
    for wanted in (10, 25, 40):
        assert whole == rows(reader(log, mode="report", minPartitions=str(wanted)))

"""
Offsets, limits and holds, called as Spark calls them; the log is a list of numbers.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows

from holdfast.errors import RecordNotFoundError, StoreError
from holdfast.journal.entry import Entry
from holdfast.spark.log import holds
from holdfast.spark.log.client import RemoteLog
from holdfast.spark.log.entry_block import EntryBlock, cut_entries
from holdfast.spark.log.source import LogPosition
from holdfast.spark.source import stream_reader
from holdfast.spark.source.options import read_options
from holdfast.spark.source.stream_reader import StreamReader
from trials.pipeline.written_log import message, sealed


def entries(parts_at: int = 99) -> list[Entry]:
    """Sixty entries; from `parts_at` on they are others."""
    bodies = (b"new" if n >= parts_at else b"old" for n in range(1, 61))
    return sealed(*([message(1, n, body)] for n, body in enumerate(bodies, 1)))


ENTRIES = entries()


class PaperLog(RemoteLog):
    """A cluster whose log begins at 5 and has segments of ten entries of 100 bytes."""

    last = 30
    cluster = "c"
    generation = 0
    entries = ENTRIES
    asked: list[tuple[str, str, Any]]
    read: list[int]
    kept = 0
    """What all nodes have cleaned away ends before it."""

    def position(self) -> LogPosition:
        return LogPosition(
            first_index=max(5, self.kept),
            last_index=self.last,
            cluster_id=self.cluster,
            bases=(5, 15, 25),
            generation=self.generation,
        )

    def blocks(self, first_index: int, last_index: int) -> Iterator[EntryBlock]:
        self.read.append(first_index)
        if first_index < self.kept:
            raise RecordNotFoundError(f"entry {first_index} is no longer in the log")
        raws = [entry.raw for entry in self.entries[first_index - 1 : last_index]]
        yield cut_entries(b"".join(raws), first_index)

    def become(self, **changes: Any) -> None:
        """What happened to the cluster."""
        for name, value in changes.items():
            object.__setattr__(self, name, value)

    def queue_names(self) -> dict[int, str]:
        return {1: "a"}

    def reach(self, from_index: int, bytes_max: int) -> int:
        return min(self.last, from_index + bytes_max // 100 - 1)

    def ask(
        self, method: str, path: str, body: dict[str, Any] | None = None, **_: Any
    ) -> dict[str, Any]:
        self.asked.append((method, path, body))
        return {"index": (body or {}).get("index", 0), "held_bytes": 700}


@pytest.fixture
def log() -> PaperLog:
    paper = PaperLog(("a:1",))
    paper.become(asked=[], read=[])
    return paper


def at(index: int, generation: int = 0) -> dict[str, Any]:
    """The offset of everything through an entry of the log as it was first."""
    chain = ENTRIES[index - 1].chain.hex()
    return {"index": index, "cluster": "c", "generation": generation, "chain": chain}


def reader(log: PaperLog, **options: str) -> StreamReader:
    made = StreamReader(read_options({"url": "http://a:1", **options}))
    made.source = log
    if made.hold is not None:
        made.hold.log = log
    return made


def asked_for(index: int, **more: int) -> dict[str, Any]:
    return {"index": index, "or_first": False, "expiry_seconds": 7 * 86_400} | more


def test_a_query_begins_with_the_first_entry_kept(log: PaperLog) -> None:
    """Unless it is told otherwise; its hold is set before anything is read."""
    unproven = {"index": 4, "cluster": "c", "generation": 0}
    assert unproven == reader(log).initialOffset()
    assert at(30) == reader(log, start_index="latest").initialOffset()
    assert [] == log.asked
    assert at(9) == reader(log, start_index="10", hold="h").initialOffset()
    assert [("POST", "/holds/h", asked_for(10))] == log.asked


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
        assert at(index) == reader(log).latestOffset(at(index), ReadAllAvailable())
    expected = {"index": 30, "cluster": "c", "generation": 0}
    assert expected == reader(log).reportLatestOffset()


def test_an_offset_never_runs_backwards(log: PaperLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a node says that is behind: rows between would come twice."""
    monkeypatch.setattr(PaperLog, "reach", lambda *_: 5)
    assert at(20) == reader(log, maxBytesPerTrigger="500").latestOffset(at(20), ReadMaxBytes(500))
    made = reader(log)
    end = made.latestOffset(at(20), ReadAllAvailable())
    log.become(last=22)
    assert end == made.latestOffset(end, ReadAllAvailable())
    told = made.reportLatestOffset()
    assert told is not None
    assert 30 == told["index"]


def test_available_now_ends_where_the_log_was(log: PaperLog) -> None:
    """However much is published meanwhile."""
    made = reader(log)
    made.prepareForTriggerAvailableNow()
    log.become(last=50)
    assert at(30) == made.latestOffset({"index": 4}, ReadAllAvailable())
    assert at(30) == made.latestOffset(at(30), ReadAllAvailable())


def test_a_batch_is_planned_by_segments(log: PaperLog) -> None:
    """From behind the start to the end, both as offsets."""
    parts = reader(log).partitions({"index": 9}, {"index": 26})
    assert [(10, 14), (15, 24), (25, 26)] == [(it.first_index, it.last_index) for it in parts]
    assert {1: "a"} == parts[0].names
    assert [] == reader(log).partitions({"index": 9}, {"index": 9})


def test_a_batch_has_as_many_parts_as_are_asked_for(log: PaperLog) -> None:
    """The longest are halved."""
    parts = reader(log, minPartitions="5").partitions({"index": 9}, {"index": 26})
    assert [(10, 12), (13, 14), (15, 19), (20, 24), (25, 26)] == [
        (it.first_index, it.last_index) for it in parts
    ]


def test_the_hold_moves_with_what_is_done(log: PaperLog) -> None:
    """The next entry is the first that is kept; without a hold nobody is asked."""
    reader(log).commit({"index": 20})
    assert [] == log.asked
    reader(log, hold="h", holdBytesMax="1g").commit({"index": 20})
    assert [("POST", "/holds/h", asked_for(21, bytes_max=1 << 30))] == log.asked


def test_the_hold_of_a_query_that_waits_is_renewed(
    log: PaperLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """
    Now and then, without moving it: the cluster ends the holds of readers that are not heard of.
    """
    now = [0.0]
    monkeypatch.setattr(holds.time, "monotonic", lambda: now[0])
    waiting = reader(log, hold="h", holdExpiry="1h")
    renewal = {"index": 31, "only_renews": True, "expiry_seconds": 3600}
    for seconds, renewals in ((0, 1), (800, 1), (901, 2), (1700, 2), (1900, 3)):
        now[0] = float(seconds)
        waiting.latestOffset(at(30), ReadAllAvailable())
        assert [("POST", "/holds/h", renewal)] * renewals == log.asked


def test_a_checkpoint_of_before_goes_on(log: PaperLog) -> None:
    """It names an entry and no log; the next offset names both."""
    assert at(30) == reader(log).latestOffset({"index": 9}, ReadAllAvailable())
    parts = reader(log).partitions({"index": 9}, {"index": 26})
    assert (10, 26) == (parts[0].first_index, parts[-1].last_index)


@pytest.mark.parametrize("index", [9, 30, 40])
def test_another_clusters_checkpoint_is_refused(log: PaperLog, index: int) -> None:
    """Also where that cluster's log is shorter: waiting would pass over what it gets."""
    log.become(cluster="d")
    with pytest.raises(StoreError, match="of cluster c, the log of cluster d"):
        reader(log).latestOffset(at(index), ReadAllAvailable())
    with pytest.raises(StoreError, match="of cluster c, the log of cluster d"):
        reader(log).partitions(at(index - 1), at(index))


def test_a_cluster_that_lost_what_was_taken_is_refused(log: PaperLog) -> None:
    """Its log has other entries there: new ones would be passed over in silence."""
    log.become(entries=entries(18))
    for start, end in ((20, 30), (9, 20)):
        with pytest.raises(StoreError, match="promoted by force"):
            reader(log).partitions(at(start), at(end))
    with pytest.raises(StoreError, match="behind entry 20"):
        reader(log).latestOffset(at(20), ReadAllAvailable())
    assert 30 == reader(log).latestOffset(at(17), ReadAllAvailable())["index"]


def test_a_promotion_under_a_running_query_is_seen(log: PaperLog) -> None:
    """What each batch begins with is proven, in whichever generation."""
    made = reader(log)
    begin = made.latestOffset(at(9), ReadAllAvailable())
    log.become(last=40)
    log.read.clear()
    begin = made.latestOffset(begin, ReadAllAvailable())
    assert [30, 40] == log.read
    log.become(last=50, generation=1)
    begin = made.latestOffset(begin, ReadAllAvailable())
    assert at(50, 1) == begin
    log.become(last=60, generation=2, entries=entries(45))
    with pytest.raises(StoreError, match="behind entry 50"):
        made.latestOffset(begin, ReadAllAvailable())


def test_a_log_that_was_put_back_under_a_running_query_is_seen(log: PaperLog) -> None:
    """
    Nobody was promoted: the nodes, or the files that are read, are an older copy that went on.
    """
    made = reader(log)
    assert at(30) == made.latestOffset({"index": 9}, ReadAllAvailable())
    log.become(entries=entries(parts_at=21), last=28)
    assert at(30) == made.latestOffset(at(30), ReadAllAvailable())
    log.become(last=40)
    with pytest.raises(StoreError, match="behind entry 30 it goes on otherwise"):
        made.latestOffset(at(30), ReadAllAvailable())


def test_a_cluster_that_was_cut_short_is_not_waited_for_forever(
    log: PaperLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Behind a promotion by force what is missing does not come; else a node may lag."""
    now = [0.0]
    monkeypatch.setattr(stream_reader.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(stream_reader.time, "sleep", lambda seconds: now.append(now.pop() + 20))
    log.become(generation=1)
    with pytest.raises(StoreError, match="ends with entry 30, before entry 40"):
        reader(log).latestOffset(at(40), ReadAllAvailable())
    assert 40 == now[0]
    assert at(40, 1) == reader(log).latestOffset(at(40, 1), ReadAllAvailable())


def test_what_is_gone_is_passed_over_where_nobody_minds(log: PaperLog) -> None:
    """The next batch begins at what is there, in full size; its progress tells how many are not."""
    log.become(kept=15)
    lenient = {"failOnDataLoss": "false", "maxEntriesPerTrigger": "3"}
    made = reader(log, start_index="8", hold="h", **lenient)
    assert 14 == made.initialOffset()["index"]
    assert [("POST", "/holds/h", asked_for(15) | {"or_first": True})] == log.asked
    made = reader(log, **lenient)
    start = at(9)
    end = made.latestOffset(start, made.getDefaultReadLimit())
    assert at(17) == end
    parts = made.partitions(start, end)
    assert [(15, 17)] == [(it.first_index, it.last_index) for it in parts]
    assert [] == made.partitions(at(5), at(9))
    told = made.reportLatestOffset()
    end = {"index": 30, "cluster": "c", "generation": 0}
    assert told == end | {"skipped": 9, "entries_behind": 13}


def test_progress_tells_how_far_behind_a_query_is_and_what_it_holds(log: PaperLog) -> None:
    """
    Behind the end of its newest batch, also of one that is repeated after a restart.

    What it holds the cluster says whenever the hold is set. A new query can begin at such a place.
    """
    end = {"index": 30, "cluster": "c", "generation": 0}
    made = reader(log, hold="h", maxEntriesPerTrigger="3")
    assert end | {"held_bytes": 0} == made.reportLatestOffset()
    start = made.initialOffset()
    assert end | {"held_bytes": 700, "entries_behind": 26} == made.reportLatestOffset()
    made.latestOffset(start, made.getDefaultReadLimit())
    told = made.reportLatestOffset()
    assert end | {"held_bytes": 700, "entries_behind": 23} == told
    again = reader(log)
    again.partitions(at(9), at(12))
    assert end | {"entries_behind": 18} == again.reportLatestOffset()
    log.become(last=40)
    assert 28 == (again.reportLatestOffset() or {})["entries_behind"]
    behind = reader(log, startingOffsets=json.dumps(told))
    assert 30 == behind.initialOffset()["index"]


def test_a_hold_that_has_ended_is_begun_again_where_nobody_minds(
    log: PaperLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At what is there; else the query ends."""

    def ask(
        self: PaperLog,
        method: str,
        path: str,
        body: dict[str, Any] | None = None,
        **_: Any,
    ) -> dict[str, Any]:
        self.asked.append((method, path, body))
        if not (body or {}).get("or_first"):
            raise RecordNotFoundError("the log does not go back to entry 10 any more")
        return {"index": 15}

    log.become(kept=15)
    monkeypatch.setattr(PaperLog, "ask", ask)
    with pytest.raises(RecordNotFoundError, match="entry 10"):
        reader(log, hold="h").latestOffset(at(9), ReadAllAvailable())
    log.asked.clear()
    lenient = reader(log, hold="h", failOnDataLoss="false")
    assert at(30) == lenient.latestOffset(at(9), ReadAllAvailable())
    assert [True, False] == ["only_renews" in (body or {}) for _, _, body in log.asked]


def test_a_query_begins_behind_an_offset_of_another_if_the_log_is_the_same(log: PaperLog) -> None:
    """As it stands in that query's progress; entries that are others are not taken for its."""
    offset = json.dumps(at(20))
    assert at(20) == reader(log, startingOffsets=offset).initialOffset()
    log.become(entries=entries(18))
    with pytest.raises(StoreError, match="behind entry 20"):
        reader(log, startingOffsets=offset).initialOffset()

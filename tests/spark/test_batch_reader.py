"""
Reading data directories with Spark: every row of every view is what the broker's own codec says.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from holdfast.journal.entry import KIND_NOOP, parse_entry
from holdfast.model.records import (
    AcknowledgeRecord,
    DeadLetterRecord,
    DeleteQueueRecord,
    DispatchMarkRecord,
    MessageRecord,
    PurgeRecord,
    QueueRecord,
)
from holdfast.spark.log.directory import LogDirectory
from trials.pipeline.written_archive import archived_log
from trials.pipeline.written_log import FIRST_TIME, WrittenLog, message

BEGIN = datetime.fromtimestamp(FIRST_TIME / 1e6, UTC)
BODIES = [b"", b"x", b"twelve bytes", b"more than twelve bytes", bytes(range(256)) * 40]


def load(spark: SparkSession, path: Path, **options: object) -> DataFrame:
    return spark.read.format("holdfast").options(**options).load(str(path))


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """
    Two queues over several segments: entry 1 declares them, entry 2 is the cluster's own, 3 to 42
    hold ten messages each, five per queue.
    """
    directory = tmp_path_factory.mktemp("log")
    headers = b"priority:7\ncorrelation-id:c\\c1\nshop:K\xc3\xb6ln\n"
    with WrittenLog(directory) as written:
        written.put(QueueRecord(1, "orders"), QueueRecord(2, "mail"))
        written.put(kind=KIND_NOOP)
        for place in range(40):
            records = []
            for number in range(5):
                sequence = place * 5 + number + 1
                records.append(message(1, sequence, BODIES[number], headers, "p"))
                records.append(message(2, sequence, BODIES[4]))
            written.put(*records)
    return directory


def test_messages_have_every_column(spark: SparkSession, log: Path) -> None:
    """Ids, times, headers and bodies of a message, looked up by its sequence."""
    frame = load(spark, log)
    assert frame.count() == 400
    row = frame.where("destination = 'orders' and sequence = 14").collect()[0].asDict()
    assert row.pop("stored_at").astimezone(UTC) == BEGIN + timedelta(seconds=4)
    assert bytes(row.pop("body")) == BODIES[3]
    assert row == {
        "index": 5,
        "ordinal": 6,
        "term": 1,
        "destination": "orders",
        "queue_number": 1,
        "sequence": 14,
        "message_id": "ID:00010203-1-14",
        "producer_id": "p",
        "producer_sequence": 14,
        "persistent": True,
        "priority": 7,
        "expires_at": None,
        "correlation_id": "c:1",
        "reply_to": None,
        "group_id": None,
        "rewritten": False,
        "headers": {"priority": "7", "correlation-id": "c:1", "shop": "Köln"},
        "body_size": len(BODIES[3]),
    }


def test_every_body_is_whole(spark: SparkSession, log: Path) -> None:
    """Lengths around the limits of Arrow's views, over all segments and both queues."""
    rows = load(spark, log, columns="destination,sequence,body").collect()
    for row in rows:
        wanted = BODIES[(row.sequence - 1) % 5] if row.destination == "orders" else BODIES[4]
        assert bytes(row.body) == wanted
    assert len({(row.destination, row.sequence) for row in rows}) == 400


def test_a_partition_is_a_segment(spark: SparkSession, log: Path) -> None:
    """All cores work."""
    files = list((log / "journal").glob("*.segment"))
    assert len(files) > 4
    assert load(spark, log, columns="index").rdd.getNumPartitions() == len(files)


def test_an_archive_gives_the_rows_of_its_log(
    spark: SparkSession, log: Path, tmp_path: Path
) -> None:
    """In every view, with conditions and without, whether it goes by columns or by entries."""
    archived_log(LogDirectory(str(log)), tmp_path / "archive", per_range=5)
    archive = tmp_path / "archive"
    views = {"messages": "*,record_number", "events": "*", "entries": "*,raw"}
    for view, columns in views.items():
        key = "index" if view == "entries" else "record_number"
        expected = load(spark, log, view=view, columns=columns).orderBy(key).collect()
        found = load(spark, archive, view=view, columns=columns)
        assert 1 < found.rdd.getNumPartitions() < 10
        assert expected == found.orderBy(key).collect()
    asked = "destination = 'mail' and index between 7 and 30 and sequence > 30"
    found, expected = (load(spark, path).where(asked) for path in (archive, log))
    assert 80 < found.count() == expected.count()
    assert 400 == load(spark, archive, view="backlog").count()


def test_ranges_and_times_choose_entries(spark: SparkSession, log: Path) -> None:
    """By index both ends count; a start by time counts, an end by time does not."""

    def indexes(**options: object) -> list[int]:
        frame = load(spark, log, columns="index", **options)
        return sorted(row["index"] for row in frame.distinct().collect())

    assert indexes(start_index=5, end_index=7) == [5, 6, 7]
    late = (BEGIN + timedelta(seconds=39.5)).isoformat()
    end = (BEGIN + timedelta(seconds=41)).isoformat()
    assert indexes(start_time=late) == [41, 42]
    assert indexes(start_time=late, end_time=end) == [41]
    assert indexes(start_index=43) == []
    assert indexes(start_time="2030-01-01") == []


def test_conditions_give_the_same_rows_pushed_or_not(spark: SparkSession, log: Path) -> None:
    """What is decided early must be what Spark would decide."""
    moment = BEGIN + timedelta(seconds=20)
    cases = [
        (f.col("destination").isin("mail", "nothing"), lambda row: row.destination == "mail"),
        (
            (f.col("sequence") > 10) & (f.col("sequence") <= 12) & (f.col("destination") == "mail"),
            lambda row: row.sequence in (11, 12) and row.destination == "mail",
        ),
        (f.col("stored_at") >= moment, lambda row: row.stored_at.astimezone(UTC) >= moment),
        ((f.col("index") < 10) & ~(f.col("sequence") < 9), lambda row: 9 <= row.sequence <= 35),
        (f.col("sequence").isin(3, 199), lambda row: row.sequence in (3, 199)),
    ]
    frame = load(spark, log, columns="index,destination,sequence,stored_at")
    rows = frame.collect()
    for condition, is_wanted in cases:
        wanted = sorted(row for row in rows if is_wanted(row))
        assert wanted == sorted(frame.where(condition).collect())
        assert wanted


def test_a_session_without_pushdown_reads_all_the_same(spark: SparkSession, log: Path) -> None:
    """A notebook's own session does not have the setting on."""
    key = "spark.sql.python.filterPushdown.enabled"
    spark.conf.set(key, "false")
    try:
        assert load(spark, log).where("destination = 'mail'").count() == 200
    finally:
        spark.conf.set(key, "true")


def test_a_schema_of_the_users_own_is_a_choice_of_columns(spark: SparkSession, log: Path) -> None:
    """The other way to leave bodies alone."""
    reader = spark.read.format("holdfast").schema("sequence long, destination string")
    assert reader.load(str(log)).columns == ["sequence", "destination"]
    assert reader.load(str(log)).where("sequence = 1").count() == 2


def test_entries_carry_the_log_itself(spark: SparkSession, log: Path) -> None:
    """What an archive needs to be exact."""
    frame = load(spark, log, view="entries", columns="*,raw").orderBy("index")
    rows = frame.collect()
    assert [row["index"] for row in rows] == list(range(1, 43))
    assert [row.kind for row in rows[:3]] == ["records", "noop", "records"]
    for row in rows:
        entry = parse_entry(bytes(row.raw))
        assert (entry.index, entry.chain, entry.record_count) == (
            row["index"],
            bytes(row.chain),
            row.record_count,
        )


def test_events_tell_every_record(spark: SparkSession, log: Path) -> None:
    """One row per record, one per entry of the cluster's own, in order."""
    frame = load(spark, log, view="events")
    counts = {row["kind"]: row["count"] for row in frame.groupBy("kind").count().collect()}
    assert counts == {"declare": 2, "noop": 1, "enqueue": 400}
    row = frame.where("index = 4 and ordinal = 3").collect()[0]
    assert ("mail", 7, 7, 1) == (
        row.destination,
        row.first_sequence,
        row.last_sequence,
        row["count"],
    )
    assert frame.where("kind = 'enqueue' and destination = 'mail'").count() == 200


def test_an_empty_log_has_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    """Not an error: a cluster that has just been made."""
    with WrittenLog(tmp_path):
        pass
    for view in ("messages", "events", "entries", "backlog"):
        assert load(spark, tmp_path, view=view).count() == 0


def test_the_backlog_is_what_is_live_at_a_moment(spark: SparkSession, tmp_path: Path) -> None:
    """Acknowledged, rejected, purged and deleted messages are not; copies count once."""
    with WrittenLog(tmp_path) as written:
        written.put(QueueRecord(1, "a"), QueueRecord(2, "b"), QueueRecord(3, "c"))
        written.put(*(message(queue, n, b"%d" % n) for queue in (1, 2, 3) for n in range(1, 6)))
        written.put(AcknowledgeRecord(1, [1, 4]), DeadLetterRecord(1, [2]))  # entry 3
        written.put(PurgeRecord(2, 3), DispatchMarkRecord(1, 3))
        copy = message(1, 3, b"3")
        copy.rewritten = True
        written.put(copy)
        written.put(DeleteQueueRecord(3))  # entry 6

    def live(**options: object) -> set[tuple[str, int, int]]:
        rows = load(spark, tmp_path, view="backlog", **options).collect()
        assert all(bytes(row.body) == b"%d" % row.sequence for row in rows)
        return {(row.destination, row.sequence, row["index"]) for row in rows}

    assert len(live(as_of=2)) == 15
    assert live(as_of=3) >= {("a", 3, 2), ("a", 5, 2), ("b", 1, 2)}
    assert live() == {("a", 3, 5), ("a", 5, 2), ("b", 4, 2), ("b", 5, 2)}
    rows = load(spark, tmp_path, view="backlog").where("destination = 'a'").collect()
    assert {(row.sequence, row.may_have_been_seen) for row in rows} == {(3, True), (5, False)}


def damage(log: Path, index: int) -> tuple[str, int]:
    """Flip one bit in the body of an entry; give its segment and place."""
    bases = sorted(int(path.stem) for path in (log / "journal").glob("*.segment"))
    base = max(base for base in bases if base <= index)
    path = log / "journal" / f"{base:020d}.segment"
    data = bytearray(path.read_bytes())
    offset = 4096
    for _ in range(base, index):
        offset += len(parse_entry(bytes(data), offset).raw)
    data[offset + 100] ^= 1
    path.write_bytes(data)
    return path.name, offset


@pytest.fixture
def damaged(tmp_path: Path) -> tuple[Path, str, int]:
    with WrittenLog(tmp_path) as written:
        written.put(QueueRecord(1, "a"))
        for number in range(1, 30):
            written.put(message(1, number, bytes(7000)))
    name, place = damage(tmp_path, 12)
    return tmp_path, name, place


def test_damage_is_an_error_with_its_place(
    spark: SparkSession, damaged: tuple[Path, str, int]
) -> None:
    """Segment, byte and entry stand in what Spark shows."""
    path, name, place = damaged
    with pytest.raises(PySparkException, match=rf"{name} byte {place:,} \(entry 12\)"):
        load(spark, path).count()


def test_damage_can_be_reported_as_a_row(
    spark: SparkSession, damaged: tuple[Path, str, int]
) -> None:
    """All other messages come, and the one row says what is wrong."""
    path, name, place = damaged
    for view in ("messages", "events", "entries", "backlog"):
        all_rows = load(spark, path, view=view, mode="report").collect()
        rows = [row for row in all_rows if row.problem is not None]
        assert [12] == [row["index"] for row in rows]
        assert f"{name} byte {place:,}" in rows[0].problem
        assert {*range(2, 12), *range(13, 31)} == {row["index"] for row in all_rows} - {1, 12}


def test_damage_is_reported_whatever_is_asked_for(
    spark: SparkSession, damaged: tuple[Path, str, int]
) -> None:
    """A condition on anything else knows nothing of the damaged entry."""
    found = load(spark, damaged[0], mode="report").where("destination = 'a' and sequence < 3")
    assert [12] == [row["index"] for row in found.collect() if row.problem is not None]


def test_a_missing_segment_is_an_error(spark: SparkSession, damaged: tuple[Path, str, int]) -> None:
    """A hole is never passed over in silence."""
    path, name, _ = damaged
    (path / "journal" / name).unlink()
    with pytest.raises(PySparkException, match="missing"):
        load(spark, path).count()


def test_mistakes_are_told_at_once(spark: SparkSession, log: Path) -> None:
    """When the DataFrame is made, all together, before any task runs."""
    with pytest.raises(PySparkException, match=r"viev: there is no such option(.|\n)*mode: 'x'"):
        load(spark, log, viev="events", mode="x")
    with pytest.raises(PySparkException, match="no column 'bodi'"):
        load(spark, log, columns="bodi")
    with pytest.raises(PySparkException, match="cannot be read"):
        load(spark, log / "nowhere").count()


def test_bodies_of_one_byte_and_of_64_mib(spark: SparkSession, tmp_path: Path) -> None:
    """The smallest and the largest that the broker takes, in one log."""
    large = bytes(1024) * (64 * 1024)
    with WrittenLog(tmp_path) as written:
        written.put(QueueRecord(1, "a"))
        written.put(message(1, 1, large))
        written.put(*(message(1, n, b"x") for n in range(2, 40_002)))
    frame = load(spark, tmp_path)
    sizes = frame.groupBy(f.length("body").alias("size")).count().collect()
    assert {(len(large), 1), (1, 40_000)} == {(row["size"], row["count"]) for row in sizes}


def test_messages_without_content_are_cut_like_any(spark: SparkSession, tmp_path: Path) -> None:
    """No headers, no body, no producer: nothing to cut, still a row."""
    with WrittenLog(tmp_path) as written:
        written.put(MessageRecord(9, 1, b"", b"", 0))
    row = load(spark, tmp_path).collect()[0]
    assert (row.destination, bytes(row.body), row.headers, row.producer_id) == (None, b"", {}, None)


def test_a_worker_has_what_it_needs_before_its_first_task(spark: SparkSession) -> None:
    """It is forked from a daemon that has loaded it."""

    def looked(_: int) -> tuple[bool, bytes]:
        import sys
        from pathlib import Path

        words = Path("/proc/self/cmdline").read_bytes()
        return "holdfast.spark.pipelines.audit" in sys.modules, words

    ((is_loaded, words),) = spark.sparkContext.parallelize([0], 1).map(looked).collect()
    assert b"holdfast.spark.worker_daemon" in words.split(b"\0")
    assert is_loaded

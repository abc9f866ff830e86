"""
Report: what became of the messages, from the events of a log or an archive.

At the bottom is one table, `lives`: a row per message with when it was stored, when and how it was
settled, and who sent it. Everything in the report is an aggregate of it, made by Spark; what comes
to the driver has the size of the report, not of the log.

The log tells that messages up to a mark *may* have been delivered, no more: the report calls that
"delivered at most". A log that was cleaned has forgotten settled messages; the report says from
which entry on it knows.

Invariants:
    Every message is counted once on each queue on which it stands, however often the cleaner wrote
    it again; among those of its producer, and the largest, once in all.
    stored = acknowledged + expired + dropped + dead-lettered + purged + moved + removed + fired
    + skipped + backlog, per destination, per durable subscription and in total.
    What durable subscriptions were to get is in the total once, as a message of its topic.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

from holdfast.spark.archive.places import with_hadoop_options
from holdfast.spark.log.holds import held_for_a_while
from holdfast.spark.pipelines.message_lives import KnownQueues, known_queues, lives
from holdfast.spark.pipelines.stretches import gaps_of, load_stretches
from holdfast.spark.source.open_source import open_source
from holdfast.spark.source.options import read_options

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

POINTS_MAX: Final = 120
"""Most points of a curve."""

TOP_COUNT: Final = 10
SECOND: Final = 1_000_000
_STEPS: Final = tuple(
    seconds * SECOND
    for seconds in (
        *(1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 6 * 3600, 12 * 3600),
        *(86_400, 2 * 86_400, 7 * 86_400, 30 * 86_400, 365 * 86_400),
    )
)
_EVENT_COLUMNS: Final = (
    "index,record_number,time,kind,destination,queue_number,first_sequence,last_sequence,sequences,"
    "producer_id,stored_at,message_bytes,dispatch_mark,place_queues,place_sequences,skips,detail"
)
_PERCENTILES: Final = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
_FATES: Final = (
    *("acknowledged", "expired", "dropped", "dead-lettered"),
    *("purged", "moved", "removed", "fired", "skipped"),
)

Report = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Buckets:
    """The points in time of all curves: `count` steps from `start`, in microseconds."""

    start: int
    step: int
    count: int

    @classmethod
    def covering(cls, first: int, last: int) -> Buckets:
        """Return the finest buckets that cover this time with few enough points."""
        length = max(last - first, 1)
        place = bisect_left(_STEPS, -(-length // (POINTS_MAX - 1)))
        step = _STEPS[min(place, len(_STEPS) - 1)]
        start = first - first % step
        return cls(start, step, min((last - start) // step + 1, POINTS_MAX))

    def of(self, microseconds: Column) -> Column:
        """Return the bucket of a time as a column; what is outside goes to the nearest one."""
        from pyspark.sql import functions as f  # noqa: PLC0415 - the packages are an extra

        place = f.floor((microseconds - f.lit(self.start)) / f.lit(self.step))
        return f.greatest(f.lit(0), f.least(f.lit(self.count - 1), place)).cast("int")


def make_report(spark: SparkSession, source: dict[str, str]) -> Report:
    """
    Read the log of a cluster, a directory or an archive and tell what became of its messages.

    Args:
        source: `url` or `path` and other options of the data source.

    Returns:
        Values for JSON; times in ISO 8601 UTC, durations in seconds, sizes in bytes.

    Raises:
        HoldfastError: The source cannot be read.
    """
    options = with_hadoop_options(spark, source)
    options |= {"view": "events", "columns": _EVENT_COLUMNS}
    asked = read_options(options)
    log = open_source(asked)
    # What Spark has read and lost again, as with an executor, it reads once more.
    with held_for_a_while(log, "report") as kept_from:
        position = log.position()
        first_index = max(position.first_index, kept_from)
        # It goes on growing, and what is counted is what is said to be.
        through = min(asked.end_index or position.last_index, position.last_index)
        options["end_index"] = str(max(through, 1))
        found = summarize(load_stretches(spark, options, log))
    found["source"] = {
        "place": source.get("url") or source.get("path"),
        "cluster_id": position.cluster_id,
        "first_index": first_index,
        "last_index": position.last_index,
        "is_complete": first_index <= 1,
        "missing": gaps_of(log),
        "is_part": any(key.startswith(("start_", "end_")) for key in source),
    }
    return found


def summarize(events: DataFrame) -> Report:
    """Aggregate a table of events, see `make_report`; the table is read once."""
    from pyspark import StorageLevel  # noqa: PLC0415 - the packages are an extra

    kept = events.persist(StorageLevel.MEMORY_AND_DISK)
    known = known_queues(kept)
    table = lives(kept, known).persist(StorageLevel.MEMORY_AND_DISK)
    names = known.names
    try:
        totals, first, last = _totals(kept, table)
        report: Report = {"totals": totals, "from": None, "to": None}
        report["destinations"], report["subscriptions"] = [], []
        report["series"] = {"start": None, "step_seconds": 0}
        report["series"] |= {"destinations": {}, "subscriptions": {}}
        report["top_producers"] = _top_producers(table)
        report["largest_messages"] = _largest(table, names)
        if first is not None and last is not None:
            buckets = Buckets.covering(first, last)
            report["from"], report["to"] = _iso(first), _iso(last)
            report["destinations"], report["subscriptions"] = _told_of_each(table, known)
            report["series"] = _series(kept, table, buckets, known)
        return report
    finally:
        table.unpersist()
        kept.unpersist()


def _aggregates() -> list[Column]:
    """What is told of a set of messages, in total and per destination."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - the packages are an extra

    def number(condition: Column) -> Column:
        return f.sum(f.when(condition, 1).otherwise(0))

    is_live = f.col("fate").isNull()
    waited = f.when(
        f.col("fate") == "acknowledged",
        f.greatest(f.col("settled_at") - f.col("stored_at"), f.lit(0)),
    )
    found = [f.count(f.lit(1)).alias("stored"), f.sum("bytes").alias("stored_bytes")]
    found += [number(f.col("fate") == fate).alias(fate) for fate in _FATES]
    found += [
        number(is_live).alias("backlog"),
        f.sum(f.when(is_live, f.col("bytes")).otherwise(0)).alias("backlog_bytes"),
        f.min(f.when(is_live, f.col("stored_at"))).alias("oldest"),
        f.percentile_approx(waited, list(_PERCENTILES.values()), 10_000).alias("waits"),
        f.max(waited).alias("wait_max"),
    ]
    return found


def _told(row: Any) -> Report:
    waits = row["waits"] or [None] * len(_PERCENTILES)
    seconds = dict(zip(_PERCENTILES, waits, strict=True)) | {"max": row["wait_max"]}
    return {
        **{name: row[name] or 0 for name in ("stored", "stored_bytes", *_FATES)},
        "backlog": row["backlog"] or 0,
        "backlog_bytes": row["backlog_bytes"] or 0,
        "oldest_waiting": _iso(row["oldest"]),
        "seconds_to_acknowledge": {
            name: None if value is None else value / SECOND for name, value in seconds.items()
        },
    }


def _totals(events: DataFrame, table: DataFrame) -> tuple[Report, int | None, int | None]:
    from pyspark.sql import functions as f  # noqa: PLC0415 - the packages are an extra

    about_messages = f.col("kind").isin("enqueue", "acknowledge", "dead-letter", "purge", "move")
    span = events.agg(
        f.min(f.when(about_messages, f.unix_micros("time"))).alias("first"),
        f.max(f.when(about_messages, f.unix_micros("time"))).alias("last"),
        f.count(f.lit(1)).alias("events"),
    ).collect()[0]
    row = table.where("NOT is_delivery").agg(*_aggregates()).collect()[0]
    return {"events": span["events"], **_told(row)}, span["first"], span["last"]


def _told_of_each(table: DataFrame, known: KnownQueues) -> tuple[list[Report], list[Report]]:
    """Tell of each destination, and of each durable subscription."""
    rows = table.groupBy("queue_number").agg(*_aggregates(), *_delivered(known.marks)).collect()
    destinations, subscriptions = [], []
    for row in rows:
        number = row["queue_number"]
        # What was acknowledged was delivered, whatever a mark that was cleaned away has said.
        delivered = max(row["delivered"] or 0, row["acknowledged"] or 0)
        told = {"queue_number": number, **_told(row), "delivered_most": delivered}
        subscribed = known.subscriptions.get(number)
        if subscribed is None:
            destinations.append({"destination": known.names[number], **told})
            continue
        ended = _iso(subscribed.taker.ended_time)
        named = {
            "topic": subscribed.topic,
            "client_id": subscribed.client_id,
            "name": subscribed.name,
            "selector": subscribed.selector or None,
        }
        subscriptions.append(
            {"subscription": known.names[number], **named, "ended_at": ended, **told}
        )
    return (
        sorted(destinations, key=lambda each: (-each["stored"], each["destination"])),
        sorted(subscriptions, key=lambda each: (-each["backlog"], each["subscription"])),
    )


def _delivered(marks: dict[int, int]) -> list[Column]:
    """How many messages of a queue stand at or below its dispatch mark."""
    from pyspark.sql import functions as f  # noqa: PLC0415 - the packages are an extra

    if not marks:
        return [f.lit(0).alias("delivered")]
    pairs = [f.lit(value) for pair in marks.items() for value in pair]
    mark = f.coalesce(f.element_at(f.create_map(*pairs), f.col("queue_number")), f.lit(0))
    return [f.sum(f.when(f.col("sequence") <= mark, 1).otherwise(0)).alias("delivered")]


def _series(events: DataFrame, table: DataFrame, buckets: Buckets, known: KnownQueues) -> Report:
    """
    Return the curves over time: counts per bucket, backlog at its end.

    They are per destination and durable subscription; what came again under one name is one.
    """
    from pyspark.sql import functions as f  # noqa: PLC0415 - the packages are an extra

    curves: dict[int, dict[str, list[int]]] = defaultdict(
        lambda: {name: [0] * buckets.count for name in ("stored", *_FATES, "delivered_most")}
    )
    stored = table.groupBy("queue_number", buckets.of(f.col("stored_at")).alias("bucket"))
    highest: dict[int, list[int]] = defaultdict(lambda: [0] * buckets.count)
    for row in stored.agg(f.count(f.lit(1)).alias("n"), f.max("sequence").alias("top")).collect():
        curves[row["queue_number"]]["stored"][row["bucket"]] = row["n"]
        highest[row["queue_number"]][row["bucket"]] = row["top"]
    settled = table.where(f.col("fate").isNotNull()).groupBy(
        "queue_number", "fate", buckets.of(f.col("settled_at")).alias("bucket")
    )
    for row in settled.agg(f.count(f.lit(1)).alias("n")).collect():
        curves[row["queue_number"]][row["fate"]][row["bucket"]] = row["n"]
    marked = events.where("dispatch_mark is not null").groupBy(
        "queue_number", buckets.of(f.unix_micros("time")).alias("bucket")
    )
    marks: dict[int, list[int]] = defaultdict(lambda: [0] * buckets.count)
    for row in marked.agg(f.max("dispatch_mark").alias("mark")).collect():
        marks[row["queue_number"]][row["bucket"]] = row["mark"]
    for number, subscribed in known.subscriptions.items():
        of_topic = zip(marks[subscribed.taker.topic], marks[number], strict=True)
        marks[subscribed.taker.topic] = list(map(max, of_topic))
    for number, found in curves.items():
        found["delivered_most"] = _handed_out(found, highest[number], marks[number])
        found["backlog"] = _backlog(found)
    by_name: dict[str, dict[str, Report]] = {"destinations": {}, "subscriptions": {}}
    for number, found in sorted(curves.items()):
        group = by_name["subscriptions" if number in known.subscriptions else "destinations"]
        before = group.get(known.names[number])
        group[known.names[number]] = found if before is None else _added(before, found)
    return {"start": _iso(buckets.start), "step_seconds": buckets.step // SECOND, **by_name}


def _added(one: dict[str, list[int]], other: dict[str, list[int]]) -> dict[str, list[int]]:
    """Add curves point by point."""
    return {
        name: [sum(pair) for pair in zip(values, other[name], strict=True)]
        for name, values in one.items()
    }


def _handed_out(curves: dict[str, list[int]], highest: list[int], marks: list[int]) -> list[int]:
    """
    Return per bucket how many more messages may have been handed out by its end.

    Sequences are dense, so of the messages stored by then those above the mark were not. What was
    acknowledged was handed out, whatever a mark that was cleaned away has said.
    """
    found, before = [], 0
    tops, reached = accumulate(highest, max), accumulate(marks, max)
    totals, done = accumulate(curves["stored"]), accumulate(curves["acknowledged"])
    for top, mark, total, acknowledged in zip(tops, reached, totals, done, strict=True):
        below = min(total - max(top - mark, 0), total)
        now = max(below, acknowledged, before)
        found.append(now - before)
        before = now
    return found


def _backlog(curves: dict[str, list[int]]) -> list[int]:
    changes = [
        stored - sum(gone)
        for stored, *gone in zip(curves["stored"], *(curves[fate] for fate in _FATES), strict=True)
    ]
    return list(accumulate(changes))


def _top_producers(table: DataFrame) -> list[Report]:
    from pyspark.sql import functions as f  # noqa: PLC0415 - the packages are an extra

    rows = (
        table.where("is_first")
        .groupBy("producer_id")
        .agg(
            f.count(f.lit(1)).alias("messages"),
            f.sum("bytes").alias("bytes"),
            f.min("stored_at").alias("first"),
            f.max("stored_at").alias("last"),
        )
        .orderBy(f.desc("messages"), "producer_id")
        .limit(TOP_COUNT)
        .collect()
    )
    return [
        {
            "producer_id": row["producer_id"],
            "messages": row["messages"],
            "bytes": row["bytes"],
            "first": _iso(row["first"]),
            "last": _iso(row["last"]),
        }
        for row in rows
    ]


def _largest(table: DataFrame, names: dict[int, str]) -> list[Report]:
    from pyspark.sql import functions as f  # noqa: PLC0415 - the packages are an extra

    rows = (
        table.where("is_first")
        .orderBy(f.desc("bytes"), "index", "queue_number", "sequence")
        .limit(TOP_COUNT)
        .collect()
    )
    return [
        {
            "destination": names[row["queue_number"]],
            "sequence": row["sequence"],
            "index": row["index"],
            "bytes": row["bytes"],
            "stored_at": _iso(row["stored_at"]),
            "fate": row["fate"] or "waiting",
        }
        for row in rows
    ]


def _iso(microseconds: int | None) -> str | None:
    if microseconds is None:
        return None
    moment = datetime.fromtimestamp(microseconds / SECOND, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
